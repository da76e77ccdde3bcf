use super::request;
use crate::http1::{HeadError, MAX_HEAD, MAX_HEADERS, RequestFraming, parse_request};

fn refusal(text: impl AsRef<[u8]>) -> HeadError {
    match parse_request(text.as_ref()) {
        Err(error) => error,
        Ok(read) => panic!("{read:?} for {}", text.as_ref().escape_ascii()),
    }
}

#[test]
fn a_head_is_read_in_place() {
    let text = "\r\nPOST /v1/chat/completions?a=b HTTP/1.1\r\nHost: gw:8080\r\nX-A: 1\r\nx-a:\t2 \r\nContent-Length: 12\r\n\r\nbody";
    let head = request(text);
    assert_eq!(head.len, text.len() - "body".len());
    assert_eq!((head.method, head.target, head.http11), ("POST", "/v1/chat/completions?a=b", true));
    assert_eq!(
        (head.framing, head.keep_alive, head.expect_continue),
        (RequestFraming::Length(12), true, false)
    );
    let fields: Vec<_> = head.headers.iter().map(|field| (field.name, field.value)).collect();
    let expected: [(&str, &[u8]); 4] =
        [("Host", b"gw:8080"), ("X-A", b"1"), ("x-a", b"2"), ("Content-Length", b"12")];
    assert_eq!(fields, expected);
    assert_eq!((head.header("X-a"), head.header("absent")), (Some(b"1".as_slice()), None));
}

#[test]
fn every_shorter_head_asks_for_more() {
    let text = "\r\nPOST http://b/p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    for end in 0..text.len() {
        assert!(matches!(parse_request(&text.as_bytes()[..end]), Ok(None)), "{end}");
    }
    assert_eq!(request(text).len, text.len());
}

#[test]
fn a_head_has_100_fields_at_most() {
    let head = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
    assert_eq!(request(&head(MAX_HEADERS)).headers.len(), MAX_HEADERS);
    assert_eq!(refusal(head(MAX_HEADERS + 1)), HeadError::TooLarge);
}

#[test]
fn a_head_takes_64_kib_at_most() {
    let around = "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
    let head = |len: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(len - around));
    assert_eq!(request(&head(MAX_HEAD)).len, MAX_HEAD);
    assert_eq!(refusal(head(MAX_HEAD + 1)), HeadError::TooLarge);
    assert_eq!(refusal("G".repeat(MAX_HEAD)), HeadError::TooLarge);
    assert!(matches!(parse_request("G".repeat(MAX_HEAD - 1).as_bytes()), Ok(None)));
}

#[test]
fn connection_and_version_decide_what_is_kept() {
    let cases = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "connection: Keep-Alive\r\n", true),
        ("1.1", "Connection: keep-alive, Close\r\n", false),
        ("1.1", "Connection: x\r\nConnection: ,close,\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Keep-Alive: timeout=5\r\n", false),
    ];
    for (version, fields, kept) in cases {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(request(&text).keep_alive, kept, "{version} {fields}");
    }
}

#[test]
fn expectations_are_met_refused_or_without_meaning() {
    let text = |version: &str, fields: &str| format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
    let asked = [
        ("1.1", "Expect: 100-continue\r\nContent-Length: 1\r\n", true),
        ("1.1", "expect: 100-CONTINUE\r\nTransfer-Encoding: chunked\r\n", true),
        ("1.1", "Expect: 100-continue\r\nContent-Length: 0\r\n", false),
        ("1.1", "Expect: 100-continue\r\n", false),
        ("1.0", "Expect: 100-continue\r\nContent-Length: 1\r\n", false),
        ("1.0", "Expect: a miracle\r\nContent-Length: 1\r\n", false),
    ];
    for (version, fields, expected) in asked {
        assert_eq!(request(&text(version, fields)).expect_continue, expected, "{version} {fields}");
    }
    for value in ["200-ok", "100-continue, x", "100-continue;q=1", ""] {
        assert_eq!(refusal(text("1.1", &format!("Expect: {value}\r\n"))), HeadError::Expectation, "{value}");
    }
}

#[test]
fn each_refusal_has_its_status() {
    let bad = |what| HeadError::Bad(what);
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", bad("no Host")),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", bad("more than one Host")),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", bad("malformed Host")),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", bad("malformed field name")),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", bad("malformed field value")),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", bad("a line of the head ends without CR")),
        ("GET /\r\n\r\n", bad("malformed request line")),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", bad("the request target is not a path")),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", bad("CONNECT is not served")),
        ("GET / HTTX/1.1\r\nHost: a\r\n\r\n", bad("malformed HTTP version")),
        ("GET / HTTP/1.x\r\nHost: a\r\n\r\n", bad("malformed HTTP version")),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", HeadError::Version),
        ("GET / HTTP/3", HeadError::Version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HeadError::Version),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            bad("more than one Content-Length"),
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", bad("Content-Length is not a number")),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", bad("Transfer-Encoding in HTTP/1.0")),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", HeadError::Coding),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", HeadError::Coding),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", HeadError::Coding),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip;\r\n\r\n",
            bad("malformed Transfer-Encoding"),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected, "{text:?}");
    }
}

#[test]
fn an_absolute_target_is_cut_to_its_path() {
    let cases = [
        ("http://h/v1/models?x", "/v1/models?x"),
        ("HTTPS://h:443/", "/"),
        ("http://[::1]:80/p", "/p"),
        ("http://h", "/"),
        ("//h/p", "//h/p"),
    ];
    for (target, path) in cases {
        assert_eq!(request(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).target, path);
    }
    for target in [
        "http://h?x",
        "http://",
        "http://u@h/",
        "http://h:x/",
        "http://[]/",
        "http:/h/",
        "ws://h/",
        "h/p",
        "*",
    ] {
        assert!(
            matches!(refusal(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")), HeadError::Bad(_)),
            "{target}"
        );
    }
}

#[test]
fn a_length_is_decimal_digits_within_64_bits() {
    let text = |value: &str| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {value}\r\n\r\n");
    for (value, length) in [("0", 0), ("007", 7), ("18446744073709551615", u64::MAX)] {
        assert_eq!(request(&text(value)).framing, RequestFraming::Length(length));
    }
    for value in
        ["", "+1", "-1", "0x1", "1,1", "1 1", "1.0", "1e1", "\u{661}", "18446744073709551616", "\"1\"", "1;"]
    {
        assert_eq!(refusal(text(value)), HeadError::Bad("Content-Length is not a number"), "{value}");
    }
}
