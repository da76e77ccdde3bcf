use super::{request, response};
use crate::http1::{ClientFraming, UpstreamHead, write_client_head, write_upstream_head};

fn lines(out: Vec<u8>) -> Vec<String> {
    String::from_utf8(out).unwrap().split_terminator("\r\n").map(str::to_owned).collect()
}

fn upstream(client: &str, extra: &[(&str, &str)], content_length: Option<usize>) -> Vec<String> {
    let mut out = Vec::new();
    let up = UpstreamHead { authority: "r:1", path: "/base/v1/x?y", extra, content_length };
    write_upstream_head(&mut out, &request(client), &up);
    lines(out)
}

#[test]
fn a_replica_gets_the_end_to_end_fields_in_order() {
    let client = "POST /v1/x?y HTTP/1.0\r\nHost: gw\r\nContent-Type: application/json\r\nX-A: 1\r\nX-B: 2\r\nx-a: 3\r\n\
                  Content-Length: 9\r\nUser-Agent: u\r\nContent-Encoding: gzip\r\nx-request-id: theirs\r\n\r\n";
    let expected = [
        "POST /base/v1/x?y HTTP/1.1",
        "host: r:1",
        "Content-Type: application/json",
        "X-A: 1",
        "X-B: 2",
        "x-a: 3",
        "User-Agent: u",
        "X-Request-Id: ours",
        "content-length: 4",
    ];
    assert_eq!(upstream(client, &[("X-Request-Id", "ours")], Some(4)), expected);
}

#[test]
fn a_replica_gets_no_field_that_is_not_for_it() {
    let dropped = [
        "Connection: close",
        "Keep-Alive: 5",
        "TE: trailers",
        "Trailer: X",
        "Upgrade: h2c",
        "HTTP2-Settings: x",
        "Proxy-Connection: x",
        "Proxy-Authorization: y",
        "Proxy-Authenticate: z",
        "Authorization: Bearer k",
        "X-API-Key: k",
        "Cookie: c",
        "Cookie2: c",
        "Api-Key: k",
        "X-Goog-Api-Key: k",
        "X-Goog-User-Project: p",
        "Ocp-Apim-Subscription-Key: k",
        "X-Auth-Token: k",
        "X-Amz-Security-Token: k",
        "OpenAI-Organization: o",
        "OpenAI-Project: p",
        "Anthropic-Organization-Id: o",
        "Anthropic-Workspace: w",
        "Anthropic-Dangerous-Direct-Browser-Access: true",
        "X-Forwarded: x",
        "X-Client-IP: 1.2.3.4",
        "X-Cluster-Client-IP: 1.2.3.4",
        "True-Client-IP: 1.2.3.4",
        "CF-Connecting-IP: 1.2.3.4",
        "X-Original-Forwarded-For: 1.2.3.4",
        "X-Forwarded-For: 1.2.3.4",
        "x-forwarded-anything: x",
        "Forwarded: for=x",
        "X-Real-IP: 1.2.3.4",
        "Via: 1.1 p",
        "Accept-Encoding: gzip",
        "Expect: 100-continue",
        "Content-Length: 0",
    ];
    for field in dropped {
        for field in [
            field.to_owned(),
            field.to_ascii_lowercase(),
            field.to_ascii_uppercase().replace("100-CONTINUE", "100-continue"),
        ] {
            let client = format!("GET / HTTP/1.1\r\nHost: gw\r\n{field}\r\nX-Kept: k\r\n\r\n");
            assert_eq!(
                upstream(&client, &[], None),
                ["GET /base/v1/x?y HTTP/1.1", "host: r:1", "X-Kept: k"],
                "{field}"
            );
        }
    }
}

/// They say how the body is to be read, not who asks.
#[test]
fn a_replica_gets_what_its_dialect_needs() {
    for field in
        ["anthropic-version: 2023-06-01", "Anthropic-Beta: a,b", "OpenAI-Beta: x", "X-Stainless-OS: l"]
    {
        let client = format!("POST / HTTP/1.1\r\nHost: gw\r\n{field}\r\n\r\n");
        assert_eq!(upstream(&client, &[], None), ["POST /base/v1/x?y HTTP/1.1", "host: r:1", field]);
    }
}

#[test]
fn connection_removes_what_it_names_but_not_what_describes_the_body() {
    let client = "POST / HTTP/1.1\r\nHost: gw\r\nConnection: X-Hop ,content-type,Content-Encoding\r\nX-HOP: 1\r\n\
                  connection: cache-control, host, content-length, transfer-encoding, x-kept2\r\nX-Kept2: 1\r\n\
                  Content-Type: t\r\nContent-Encoding: gzip\r\nCache-Control: c\r\nContent-Length: 3\r\nX-Hops: 2\r\n\r\n";
    let expected = [
        "POST /base/v1/x?y HTTP/1.1",
        "host: r:1",
        "Content-Type: t",
        "Cache-Control: c",
        "X-Hops: 2",
        "authorization: own",
        "content-length: 3",
    ];
    assert_eq!(upstream(client, &[("authorization", "own")], Some(3)), expected);
}

#[test]
fn a_body_sent_decoded_has_no_coding() {
    let mut out = Vec::new();
    let up = UpstreamHead { authority: "r", path: "/", extra: &[], content_length: Some(7) };
    let client = "POST / HTTP/1.1\r\nHost: gw\r\ncontent-encoding: gzip\r\nContent-Length: 3\r\n\r\n";
    write_upstream_head(&mut out, &request(client), &up);
    assert_eq!(lines(out), ["POST / HTTP/1.1", "host: r", "content-length: 7"]);
}

#[test]
fn a_client_gets_the_end_to_end_fields_in_order() {
    let replica = "HTTP/1.0 429 Too Many Requests\r\nServer: s\r\nSet-Cookie: a\r\nConnection: X-Back\r\nX-Back: 1\r\n\
                   set-cookie: b\r\nKeep-Alive: timeout=5\r\nTransfer-Encodings: x\r\nX-Request-ID: theirs\r\n\
                   Retry-After: 3\r\nContent-Length: 9\r\nProxy-Status: p\r\n\r\n";
    let mut out = Vec::new();
    write_client_head(
        &mut out,
        &response(replica),
        ClientFraming::Length(5),
        true,
        true,
        &[("x-request-id", "ours")],
    );
    let expected = [
        "HTTP/1.1 429 Too Many Requests",
        "Server: s",
        "Set-Cookie: a",
        "set-cookie: b",
        "Transfer-Encodings: x",
        "Retry-After: 3",
        "Proxy-Status: p",
        "x-request-id: ours",
        "content-length: 5",
        "",
    ];
    assert_eq!(lines(out), expected);
}

#[test]
fn a_client_is_told_nothing_of_the_gateways_own_account() {
    let withheld = [
        "X-RateLimit-Remaining-Requests: 9",
        "x-ratelimit-limit-tokens: 9",
        "RateLimit: 9",
        "RateLimit-Policy: 9",
        "Anthropic-RateLimit-Tokens-Reset: t",
        "anthropic-organization-id: o",
        "OpenAI-Organization: o",
        "openai-project: p",
        "Set-Cookie: __cf_bm=x",
        "Set-Cookie2: x",
        "Server: cloudflare",
        "Via: 1.1 google",
        "X-Powered-By: x",
        "X-Served-By: x",
        "CF-RAY: x",
        "cf-cache-status: DYNAMIC",
        "X-Envoy-Upstream-Service-Time: 9",
        "Alt-Svc: h3=\":443\"",
        "Strict-Transport-Security: max-age=9",
        "NEL: {}",
        "Report-To: {}",
        "Reporting-Endpoints: x",
        "WWW-Authenticate: Bearer",
    ];
    for field in withheld {
        for field in [field.to_owned(), field.to_ascii_lowercase(), field.to_ascii_uppercase()] {
            let text = format!("HTTP/1.1 200 OK\r\nOpenAI-Version: v\r\n{field}\r\nRetry-After: 3\r\n\r\n");
            let mut head = response(&text);
            head.withhold_account();
            let mut out = Vec::new();
            write_client_head(&mut out, &head, ClientFraming::None, true, true, &[("x-ratelimit-own", "1")]);
            let kept = ["HTTP/1.1 200 OK", "OpenAI-Version: v", "Retry-After: 3", "x-ratelimit-own: 1", ""];
            assert_eq!(lines(out), kept, "{field}");
        }
    }
}

#[test]
fn framing_and_connection_fit_the_client() {
    use ClientFraming::{Chunked, Close, Length, None};
    // Framing, HTTP/1.1 client, kept, what is said.
    let cases: [(ClientFraming, bool, bool, &[&str]); 12] = [
        (Length(0), true, true, &["content-length: 0"]),
        (Length(u64::MAX), true, false, &["content-length: 18446744073709551615", "connection: close"]),
        (Length(5), false, true, &["content-length: 5", "connection: keep-alive"]),
        (Length(5), false, false, &["content-length: 5", "connection: close"]),
        (Chunked, true, true, &["transfer-encoding: chunked"]),
        (Chunked, true, false, &["transfer-encoding: chunked", "connection: close"]),
        (Chunked, false, true, &["connection: close"]),
        (Chunked, false, false, &["connection: close"]),
        (Close, true, true, &["connection: close"]),
        (Close, false, true, &["connection: close"]),
        (None, true, true, &[]),
        (None, true, false, &["connection: close"]),
    ];
    for (framing, http11, kept, said) in cases {
        let mut out = Vec::new();
        write_client_head(&mut out, &response("HTTP/1.1 200\r\n\r\n"), framing, http11, kept, &[]);
        let expected: Vec<_> = ["HTTP/1.1 200 "].iter().chain(said).chain(&[""]).copied().collect();
        assert_eq!(lines(out), expected, "{framing:?} {http11} {kept}");
    }
}
