//! A-09, A-10, A-11, A-12: bodies of any size and framing arrive whole, and once.

use serde_json::json;
use sluicegate_testkit::answers::{LAST_CHUNK, answer, chunk};
use sluicegate_testkit::requests::{CHAT, chat, post, post_chunked, post_with};
use sluicegate_testkit::{Bench, Config, End, Received, Step, Upstream, send};

use crate::checks::{assert_line, assert_own_error};

/// A body for model `m` of exactly `size` bytes, 13 at least.
fn body_of(size: usize) -> Vec<u8> {
    let bare = r#"{"model":"m"}"#;
    let padded = r#"{"model":"m","pad":""}"#;
    let body = match size.checked_sub(padded.len()) {
        None => format!("{bare}{}", " ".repeat(size - bare.len())).into_bytes(),
        Some(pad) => {
            let mut body = br#"{"model":"m","pad":""#.to_vec();
            body.extend((0..pad).map(|i| b'a' + u8::try_from(i * 7 % 26).unwrap_or(0)));
            body.extend_from_slice(b"\"}");
            body
        }
    };
    assert_eq!(body.len(), size);
    body
}

/// The request's body sent back with each kind of framing in turn.
fn echo(request: &Received) -> Vec<Step> {
    let kind = "content-type: application/json\r\n";
    match request.index % 3 {
        0 => vec![send(answer(200, &[("content-type", "application/json")], &request.body))],
        1 => {
            let mut steps =
                vec![send(format!("HTTP/1.1 200 OK\r\n{kind}transfer-encoding: chunked\r\n\r\n"))];
            steps.extend(request.body.chunks(100_000).map(|piece| send(chunk(piece))));
            steps.push(send(LAST_CHUNK));
            steps
        }
        _ => vec![send(format!("HTTP/1.1 200 OK\r\n{kind}\r\n")), send(&request.body), Step::Close],
    }
}

async fn assert_echoed(bench: &Bench, up: &Upstream, request: &[u8], body: &[u8]) {
    let answer = bench.ask(request).await;
    assert_eq!(
        (answer.status(), answer.end),
        (200, End::Whole),
        "{} bytes, {:.200}",
        body.len(),
        answer.text()
    );
    let received = up.only_request();
    assert!(received.body == body, "{} bytes at the replica for {}", received.body.len(), body.len());
    assert!(answer.body == body, "{} bytes at the client for {}", answer.body.len(), body.len());
    up.forget_received();
}

#[tokio::test]
async fn bodies_from_1_byte_to_64_mib_arrive_byte_for_byte() {
    let up = Upstream::start("m");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut sent = 0;
    // A request names its model, so 13 bytes are the least; answers go down to one byte.
    for size in [1, 2, 12] {
        for framing in 0..3 {
            up.on_request(move |r| echo(&Received { index: framing, body: vec![b'7'; size], ..r.clone() }));
            let answer = bench.ask(&post(CHAT, &body_of(13))).await;
            assert_eq!((answer.body, answer.end), (vec![b'7'; size], End::Whole));
            sent += 1;
        }
    }
    up.forget_received();
    up.on_request(echo);
    for size in [
        13,
        14,
        100,
        4095,
        4096,
        4097,
        16_383,
        16_384,
        16_385,
        65_535,
        65_536,
        65_537,
        1 << 20,
        (1 << 20) + 1,
    ] {
        let body = body_of(size);
        for _ in 0..3 {
            assert_echoed(&bench, &up, &post(CHAT, &body), &body).await;
            assert_echoed(&bench, &up, &post_chunked(CHAT, body.chunks(size / 3 + 1)), &body).await;
            sent += 2;
        }
    }
    let body = body_of(64 << 20);
    assert_echoed(&bench, &up, &post(CHAT, &body), &body).await;
    assert_echoed(&bench, &up, &post_chunked(CHAT, body.chunks(1_000_000)), &body).await;
    bench.assert_idle(sent + 2).await;
}

#[tokio::test]
async fn a_09_bodies_around_64_kib_arrive_whole_at_any_pace() {
    let up = Upstream::start("m");
    let bench = Bench::with_replicas(&[&up]).await;
    up.on_request(echo);
    let mut sent = 0;
    for size in [65_535, 65_536, 65_537, 98_304, 1 << 20, 10 << 20] {
        let body = body_of(size);
        for request in [post(CHAT, &body), post_chunked(CHAT, body.chunks(16 * 1024))] {
            assert_echoed(&bench, &up, &request, &body).await;
            // In 16 KiB writes, everything else let run in between.
            let mut client = bench.client().await;
            client.send_in_pieces(&request, 16 * 1024).await;
            let answer = client.answer().await;
            assert!(answer.body == body && up.only_request().body == body, "{size} bytes in pieces");
            up.forget_received();
            sent += 2;
        }
    }
    bench.assert_idle(sent).await;
}

#[tokio::test]
async fn a_10_the_configured_limit_is_the_only_limit() {
    let up = Upstream::start("m");
    let bench = Bench::with_replicas(&[&up]).await;
    let image = "iVBORw0KGgo".repeat(3 * (1 << 20) / 11);
    let picture = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}]}}"#
    );
    assert_eq!(bench.ask(&post(CHAT, picture.as_bytes())).await.status(), 200);
    assert!(up.only_request().text() == picture);
    up.forget_received();
    let large = body_of(33 << 20);
    assert_eq!(bench.ask(&post(CHAT, &large)).await.status(), 200);
    assert!(up.only_request().body == large);
    let floats = "0.0123456789,".repeat((5 << 19) / 13);
    let vectors = format!(
        r#"{{"object":"list","data":[{{"embedding":[{floats}0]}}],"usage":{{"prompt_tokens":9,"total_tokens":9}}}}"#
    );
    up.answer_with(vec![send(answer(200, &[("content-type", "application/json")], vectors.as_bytes()))]);
    let answer = bench.ask(&post("/v1/embeddings", &body_of(100))).await;
    assert!(answer.status() == 200 && answer.text() == vectors);
    let lines = bench.assert_idle(3).await;
    assert_line(&lines[2], &[("endpoint", json!("/v1/embeddings")), ("prompt_tokens", json!(9))]);
}

#[tokio::test]
async fn a_10_a_body_over_the_limit_is_a_413_with_a_line() {
    let up = Upstream::start("m");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "max_body", "1MiB"), 1).await;
    let (fits, over) = (body_of(1 << 20), body_of((1 << 20) + 1));
    assert_eq!(bench.ask(&post(CHAT, &fits)).await.status(), 200);
    assert_eq!(bench.ask(&post_chunked(CHAT, fits.chunks(5000))).await.status(), 200);
    let refused = [
        post(CHAT, &over),
        post_chunked(CHAT, over.chunks(5000)),
        post_chunked(CHAT, [&over]),
        // Only the head: the length alone is enough to know.
        format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n", u64::MAX >> 1).into_bytes(),
    ];
    for request in &refused {
        assert_own_error(&bench.ask(request).await, 413);
    }
    assert_eq!(up.counts().requests.get(), 2);
    for line in &bench.assert_idle(6).await[2..] {
        assert_line(
            line,
            &[("status", json!(413)), ("outcome", json!("client_error")), ("attempts", json!(0))],
        );
    }
}

#[tokio::test]
async fn a_11_a_chunked_request_arrives_with_one_framing_and_the_connection_goes_on() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = chat("m1", &format!(r#","user":"{}""#, "u".repeat(80_000)));
    let in_model = body.windows(4).position(|w| w == b"\"m1\"").expect("the model") + 2;
    // A first chunk that ends inside the model's value, then chunks of 1, 7, 4096 and 70 000 bytes and the rest.
    let mut sizes = vec![in_model, 1, 7, 4096, 70_000];
    sizes.push(body.len() - sizes.iter().sum::<usize>());
    let mut rest = body.as_slice();
    let chunks: Vec<&[u8]> = sizes.iter().map(|n| rest.split_off(..*n).expect("enough bytes")).collect();
    let small = chat("m1", "");
    let mut odd =
        format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: Chunked\r\n\r\n").into_bytes();
    odd.extend(format!("{:X};name=\"va\\\"l;ue\"\r\n", small.len()).into_bytes());
    odd.extend([small.as_slice(), b"\r\n000;last\r\nTrailer-Field: 1\r\nX-Other: 2\r\n\r\n"].concat());
    let mut client = bench.client().await;
    for (request, body) in [
        (post_chunked(CHAT, chunks), &body),
        (post_chunked(CHAT, body.chunks(1)), &body),
        (odd, &small),
        (post(CHAT, &small), &small),
    ] {
        let answer = client.exchange(&request).await;
        assert_eq!((answer.status(), answer.end), (200, End::Whole), "{}", answer.text());
        let received = up.received().pop().expect("a request");
        assert_eq!(received.body, *body);
        assert!(
            received.head.has("content-length") && !received.head.has("transfer-encoding"),
            "{:?}",
            received.head
        );
        assert!(
            !received.head.has("trailer-field") && !received.head.has("x-other"),
            "a trailer became a field"
        );
    }
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn a_12_a_client_that_waits_for_100_continue_gets_exactly_one() {
    let up = Upstream::start("m");
    let bench = Bench::with_replicas(&[&up]).await;
    // An engine that sends an interim answer of its own as well.
    let own = [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), answer(200, &[], b"{}")].concat();
    let body = body_of(5867);
    let mut client = bench.client().await;
    for engine_says_it_too in [false, true] {
        if engine_says_it_too {
            up.answer_with(vec![send(&own)]);
        }
        for (framing, wire) in [
            (format!("Content-Length: {}", body.len()), body.clone()),
            ("Transfer-Encoding: chunked".to_owned(), [chunk(&body), LAST_CHUNK.to_vec()].concat()),
        ] {
            let head =
                format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nExpect: 100-Continue\r\n{framing}\r\n\r\n");
            client.send(head.as_bytes()).await;
            assert_eq!(client.head().await.status(), 100);
            client.send(&wire).await;
            assert_eq!(client.answer().await.status(), 200);
            let received = up.received().pop().expect("a request");
            assert!(received.body == body && !received.head.has("expect"), "{:?}", received.head);
        }
    }
    assert!(client.nothing_came());
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn a_12_nothing_is_asked_for_that_will_not_be_read_or_needs_no_asking() {
    let up = Upstream::start("m");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "max_body", "1KiB"), 1).await;
    let expect = [("Expect", "100-continue")];
    // Refused at once: no interim answer before the final one.
    let mut client = bench.client().await;
    client
        .send(
            format!(
                "POST {CHAT} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n"
            )
            .as_bytes(),
        )
        .await;
    assert_own_error(&client.answer().await, 413);
    // A client that does not wait: at most one interim answer, then the final one.
    let mut client = bench.client().await;
    client.send(&post_with(CHAT, &expect, &body_of(100))).await;
    let first = client.head().await;
    let last = if first.status() == 100 { client.head().await } else { first };
    assert_eq!(client.rest_of(last).await.status(), 200);
    // RFC 9110 10.1.1: an HTTP/1.0 client's expectation is ignored, for it cannot read interim answers.
    let mut client = bench.client().await;
    let old = String::from_utf8(post_with(CHAT, &expect, &body_of(100)))
        .expect("text")
        .replace("HTTP/1.1", "HTTP/1.0");
    client.send(old.as_bytes()).await;
    assert_eq!(client.answer().await.status(), 200);
    bench.assert_idle(3).await;
}
