//! one reading of where a request ends, or none.

use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Upstream};

use crate::checks::assert_nobody_blamed;

const SMUGGLED: &str = "GET /v1/models HTTP/1.1\r\nHost: g\r\nX-Smuggled: 1\r\n\r\n";

/// Heads on whose framing two readers could disagree, each with what follows it.
fn ambiguous() -> Vec<(&'static str, String)> {
    let chunked = format!("0\r\n\r\n{SMUGGLED}");
    let with = |fields: &str| format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\n{fields}\r\n\r\n{chunked}");
    vec![
        ("length, then chunked", with("Content-Length: 13\r\nTransfer-Encoding: chunked")),
        ("chunked, then length", with("Transfer-Encoding: chunked\r\nContent-Length: 5")),
        ("chunked and length 0", with("Transfer-Encoding: chunked\r\nContent-Length: 0")),
        ("two lengths", with("Content-Length: 5\r\nContent-Length: 13")),
        ("two lengths in one field", with("Content-Length: 5, 13")),
        ("a signed length", with("Content-Length: +5")),
        ("a length in hex", with("Content-Length: 0x5")),
        ("an empty length", with("Content-Length: ")),
        ("a huge length", with("Content-Length: 99999999999999999999999")),
        ("chunked twice", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")),
        ("chunked twice in one field", with("Transfer-Encoding: chunked, chunked")),
        ("chunked, but not last", with("Transfer-Encoding: chunked, gzip")),
        ("another coding", with("Transfer-Encoding: gzip, chunked")),
        ("an unknown coding", with("Transfer-Encoding: xchunked")),
        ("identity", with("Transfer-Encoding: identity")),
        ("a hidden letter", with("Transfer-Encoding: \x0bchunked")),
        ("a blank before the colon", with("Transfer-Encoding : chunked")),
        ("a folded line", with("Transfer-Encoding:\r\n chunked")),
        ("a field without a name", with(": x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5")),
        ("a bare CR", with("X: a\rTransfer-Encoding: chunked\r\nContent-Length: 5")),
        (
            "chunked in HTTP/1.0",
            with("Transfer-Encoding: chunked")
                .replace("HTTP/1.1\r\nHost: g\r\nT", "HTTP/1.0\r\nHost: g\r\nT"),
        ),
        ("no host", with("Content-Length: 5").replace("Host: g\r\nC", "C")),
        ("two hosts", with("Host: h\r\nContent-Length: 5")),
    ]
}

/// Chunked bodies that are none.
fn broken_chunks() -> Vec<(&'static str, String)> {
    let body = String::from_utf8(chat("m1", "")).expect("text");
    let with = |wire: String| {
        format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n{wire}{SMUGGLED}")
    };
    let size = format!("{:x}", body.len());
    vec![
        ("bare LF after the size", with(format!("{size}\n{body}\r\n0\r\n\r\n"))),
        ("a size too small", with(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len() - 1))),
        ("a size too large", with(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len() + 1))),
        ("a signed size", with(format!("+{size}\r\n{body}\r\n0\r\n\r\n"))),
        ("a size with 0x", with(format!("0x{size}\r\n{body}\r\n0\r\n\r\n"))),
        ("a size of 17 digits", with(format!("1000000000000000{size}\r\n{body}\r\n0\r\n\r\n"))),
        ("no size", with(format!("\r\n{body}\r\n0\r\n\r\n"))),
        ("a blank size", with(format!(" {size}\r\n{body}\r\n0\r\n\r\n"))),
    ]
}

#[tokio::test]
async fn a_66_an_ambiguous_request_is_refused_and_nothing_rides_in_it() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let innocent = post(CHAT, &chat("m1", ""));
    let rows: Vec<_> = ambiguous().into_iter().chain(broken_chunks()).collect();
    let mut served = 0;
    for (name, wire) in &rows {
        let mut client = bench.client().await;
        // An innocent request was served on the connection before, and one more follows the bad one.
        assert_eq!(client.exchange(&innocent).await.status(), 200, "{name}");
        served += 1;
        let answer = client.exchange(&[wire.as_bytes(), &innocent].concat()).await;
        assert!([400, 501].contains(&answer.status()), "{name}: {} {}", answer.status(), answer.text());
        assert!(answer.json()["error"].is_object(), "{name}: {}", answer.text());
        assert!(client.maybe_head().await.is_none(), "{name}: the connection went on");
        assert_eq!(up.counts().requests.get(), served, "{name}: more at the replica than innocent requests");
    }
    assert!(up.received().iter().all(|r| !r.head.has("x-smuggled")));
    // Each refusal is on record, even where not so much as a head could be read.
    bench.assert_idle(rows.len() + usize::try_from(served).expect("a small number")).await;
    assert_nobody_blamed(&bench, &[&up]);
}
