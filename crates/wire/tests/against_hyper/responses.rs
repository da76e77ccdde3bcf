//! Responses and what is read from them: status and body, or `None` where they are refused or cut.

type Case = (Vec<u8>, Option<(u16, &'static [u8])>);

/// Every case as its bytes and what must be read from it as the answer to a GET.
pub(crate) fn cases() -> Vec<Case> {
    let served = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, "hello")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n", (200, "hello")),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", (200, "")),
        ("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", (200, "")),
        ("HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: \r\nContent-Length: 2\r\n\r\n{}", (200, "{}")),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", (200, "until the end")),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", (200, "until the end")),
        ("HTTP/1.0 503 Busy\r\nContent-Length: 2\r\n\r\n{}", (503, "{}")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", (200, "hello")),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\nX: y\r\n\r\n",
            (200, "hello"),
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", (204, "")),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", (304, "")),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", (200, "ok")),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            (200, "ok"),
        ),
    ];
    let refused = [
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5,5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
        "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
        "<html>Bad gateway</html>",
        "",
    ];
    let served = served.map(|(text, (status, body))| (text.into(), Some((status, body.as_bytes()))));
    served.into_iter().chain(refused.map(|text| (text.into(), None))).collect()
}
