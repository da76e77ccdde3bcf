//! Byte sequences on which implementations are known to differ, and how each is judged.

use Verdict::{Refuse, Serve, Stricter};

/// What must happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// So many requests are read, by both.
    Serve(usize),
    /// Read up to here, then neither side reads another request.
    Refuse(usize),
    /// Read up to here, then refused by us alone, for this reason.
    Stricter(usize, &'static str),
}

const SMUGGLING: &str = "two framing fields may be read differently by what is behind us (gateway.md: 400)";
const LONE_LF: &str = "RFC 9112 2.2 lets a recipient take a lone LF; neighbours may not";
const HOST: &str = "RFC 9112 3.2: a request without, with two, or with a malformed Host must be answered 400";
const TARGET: &str = "RFC 9112 3.2: only origin form and absolute form name something a gateway serves";
const URI: &str = "bytes that RFC 3986 has no place for";
const CHUNK: &str = "RFC 9112 7.1 as written: no blanks, no controls, bounded digits, closed quotes";
const CODING: &str = "a coding we do not decode would hide where the body ends";
const OUR_BOUND: &str = "a bound of ours";

const HOST_LINE: &str = "Host: a\r\n";

/// Every case as its bytes and its verdict.
pub(crate) fn cases() -> Vec<(Vec<u8>, Verdict)> {
    let mut all = Vec::new();
    all.extend(heads().into_iter().map(|(text, verdict)| (text.as_bytes().to_vec(), verdict)));
    all.extend(lengths().into_iter().map(|(fields, body, verdict)| (post(fields, body), verdict)));
    all.extend(chunks().into_iter().map(|(body, verdict)| (chunked(body), verdict)));
    all.extend(raw());
    all.extend(large());
    all
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /v1/completions HTTP/1.1\r\n{HOST_LINE}{fields}\r\n{body}").into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    post("Transfer-Encoding: chunked\r\n", &format!("{body}GET /next HTTP/1.1\r\n{HOST_LINE}\r\n"))
}

fn heads() -> Vec<(&'static str, Verdict)> {
    vec![
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2?x=%20 HTTP/1.1\r\nHost: a\r\n\r\n", Serve(2)),
        ("GET / HTTP/1.1\r\nHost: a\r\n", Serve(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            Serve(1),
        ),
        ("GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n", Serve(2)),
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, OUR_BOUND)),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, LONE_LF)),
        ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", Stricter(0, LONE_LF)),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", Stricter(0, LONE_LF)),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", Stricter(0, LONE_LF)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \n\r\n", Stricter(0, LONE_LF)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\rY: c\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX(: b\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\tb \t\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\x0bb\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.1\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost: a:80b\r\n\r\n", Stricter(0, HOST)),
        ("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", Serve(1)),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Stricter(0, HOST)),
        ("GET http://b:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("GET HTTPS://b/p HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("GET http://b?q HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("GET http:///p HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET http://u@b/p HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("GET ftp://b/p HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("CONNECT /p HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, TARGET)),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, URI)),
        ("GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, URI)),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, URI)),
        ("GET /a{b} HTTP/1.1\r\nHost: a\r\n\r\n", Stricter(0, URI)),
        ("GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Refuse(0)),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(1)),
        ("GET /\r\n", Refuse(0)),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", Refuse(0)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refuse(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", Serve(1)),
    ]
}

fn lengths() -> Vec<(&'static str, &'static str, Verdict)> {
    vec![
        ("Content-Length: 5\r\n", "helloGET / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(2)),
        ("Content-Length: 0\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", Serve(2)),
        ("Content-Length: 005\r\n", "hello", Serve(1)),
        ("content-LENGTH:5\r\n", "hello", Serve(1)),
        ("Content-Length: 6\r\n", "hello", Serve(0)),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", Stricter(0, SMUGGLING)),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!", Refuse(0)),
        ("Content-Length: 5, 5\r\n", "hello", Refuse(0)),
        ("Content-Length: +5\r\n", "hello", Refuse(0)),
        ("Content-Length: -5\r\n", "hello", Refuse(0)),
        ("Content-Length: 0x5\r\n", "hello", Refuse(0)),
        ("Content-Length: 5 5\r\n", "hello", Refuse(0)),
        ("Content-Length: 5.0\r\n", "hello", Refuse(0)),
        ("Content-Length: 1e1\r\n", "helloworld", Refuse(0)),
        ("Content-Length:\r\n", "hello", Refuse(0)),
        ("Content-Length: \"5\"\r\n", "hello", Refuse(0)),
        ("Content-Length: 18446744073709551616\r\n", "hello", Refuse(0)),
        ("Content-Length: 18446744073709551615\r\n", "hello", Serve(0)),
        ("Content-Length : 5\r\n", "hello", Refuse(0)),
        ("X: y\r\n Content-Length: 5\r\n", "hello", Refuse(0)),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", Stricter(0, SMUGGLING)),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", Stricter(0, SMUGGLING)),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", Stricter(0, SMUGGLING)),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", Stricter(0, SMUGGLING)),
        ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", Stricter(0, CODING)),
        ("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: identity\r\n", "hello", Refuse(0)),
        ("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n", Stricter(0, SMUGGLING)),
        ("Transfer-Encoding:\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer-Encoding:\tCHUNKED \r\n", "0\r\n\r\n", Serve(1)),
        ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n", Refuse(0)),
        ("Transfer_Encoding: chunked\r\n", "0\r\n\r\n", Refuse(1)),
        ("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello", Serve(1)),
        ("Expect: 100-Continue\r\nContent-Length: 5\r\n", "hello", Serve(1)),
        (
            "Expect: 200-ok\r\nContent-Length: 5\r\n",
            "hello",
            Stricter(0, "an expectation we cannot meet is 417"),
        ),
    ]
}

fn chunks() -> Vec<(&'static str, Verdict)> {
    vec![
        ("5\r\nhello\r\n0\r\n\r\n", Serve(2)),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n", Serve(2)),
        ("5;a=b;c\r\nhello\r\n0;z\r\n\r\n", Serve(2)),
        ("5;a=\"b;\\\"c\"\r\nhello\r\n0\r\n\r\n", Serve(2)),
        ("5;a=\"\r\nhello\r\n0\r\n\r\n", Stricter(0, CHUNK)),
        ("5;a=\x01\r\nhello\r\n0\r\n\r\n", Stricter(0, CHUNK)),
        ("5;a\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("5;a\rb\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("5 \r\nhello\r\n0\r\n\r\n", Stricter(0, CHUNK)),
        ("5\t;a\r\nhello\r\n0\r\n\r\n", Stricter(0, CHUNK)),
        (" 5\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("5\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("5\r\nhello\n0\r\n\r\n", Refuse(0)),
        ("5\r\nhello0\r\n\r\n", Refuse(0)),
        ("5\r\nhello!\r\n0\r\n\r\n", Refuse(0)),
        ("5\rhello\r\n0\r\n\r\n", Refuse(0)),
        ("\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        (";a\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("0x5\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("+5\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("-5\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("5g\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("0000000000000005\r\nhello\r\n0\r\n\r\n", Serve(2)),
        ("00000000000000005\r\nhello\r\n0\r\n\r\n", Stricter(0, CHUNK)),
        ("10000000000000005\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("fffffffffffffffff\r\nhello\r\n0\r\n\r\n", Refuse(0)),
        ("0\r\nX: y\r\nZ:\r\n\r\n", Serve(2)),
        ("0\r\nContent-Length: 9\r\n\r\n", Serve(2)),
        ("0\r\nX: y\n\r\n", Stricter(0, LONE_LF)),
        ("0\r\nX: y\r\n z\r\n\r\n", Refuse(0)),
        ("0\r\nX : y\r\n\r\n", Refuse(0)),
        ("0\r\n: y\r\n\r\n", Refuse(0)),
        ("0\r\nX\r\n\r\n", Refuse(0)),
        ("0\r\nX: \0\r\n\r\n", Refuse(0)),
        ("0\r\n\n", Stricter(0, LONE_LF)),
        ("0\r\n\rX", Refuse(0)),
    ]
}

/// What a `&str` cannot hold.
fn raw() -> Vec<(Vec<u8>, Verdict)> {
    vec![
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\xfe\r\n\r\n".to_vec(), Serve(1)),
        (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), Refuse(0)),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n".to_vec(), Stricter(0, HOST)),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX\xff: b\r\n\r\n".to_vec(), Refuse(0)),
    ]
}

fn large() -> Vec<(Vec<u8>, Verdict)> {
    let fields = |count: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1)).into_bytes()
    };
    let value =
        |len: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(len)).into_bytes();
    let options = |count: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {}\r\n\r\n", vec!["x"; count].join(","))
    };
    let extension = |len: usize| chunked(&format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(len - 1)));
    let extensions = |count: usize| {
        let chunk = format!("1;{}\r\nx\r\n", "e".repeat(999));
        chunked(&format!("{}0\r\n\r\n", chunk.repeat(count)))
    };
    let trailer = |len: usize| chunked(&format!("0\r\nX:{}\r\n\r\n", "t".repeat(len - 3)));
    vec![
        (fields(100), Serve(1)),
        (fields(101), Refuse(0)),
        (value(64 * 1024 - 32), Serve(1)),
        (value(64 * 1024), Stricter(0, OUR_BOUND)),
        (options(64).into_bytes(), Serve(1)),
        (options(65).into_bytes(), Stricter(0, OUR_BOUND)),
        (extension(4096), Serve(2)),
        (extension(4098), Stricter(0, OUR_BOUND)),
        (extensions(16), Serve(2)),
        (extensions(17), Refuse(0)),
        (trailer(16_000), Serve(2)),
        (trailer(17_000), Refuse(0)),
    ]
}
