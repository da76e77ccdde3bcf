//! A-27, A-28: one usage line whatever the end, and what is known in it.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{
    LAST_CHUNK, STREAM_HEAD, chat_answer, chunk, error_answer, finish_event, open_stream, polite, role_event,
    text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, get, post_as, post_with};
use sluicegate_testkit::{Bench, Config, Gate, OnHead, RawClient, Step, Upstream, send, until};

use crate::checks::assert_line;
use crate::key_limits::{ask_as, is};

/// Text of 4000 bytes: about 1000 tokens.
fn prompt() -> String {
    "word ".repeat(800)
}

/// A streaming chat of `ann` with a prompt of about 1000 tokens.
fn request(members: &str) -> Vec<u8> {
    let body =
        format!(r#"{{"model":"m1","messages":[{{"role":"user","content":"{}"}}]{members}}}"#, prompt());
    post_as("ann", CHAT, body.as_bytes())
}

async fn leave(client: RawClient, n: usize) {
    match n % 2 {
        0 => client.reset(),
        _ => client.close().await,
    }
}

struct Ends {
    up: Upstream,
    bench: Bench,
    lines: usize,
}

impl Ends {
    async fn new() -> Self {
        let up = Upstream::start("m1");
        let config = Config::new(&[&up])
            .set("pools", "slots", 1)
            .set("routes.price", "prompt", 1000.0)
            .set("routes.price", "completion", 1000.0)
            .key("ann")
            .key_set("tokens_per_day", 1_000_000)
            .key("bob");
        let bench = Bench::live(&config, 1).await;
        Self { up, bench, lines: 0 }
    }

    /// The next line, and what `ann` was charged for it.
    async fn line(&mut self, charged: u64) -> (Value, u64) {
        self.lines += 1;
        let line = self.bench.assert_idle(self.lines).await.pop().expect("a line");
        (line, self.bench.key_usage("ann").day.tokens - charged)
    }
}

#[track_caller]
fn assert_estimate(line: &Value, charged: u64, completion: u64) {
    assert_line(line, &[("outcome", json!("client_gone")), ("usage_source", json!("estimated"))]);
    assert_line(line, &[("completion_tokens", json!(completion)), ("key", json!("ann"))]);
    let prompt = line["prompt_tokens"].as_u64().expect("a number");
    assert!((900..1100).contains(&prompt), "{prompt} prompt tokens");
    assert_eq!(charged, prompt + completion, "the key pays what the line says");
    let cost = line["cost"].as_f64().expect("a cost");
    assert!(
        (cost - (prompt + completion) as f64 / 1000.0).abs() < 1e-9,
        "{cost} for {}",
        prompt + completion
    );
}

#[tokio::test]
async fn a_27_who_leaves_early_pays_for_what_was_made() {
    let mut ends = Ends::new().await;
    for n in 0..2 {
        // (b) Dispatched, and no answer yet; with a stream and without.
        for members in [r#","stream":true"#, ""] {
            let charged = ends.bench.key_usage("ann").day.tokens;
            let seen = ends.up.counts().requests.get();
            ends.up.answer_with(vec![Step::Hang]);
            let mut client = ends.bench.client().await;
            client.send(&request(members)).await;
            ends.up.counts().requests.reached(seen + 1).await;
            leave(client, n).await;
            let (line, charged) = ends.line(charged).await;
            assert_estimate(&line, charged, 0);
            assert_line(
                &line,
                &[("status", json!(null)), ("replica", json!(ends.up.url())), ("attempts", json!(1))],
            );
        }
        // (c) After 50 events with text, and (d) after the last one, before the usage.
        for finished in [false, true] {
            let charged = ends.bench.key_usage("ann").day.tokens;
            let mut events = vec![role_event()];
            events.extend((0..50).map(|i| text_event(&format!("t{i}"))));
            if finished {
                events.push(finish_event("stop"));
            }
            let mut script = open_stream(&events);
            script.push(Step::Hang);
            ends.up.answer_with(script);
            let mut client = ends.bench.client().await;
            client.send(&request(r#","stream":true"#)).await;
            assert_eq!(client.head().await.status(), 200);
            for event in &events {
                assert_eq!(client.event().await, *event);
            }
            leave(client, n).await;
            let (line, charged) = ends.line(charged).await;
            assert_estimate(&line, charged, 50);
            let reason = if finished { json!("stop") } else { json!(null) };
            assert_line(
                &line,
                &[("status", json!(200)), ("events", json!(events.len())), ("finish_reason", reason)],
            );
            assert!(line["ttft_ms"].is_number() && line["bytes_out"].as_u64() > Some(50 * 100), "{line}");
        }
    }
}

#[tokio::test]
async fn a_27_who_leaves_the_queue_pays_nothing() {
    let ends = Ends::new().await;
    let gate = Gate::new();
    ends.up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let mut holder = ends.bench.client().await;
    holder.send(&ask_as("bob", "u", "")).await;
    ends.up.counts().requests.reached(1).await;
    for n in 0..2 {
        let mut client = ends.bench.client().await;
        client.send(&request(r#","stream":true"#)).await;
        until(|| ends.bench.waiting() == 1).await;
        assert!(ends.bench.key_usage("ann").day.tokens > 1000, "who waits has reserved");
        leave(client, n).await;
        until(|| ends.bench.key_usage("ann").concurrent == 0).await;
        let line = ends.bench.usage_lines(n + 1).await.pop().expect("a line");
        assert_line(&line, &[("outcome", json!("client_gone_queued")), ("usage_source", json!("none"))]);
        assert_line(
            &line,
            &[("replica", json!(null)), ("attempts", json!(0)), ("prompt_tokens", json!(null))],
        );
        assert_eq!(ends.bench.key_usage("ann").day.tokens, 0);
    }
    gate.open();
    assert_eq!(holder.answer().await.status(), 200);
    ends.bench.assert_idle(3).await;
}

/// A stream whose engine counted before it was left is not estimated.
#[tokio::test]
async fn a_27_what_the_engine_has_counted_is_not_estimated() {
    let mut ends = Ends::new().await;
    let events = [role_event(), text_event("a"), sluicegate_testkit::answers::usage_event(31, 7)];
    ends.up.answer_with([open_stream(&events), vec![Step::Hang]].concat());
    let mut client = ends.bench.client().await;
    client.send(&request(r#","stream":true,"stream_options":{"include_usage":true}"#)).await;
    client.head().await;
    for event in &events {
        assert_eq!(client.event().await, *event);
    }
    client.reset();
    let (line, charged) = ends.line(0).await;
    assert_line(&line, &[("outcome", json!("client_gone")), ("usage_source", json!("engine"))]);
    assert_eq!(
        (line["prompt_tokens"].as_u64(), line["completion_tokens"].as_u64(), charged),
        (Some(31), Some(7), 38)
    );
}

/// Every end of A-28: what the request is, what status its client sees, and the outcome of its line.
#[tokio::test]
async fn a_28_every_end_leaves_exactly_one_line() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("gone")];
    let config = Config::new(&[&ups[0], &ups[1]])
        .pool("gone", &[&ups[2]])
        .route("gone", "gone")
        .set("listen", "max_body", "8KiB")
        .set("pools", "slots", 1)
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.queue", "max_wait", "300ms")
        .set("routes.timeouts", "total", "2s")
        .key("ann")
        .key("one")
        .key_set("requests_per_minute", 1)
        .key("m1 only")
        .key_set("routes", &["m1"][..]);
    let bench = Bench::live(&config, 3).await;
    ups[2].stop();
    let first = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    for up in &ups[..2] {
        let first = first.clone();
        up.on_request(move |request| match request {
            r if is(r, "second") && first.swap(false, std::sync::atomic::Ordering::Relaxed) => {
                vec![send(error_answer(503, "busy"))]
            }
            r if is(r, "dies") => vec![send(STREAM_HEAD), send(chunk(&text_event("a"))), Step::Reset],
            r if is(r, "hangs") => vec![Step::Hang],
            r if is(r, "left") => [open_stream(&[text_event("a")]), vec![Step::Hang]].concat(),
            r if is(r, "unfinished") => [open_stream(&[text_event("a")]), vec![send(LAST_CHUNK)]].concat(),
            r => polite(r),
        });
    }
    let stream = r#","stream":true"#;
    let huge = ask_as("ann", &"x".repeat(9000), "");
    let rows: [(&str, Vec<u8>, Value, &str, &str); 12] = [
        ("no key", post_with(CHAT, &[], &chat("m1", "")), json!(401), "rejected_auth", "-"),
        (
            "bad key",
            post_with(CHAT, &[("x-api-key", "k")], &chat("m1", "")),
            json!(401),
            "rejected_auth",
            "-",
        ),
        ("not allowed", post_as("m1 only", CHAT, &chat("gone", "")), json!(404), "client_error", "m1 only"),
        ("unknown model", post_as("ann", CHAT, &chat("m9", "")), json!(404), "client_error", "ann"),
        ("unknown path", get("/v1/nowhere"), json!(404), "client_error", "-"),
        ("too large", huge, json!(413), "client_error", "ann"),
        ("good", ask_as("one", "u", ""), json!(200), "ok", "one"),
        ("limited", ask_as("one", "u", ""), json!(429), "rejected_limit", "one"),
        ("nobody there", post_as("ann", CHAT, &chat("gone", "")), json!(503), "no_replica", "ann"),
        ("second attempt", ask_as("ann", "second", ""), json!(200), "ok", "ann"),
        ("dies", ask_as("ann", "dies", stream), json!(200), "upstream_aborted", "ann"),
        ("timeout", ask_as("ann", "hangs", ""), json!(504), "timeout_total", "ann"),
    ];
    let mut count = 0;
    for (name, request, status, outcome, key) in &rows {
        let answer = bench.ask(request).await;
        assert_eq!(json!(answer.status()), *status, "{name}: {}", answer.text());
        count += 1;
        let line = bench.assert_idle(count).await.pop().expect("a line");
        let key = if *key == "-" { json!(null) } else { json!(key) };
        assert_line(&line, &[("outcome", json!(outcome)), ("status", status.clone()), ("key", key)]);
        assert_eq!(line["request_id"].as_str(), answer.head.get("x-request-id"), "{name}");
        for member in ["time", "total_ms", "attempts", "bytes_in", "bytes_out", "gateway"] {
            assert!(!line[member].is_null(), "{name}: no {member} in {line}");
        }
        assert_eq!(
            line["attempts"],
            json!(match *name {
                "second attempt" => 2,
                "good" | "dies" | "timeout" | "nobody there" => 1,
                _ => 0,
            }),
            "{name}"
        );
        assert!(!line.to_string().contains("sk-"), "{line}");
    }
    // The client leaves in mid-stream.
    let mut client = bench.client().await;
    client.send(&ask_as("ann", "left", stream)).await;
    client.head().await;
    client.event().await;
    client.reset();
    let line = bench.assert_idle(count + 1).await.pop().expect("a line");
    assert_line(&line, &[("outcome", json!("client_gone")), ("model", json!("m1")), ("status", json!(200))]);
    // The queue is too slow.
    for up in &ups[..2] {
        up.on_head(|_| OnHead::ReadBody);
        up.answer_with(vec![Step::Hang]);
    }
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = bench.client().await;
        client.send(&ask_as("ann", "held", "")).await;
        held.push(client);
    }
    until(|| ups[..2].iter().map(|up| up.counts().open.get()).sum::<u64>() == 2).await;
    assert_eq!(bench.ask(&ask_as("ann", "late", "")).await.status(), 503);
    let line = bench.usage_lines(count + 2).await.pop().expect("a line");
    assert_line(&line, &[("outcome", json!("rejected_queue")), ("error_type", json!("queue_timeout"))]);
    assert!(line["queue_ms"].as_f64() >= Some(300.0), "{line}");
    drop(held);
    bench.assert_idle(count + 4).await;
}
