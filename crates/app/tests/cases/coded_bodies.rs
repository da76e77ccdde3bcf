//! A-08: compressed request bodies are decoded before anything is read of them, and reach the replica plain.

use serde_json::json;
use sluicegate_testkit::answers::{LAST_CHUNK, chunk};
use sluicegate_testkit::requests::{CHAT, chat, post, post_with};
use sluicegate_testkit::{Bench, Config, Upstream};

use crate::checks::{assert_line, assert_only_injected, assert_own_error};
use crate::encoders::{CODINGS, encode};

/// A chat body for `m1` of about `size` bytes that names another model in its text.
fn body_of(size: usize) -> Vec<u8> {
    let words: String = (0..size / 12).map(|i| format!("w{:x} ", i * 7919 % 65_537)).collect();
    let text = format!(r#"\"model\":\"m2\" {words}"#);
    format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"model":"m1"}}"#).into_bytes()
}

fn coded(coding: &str, body: &[u8]) -> Vec<u8> {
    post_with(CHAT, &[("Content-Encoding", coding)], body)
}

fn coded_in_chunks(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for piece in body.chunks(body.len() / 3 + 1) {
        request.extend(chunk(piece));
    }
    request.extend_from_slice(LAST_CHUNK);
    request
}

#[tokio::test]
async fn a_08_a_coded_body_reaches_the_replica_plain_whatever_its_size() {
    let (m1, m2) = (Upstream::start("m1"), Upstream::start("m2"));
    let config = Config::new(&[&m1]).pool("twos", &[&m2]).route("m2", "twos");
    let bench = Bench::live(&config, 2).await;
    let mut client = bench.client().await;
    let mut bytes_in = Vec::new();
    for size in [100, 300, 60_000, 1 << 20] {
        let body = body_of(size);
        let mut requests =
            vec![("identity".to_owned(), body.clone()), (" , identity".to_owned(), body.clone())];
        for (coding, encoder) in CODINGS {
            requests.push((coding.to_owned(), encode(encoder, &body)));
            requests.push((format!("{coding}, identity, gzip"), encode("gzip", &encode(encoder, &body))));
        }
        requests.push(("zstd\r\ncontent-encoding: br".to_owned(), encode("br", &encode("zstd", &body))));
        for (coding, sent) in requests {
            for request in [coded(&coding, &sent), coded_in_chunks(&coding, &sent)] {
                let answer = client.exchange(&request).await;
                assert_eq!(answer.status(), 200, "{coding} of {size}: {}", answer.text());
                let received = m1.only_request();
                assert!(
                    received.body == body,
                    "{coding} of {size}: {} bytes at the replica",
                    received.body.len()
                );
                assert_eq!(received.head.get("content-length"), Some(&*body.len().to_string()), "{coding}");
                assert!(!received.head.has("content-encoding") && !received.head.has("transfer-encoding"));
                m1.forget_received();
                bytes_in.push(sent.len());
            }
        }
    }
    assert_eq!(m2.counts().requests.get(), 0);
    // The line counts what the client sent.
    for (line, bytes_in) in bench.assert_idle(bytes_in.len()).await.iter().zip(bytes_in) {
        assert_line(line, &[("model", json!("m1")), ("outcome", json!("ok")), ("bytes_in", json!(bytes_in))]);
    }
}

#[tokio::test]
async fn a_08_what_can_be_read_without_decoding_decides_nothing() {
    let (m1, m2) = (Upstream::start("m1"), Upstream::start("m2"));
    let config = Config::new(&[&m1]).pool("twos", &[&m2]).route("m2", "twos");
    let bench = Bench::live(&config, 2).await;
    // A zstd frame to be skipped that reads like a body for m2, ahead of one for m1.
    let decoy = chat("m2", "");
    let length = u32::try_from(decoy.len()).expect("a short body").to_le_bytes();
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18], &length[..], &decoy, &encode("zstd", &chat("m1", ""))].concat();
    assert_eq!(bench.ask(&coded("zstd", &skipped)).await.status(), 200);
    assert_eq!(m1.only_request().body, chat("m1", ""));
    // Plain JSON that is said to be coded, and coded bytes that are said to be plain.
    assert_own_error(&bench.ask(&coded("zstd", &decoy)).await, 400);
    assert_own_error(&bench.ask(&coded("compress", &decoy)).await, 415);
    assert_own_error(&bench.ask(&post(CHAT, &encode("zstd", &decoy))).await, 400);
    assert_eq!((m1.counts().requests.get(), m2.counts().requests.get()), (1, 0));
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn a_08_a_body_that_cannot_be_decoded_is_a_400_that_says_why() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut client = bench.client().await;
    let mut sent = 0;
    for size in [300, 60_000] {
        for (coding, encoder) in CODINGS {
            let whole = encode(encoder, &body_of(size));
            let half = whole[..whole.len() / 2].to_vec();
            let longer = [&whole, &b"\x00{}"[..]].concat();
            let twice = format!("br, {coding}");
            let cases = [
                (coding, half, "cut short"),
                (coding, Vec::new(), "cut short"),
                (coding, longer, "bytes follow its end"),
                (coding, b"{\"model\":\"m1\"}".repeat(size / 14), "cannot be decoded"),
                // The outer coding is right and the inner is not.
                (&twice, whole, "decoded as br"),
            ];
            for (coding, bytes, why) in cases {
                let error = assert_own_error(&client.exchange(&coded(coding, &bytes)).await, 400);
                assert_eq!(error["code"], json!("invalid_content_encoding"));
                let message = error["message"].as_str().expect("a message");
                assert!(message.contains(why), "{coding} of {size}: {message}");
                sent += 1;
            }
        }
    }
    // Nothing reached the replica, and the connection is in order.
    assert_eq!(client.exchange(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    assert_eq!(up.counts().requests.get(), 1);
    let lines = bench.assert_idle(sent + 1).await;
    for line in &lines[..sent] {
        assert_line(
            line,
            &[("status", json!(400)), ("outcome", json!("client_error")), ("attempts", json!(0))],
        );
        assert_line(line, &[("error_type", json!("invalid_content_encoding"))]);
    }
}

#[tokio::test]
async fn a_08_an_unsupported_coding_is_a_415_that_names_the_supported_ones() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut client = bench.client().await;
    let body = chat("m1", "");
    let unsupported = ["compress", "aws-chunked", "gzip;q=1", "gzip, gzip, gzip", "dcb", "gzip br", "utf-8"];
    for coding in unsupported {
        let answer = client.exchange(&coded(coding, &body)).await;
        let error = assert_own_error(&answer, 415);
        assert_eq!(error["code"], json!("unsupported_content_encoding"));
        assert_eq!(answer.head.get("accept-encoding"), Some("gzip, deflate, zstd, br"));
        let message = error["message"].as_str().expect("a message");
        assert!(["gzip", "deflate", "zstd", "br"].iter().all(|known| message.contains(known)), "{message}");
    }
    assert_eq!(client.exchange(&post(CHAT, &body)).await.status(), 200);
    bench.assert_idle(unsupported.len() + 1).await;
}

#[tokio::test]
async fn a_08_the_limit_is_one_of_the_decoded_size() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "max_body", "64KiB"), 1).await;
    let padded = |size: usize| {
        let bare = chat("m1", "");
        [bare.as_slice(), &vec![b' '; size - bare.len()]].concat()
    };
    let (fits, over, bomb) = (padded(64 << 10), padded((64 << 10) + 1), padded(40 << 20));
    for (coding, encoder) in CODINGS {
        assert_eq!(bench.ask(&coded(coding, &encode(encoder, &fits))).await.status(), 200, "{encoder}");
        assert_own_error(&bench.ask(&coded(coding, &encode(encoder, &over))).await, 413);
    }
    for encoder in ["gzip", "zstd"] {
        // Twice over, so that forty megabytes fit into the limit.
        let sent = encode(encoder, &encode(encoder, &bomb));
        assert!(sent.len() < 64 << 10);
        assert_own_error(&bench.ask(&coded(&format!("{encoder}, {encoder}"), &sent)).await, 413);
    }
    assert_eq!(up.counts().requests.get(), 6);
    for line in &bench.assert_idle(14).await[12..] {
        assert_line(line, &[("error_type", json!("request_too_large")), ("outcome", json!("client_error"))]);
    }
}

#[tokio::test]
async fn a_08_a_decoded_body_is_spliced_and_retried_like_any_other() {
    let ups = [Upstream::start("org/m1"), Upstream::start("org/m1")];
    let config = Config::new(&[&ups[0], &ups[1]]).route_to("m1", "pool", "org/m1");
    let bench = Bench::live(&config, 2).await;
    let body = chat("m1", r#","stream":true"#);
    let renamed = chat("org/m1", r#","stream":true"#);
    assert_eq!(bench.ask(&coded("br", &encode("br", &body))).await.status(), 200);
    let received = ups.iter().flat_map(Upstream::received).next().expect("a request");
    assert_only_injected(&received.body, &renamed);
    ups.iter().for_each(Upstream::forget_received);
    for up in &ups {
        up.answer_with(vec![sluicegate_testkit::Step::Reset]);
    }
    let plain = chat("m1", "");
    assert_own_error(&bench.ask(&coded("gzip", &encode("gzip", &plain))).await, 502);
    for received in ups.iter().flat_map(Upstream::received) {
        assert_eq!(received.body, chat("org/m1", ""));
        assert!(!received.head.has("content-encoding"));
    }
    bench.assert_idle(2).await;
}
