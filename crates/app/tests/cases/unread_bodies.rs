//! A-67: what a refused request leaves on its connection is never taken for another one.

use serde_json::json;
use sluicegate_testkit::requests::{CHAT, chat, get_as, post_chunked, post_with};
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send};

/// A request that rides in the body of another.
const EMBEDDED: &str = "\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: sk-ann-0f9a7c\r\n\r\n";

/// A chat body of 50 KB with requests in it, whatever the parser of the connection is at.
fn loaded_body(model: &str) -> Vec<u8> {
    let mut body = format!(r#"{{"model":"{model}","user":"{}"#, "x".repeat(20_000)).into_bytes();
    body.extend_from_slice(EMBEDDED.repeat(300).as_bytes());
    body.extend_from_slice(br#""}"#);
    body
}

/// Sends `refused` and a real request behind it; the refusal is answered once, the real one at most once and only where
/// the connection was kept. Returns how many requests there were.
async fn refusal_then_get(bench: &Bench, refused: &[u8], status: u16) -> usize {
    let mut client = bench.client().await;
    // A closed connection may not take all of it: what was answered is what counts.
    let _ = client.try_send(&[refused, &get_as("ann", "/v1/models")].concat()).await;
    let answer = client.answer().await;
    assert_eq!(answer.status(), status, "{}", answer.text());
    if answer.head.get("connection") == Some("close") {
        assert!(client.maybe_head().await.is_none(), "an answer after the close");
        return 1;
    }
    assert_eq!(client.answer().await.json()["object"], json!("list"));
    client.half_close().await;
    assert!(client.maybe_head().await.is_none(), "a third answer");
    2
}

#[tokio::test]
async fn a_67_the_body_of_a_refused_request_is_never_executed() {
    let up = Upstream::start("m1");
    let gate = Gate::new();
    let script = vec![Step::Wait(gate.clone()), send(sluicegate_testkit::answers::chat_answer("a", 1, 1))];
    up.answer_with(script);
    let config = Config::new(&[&up]).set("listen", "max_body", "100KiB");
    let config = config.key("ann").key_set("max_concurrent", 1).key("free");
    let bench = Bench::live(&config, 1).await;
    // The key's only place is taken: a 429 with a body of 50 KB.
    let mut holder = bench.client().await;
    let ann = [("x-api-key", Config::secret("ann"))];
    let ann: Vec<_> = ann.iter().map(|(n, v)| (*n, v.as_str())).collect();
    holder.send(&post_with(CHAT, &ann, &chat("m1", ""))).await;
    up.counts().requests.reached(1).await;
    let body = loaded_body("m1");
    let huge = [body.as_slice(), &body, &body].concat();
    let chunked = |fields: &str, body: &[u8]| {
        let request = post_chunked(CHAT, body.chunks(4000));
        let at = request.windows(2).position(|w| w == b"\r\n").expect("a line") + 2;
        [&request[..at], fields.as_bytes(), &request[at..]].concat()
    };
    let secret = Config::secret("free");
    let free = [("x-api-key", secret.as_str())];
    let of = |key: &str| format!("x-api-key: {}\r\n", Config::secret(key));
    let rows = [
        ("bad key", post_with(CHAT, &[("x-api-key", "nobody")], &body), 401),
        ("bad key, chunked", chunked("x-api-key: nobody\r\n", &body), 401),
        ("no such path", post_with("/v1/nowhere", &ann, &body), 404),
        ("wrong method", [b"PUT".as_slice(), &post_with(CHAT, &ann, &body)[4..]].concat(), 405),
        ("too large", post_with(CHAT, &free, &huge), 413),
        ("too large, chunked", chunked(&of("free"), &huge), 413),
        ("used up, with requests in its body", post_with(CHAT, &ann, &body), 429),
        ("no JSON", post_with(CHAT, &free, &body[1..]), 400),
        (
            "used up, chunked",
            chunked(&of("ann"), &chat("m1", &format!(r#","user":"{}""#, "y".repeat(50_000)))),
            429,
        ),
        ("no such model", post_with(CHAT, &ann, &chat("m9", "")), 404),
        ("too large, used up", post_with(CHAT, &ann, &huge), 413),
    ];
    let mut requests = 1;
    for (name, refused, status) in &rows {
        let seen = refusal_then_get(&bench, refused, *status).await;
        requests += seen;
        bench.usage_lines(requests - 1).await;
        assert_eq!(bench.usage_count(), requests - 1, "{name}");
    }
    gate.open();
    assert_eq!(holder.answer().await.status(), 200);
    assert_eq!(up.counts().requests.get(), 1, "only the holder reached the replica");
    bench.assert_idle(requests).await;
}

/// A refused client that stops in the middle of its body has its answer all the same, and the rest means nothing.
#[tokio::test]
async fn a_67_a_refused_client_need_not_finish_its_body() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    let request = post_with(CHAT, &[("x-api-key", "nobody")], &loaded_body("m1"));
    for cut in [request.len() / 2, 300, request.len() - 1] {
        let mut client = bench.client().await;
        client.send(&request[..cut]).await;
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.head.get("connection")), (401, Some("close")));
        let _ = client.try_send(EMBEDDED.as_bytes()).await;
        assert!(client.maybe_head().await.is_none(), "an answer after the close");
    }
    let lines = bench.assert_idle(3).await;
    assert!(lines.iter().all(|l| l["outcome"] == json!("rejected_auth")), "{lines:#?}");
    assert_eq!(up.counts().heads.get(), 0);
}
