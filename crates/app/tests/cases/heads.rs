//! Heads that nothing to come can mend, and heads that ask for what is not there.

use serde_json::json;
use sluicegate_testkit::requests::{CHAT, chat, get, post};
use sluicegate_testkit::{Bench, End, Upstream};

use crate::checks::{assert_line, assert_own_error};

/// The client waits for its answer and sends nothing more: each of these is refused as far as it has come.
#[tokio::test]
async fn a_head_that_cannot_be_mended_is_refused_at_once() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let rows: [(&str, &[u8]); 6] = [
        ("LF alone", b"GET /v1/models HTTP/1.1\nHost: g\n\n"),
        ("LF alone, with a body", b"POST /v1/chat/completions HTTP/1.1\nHost: g\nContent-Length: 2\n\n{}"),
        ("LF alone at one place", b"GET /v1/models HTTP/1.1\r\nHost: g\nX: y\r\n\n"),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("zeroes", b"\0\0\0\0"),
        ("a bad name", b"GET /v1/models HTTP/1.1\r\nHo st: g\r\n"),
    ];
    for (i, (name, bytes)) in rows.iter().enumerate() {
        let mut client = bench.client().await;
        client.send(bytes).await;
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.end), (400, End::Whole), "{name}: {}", answer.text());
        assert_own_error(&answer, 400);
        assert!(client.maybe_head().await.is_none(), "{name}: the connection went on");
        assert_eq!(bench.refused_heads(), i as u64 + 1, "{name}");
    }
    for line in bench.assert_idle(rows.len()).await {
        assert_line(
            &line,
            &[
                ("outcome", json!("client_error")),
                ("error_type", json!("bad_request_head")),
                ("status", json!(400)),
                ("attempts", json!(0)),
            ],
        );
    }
    assert_eq!(up.counts().heads.get(), 0);
}

#[tokio::test]
async fn an_unknown_path_without_a_body_costs_no_connection() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut client = bench.client().await;
    for path in ["/", "/favicon.ico", "/metrics", CHAT, "/v1/nothing"] {
        let answer = client.exchange(&get(path)).await;
        assert_own_error(&answer, if path == CHAT { 405 } else { 404 });
        assert_ne!(answer.head.get("connection"), Some("close"), "{path}");
    }
    assert_eq!(client.exchange(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    bench.assert_idle(6).await;
}
