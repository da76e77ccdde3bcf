use super::response;
use crate::http1::{HeadError, MAX_HEAD, ResponseFraming, parse_response};

#[test]
fn fields_and_status_frame_the_body() {
    use ResponseFraming::{Chunked, Close, Length, None};
    // Status line, fields, answer to HEAD, framing, kept.
    let cases = [
        ("1.1 200 OK", "Content-Length: 5\r\n", false, Length(5), true),
        ("1.1 200 OK", "Transfer-Encoding: chunked\r\n", false, Chunked, true),
        ("1.1 200 OK", "", false, Close, false),
        ("1.1 200 OK", "Connection: close\r\nContent-Length: 5\r\n", false, Length(5), false),
        ("1.0 200 OK", "Content-Length: 5\r\n", false, Length(5), false),
        ("1.0 200 OK", "Content-Length: 5\r\nConnection: keep-alive\r\n", false, Length(5), true),
        ("1.0 200 OK", "Connection: keep-alive\r\n", false, Close, false),
        ("1.1 200 OK", "Content-Length: 5\r\n", true, None, true),
        ("1.1 200 OK", "Transfer-Encoding: chunked\r\n", true, None, true),
        ("1.1 204 No Content", "", false, None, true),
        ("1.1 204 No Content", "Content-Length: 0\r\n", false, None, true),
        ("1.1 204 No Content", "Content-Length: 5\r\n", false, None, false),
        ("1.1 204 No Content", "Transfer-Encoding: chunked\r\n", false, None, false),
        ("1.1 304 Not Modified", "Content-Length: 5\r\n", false, None, true),
        ("1.1 100 Continue", "", false, None, true),
        ("1.1 103 Early Hints", "Content-Length: 5\r\n", false, None, false),
    ];
    for (line, fields, head_request, framing, kept) in cases {
        let text = format!("HTTP/{line}\r\n{fields}\r\nrest");
        let head = parse_response(text.as_bytes(), head_request).unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive), (framing, kept), "{line} {fields}");
        assert_eq!(head.len, text.len() - "rest".len());
    }
}

#[test]
fn an_unusable_head_is_an_error() {
    let bad = |what| HeadError::Bad(what);
    let cases = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
            bad("more than one Content-Length"),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            bad("both Content-Length and Transfer-Encoding"),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", HeadError::Coding),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", bad("Transfer-Encoding in HTTP/1.0")),
        ("HTTP/1.1 204 OK\r\nContent-Length: x\r\n\r\n", bad("Content-Length is not a number")),
        ("HTTP/1.1 101 Switching\r\n\r\n", bad("status out of place")),
        ("HTTP/1.1 099 Low\r\n\r\n", bad("status out of place")),
        ("HTTP/1.1 600 High\r\n\r\n", bad("status out of place")),
        ("HTTP/1.1 2x0 OK\r\n\r\n", bad("malformed status line")),
        ("HTTP/2.0 200 OK\r\n\r\n", HeadError::Version),
        ("<html>", bad("malformed HTTP version")),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", bad("empty line before the status line")),
        ("HTTP/1.1 200 OK\n\n", bad("a line of the head ends without CR")),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_response(text.as_bytes(), false).unwrap_err(), expected, "{text:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(MAX_HEAD));
    assert_eq!(parse_response(endless.as_bytes(), false).unwrap_err(), HeadError::TooLarge);
}

#[test]
fn what_the_relay_needs_is_read_from_the_fields() {
    // Fields, event stream, coded, retry after.
    let cases = [
        ("", false, false, None),
        ("Content-Type: text/event-stream\r\n", true, false, None),
        ("content-type: Text/Event-Stream; charset=utf-8\r\n", true, false, None),
        ("content-type: text/event-stream-x\r\n", false, false, None),
        ("Content-Type: application/json\r\n", false, false, None),
        ("Content-Encoding: gzip\r\n", false, true, None),
        ("content-encoding: Identity\r\n", false, false, None),
        ("content-encoding:\r\n", false, false, None),
        ("Content-Encoding: identity\r\nContent-Encoding: br\r\n", false, true, None),
        ("Retry-After: 7\r\n", false, false, Some(7)),
        ("Retry-After: 4294967295\r\n", false, false, Some(u32::MAX)),
        ("Retry-After: 4294967296\r\n", false, false, None),
        ("Retry-After: +7\r\n", false, false, None),
        ("Retry-After: \r\n", false, false, None),
        ("Retry-After: Sun, 29 Nov 2026 22:00:28 GMT\r\n", false, false, None),
    ];
    for (fields, event_stream, coded, retry_after) in cases {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let head = response(&text);
        assert_eq!(
            (head.event_stream, head.content_encoded, head.retry_after),
            (event_stream, coded, retry_after),
            "{fields}"
        );
    }
}

#[test]
fn every_shorter_head_asks_for_more() {
    let text = "HTTP/1.1 429 Too Many Requests\r\nServer: x\r\nAccess-Control-Allow-Origin: \r\nContent-Length: 0\r\n\r\n";
    for end in 0..text.len() {
        assert!(matches!(parse_response(&text.as_bytes()[..end], false), Ok(None)), "{end}");
    }
    let head = response(text);
    assert_eq!((head.status, head.reason), (429, b"Too Many Requests".as_slice()));
    assert_eq!(head.header("access-control-allow-origin"), Some(b"".as_slice()));
}
