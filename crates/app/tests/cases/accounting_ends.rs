//! A-27, A-28: one usage line whatever the end, and what is known in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sluicegate_testkit::answers::{
    STREAM_HEAD, chat_answer, chunk, error_answer, finish_event, open_stream, polite, role_event, text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, get, post_as, post_with};
use sluicegate_testkit::{Bench, Config, Gate, RawClient, Step, Upstream, send, until};

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
        for (members, most) in [(r#","stream":true"#, 0), (r#","max_tokens":4"#, 4)] {
            let charged = ends.bench.key_usage("ann").day.tokens;
            let seen = ends.up.counts().requests.get();
            ends.up.answer_with(vec![Step::Hang]);
            let mut client = ends.bench.client().await;
            client.send(&request(members)).await;
            ends.up.counts().requests.reached(seen + 1).await;
            leave(client, n).await;
            let (line, charged) = ends.line(charged).await;
            let made = line["completion_tokens"].as_u64().expect("a number");
            assert!(made <= most, "{made} tokens of at most {most}");
            assert_estimate(&line, charged, made);
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

/// Anthropic's streams begin with counts that say nothing of what is to come.
#[tokio::test]
async fn a_27_who_leaves_a_messages_stream_pays_for_what_was_made() {
    let mut ends = Ends::new().await;
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":1000,"output_tokens":0}}}"#;
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let mut events = vec![format!("event: message_start\ndata: {start}\n\n").into_bytes()];
    events.extend((0..30).map(|_| format!("event: content_block_delta\ndata: {delta}\n\n").into_bytes()));
    ends.up.answer_with([open_stream(&events), vec![Step::Hang]].concat());
    let mut client = ends.bench.client().await;
    let body = br#"{"model":"m1","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"u"}]}"#;
    client.send(&post_as("ann", "/v1/messages", body)).await;
    assert_eq!(client.head().await.status(), 200);
    for event in &events {
        assert_eq!(client.event().await, *event);
    }
    client.reset();
    let (line, charged) = ends.line(0).await;
    assert_estimate(&line, charged, 30);
}

/// Some engines send many tokens in one event: then the text tells more than the number of events does.
#[tokio::test]
async fn a_27_who_leaves_a_stream_of_large_events_pays_for_their_text() {
    let mut ends = Ends::new().await;
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"ARGS"}}]}}]}"#;
    let call = format!("data: {}\n\n", call.replace("ARGS", &"a".repeat(399))).into_bytes();
    let text = || text_event(&"t".repeat(400));
    let total = r#"{"choices":[{"index":0,"delta":{"content":"TEXT"}}],"usage":{"prompt_tokens":1000,"completion_tokens":20}}"#;
    let total = format!("data: {}\n\n", total.replace("TEXT", &"t".repeat(400))).into_bytes();
    // The events, and the tokens that are charged for them. A running total counts what came before it, and no more.
    for (events, tokens) in
        [(vec![role_event(), text(), text(), call], 300), (vec![text(), total.clone(), text()], 120)]
    {
        let charged = ends.bench.key_usage("ann").day.tokens;
        ends.up.answer_with([open_stream(&events), vec![Step::Hang]].concat());
        let mut client = ends.bench.client().await;
        client.send(&request(r#","stream":true"#)).await;
        assert_eq!(client.head().await.status(), 200);
        for event in &events {
            assert_eq!(client.event().await, *event);
        }
        client.reset();
        let (line, charged) = ends.line(charged).await;
        assert_estimate(&line, charged, tokens);
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

/// Two replicas of `m1` that end requests in every way; what they do depends on the `user` of the request.
fn many_ends(ups: &[Upstream]) {
    let first = Arc::new(AtomicBool::new(true));
    for up in ups {
        let first = Arc::clone(&first);
        up.on_request(move |request| match request {
            r if is(r, "second") && first.swap(false, Ordering::Relaxed) => {
                vec![send(error_answer(503, "busy"))]
            }
            r if is(r, "dies") => vec![send(STREAM_HEAD), send(chunk(&text_event("a"))), Step::Reset],
            r if is(r, "hangs") => vec![Step::Hang],
            r if is(r, "left") => [open_stream(&[text_event("a")]), vec![Step::Hang]].concat(),
            r => polite(r),
        });
    }
}

/// A request, the status that its client sees, and of its line the outcome, the key and the attempts.
type End = (&'static str, Vec<u8>, u16, &'static str, Option<&'static str>, u32);

fn ends_of_a_28() -> Vec<End> {
    let (chat_m1, ann) = (chat("m1", ""), Some("ann"));
    let huge = ask_as("ann", &"x".repeat(9000), "");
    let dies = ask_as("ann", "dies", r#","stream":true"#);
    let gone = chat("gone", "");
    vec![
        ("no key", post_with(CHAT, &[], &chat_m1), 401, "rejected_auth", None, 0),
        ("bad key", post_with(CHAT, &[("x-api-key", "k")], &chat_m1), 401, "rejected_auth", None, 0),
        ("not allowed", post_as("m1 only", CHAT, &gone), 404, "client_error", Some("m1 only"), 0),
        ("unknown model", post_as("ann", CHAT, &chat("m9", "")), 404, "client_error", ann, 0),
        ("unknown path", get("/v1/nowhere"), 404, "client_error", None, 0),
        ("too large", huge, 413, "client_error", ann, 0),
        ("good", ask_as("one", "u", ""), 200, "ok", Some("one"), 1),
        ("limited", ask_as("one", "u", ""), 429, "rejected_limit", Some("one"), 0),
        ("nobody there", post_as("ann", CHAT, &gone), 503, "no_replica", ann, 1),
        ("second attempt", ask_as("ann", "second", ""), 200, "ok", ann, 2),
        ("dies", dies, 200, "upstream_aborted", ann, 1),
        ("timeout", ask_as("ann", "hangs", ""), 504, "timeout_total", ann, 1),
    ]
}

#[tokio::test]
async fn a_28_every_end_leaves_exactly_one_line() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("gone")];
    let config = Config::new(&[&ups[0], &ups[1]])
        .pool("gone", &[&ups[2]])
        .route("gone", "gone")
        .set("listen", "max_body", "8KiB")
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.timeouts", "total", "2s")
        .key("ann")
        .key("one")
        .key_set("requests_per_minute", 1)
        .key("m1 only")
        .key_set("routes", &["m1"][..]);
    let bench = Bench::live(&config, 3).await;
    ups[2].stop();
    many_ends(&ups[..2]);
    let rows = ends_of_a_28();
    for (n, (name, request, status, outcome, key, attempts)) in rows.iter().enumerate() {
        let answer = bench.ask(request).await;
        assert_eq!(answer.status(), *status, "{name}: {}", answer.text());
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        assert_line(&line, &[("outcome", json!(outcome)), ("status", json!(status)), ("key", json!(key))]);
        assert_line(&line, &[("attempts", json!(attempts))]);
        assert_eq!(line["request_id"].as_str(), answer.head.get("x-request-id"), "{name}");
        for member in ["time", "total_ms", "bytes_in", "bytes_out", "gateway"] {
            assert!(!line[member].is_null(), "{name}: no {member} in {line}");
        }
        assert!(!line.to_string().contains("sk-"), "{line}");
    }
    // The client leaves in mid-stream.
    let mut client = bench.client().await;
    client.send(&ask_as("ann", "left", r#","stream":true"#)).await;
    client.head().await;
    client.event().await;
    client.reset();
    let line = bench.assert_idle(rows.len() + 1).await.pop().expect("a line");
    assert_line(&line, &[("outcome", json!("client_gone")), ("model", json!("m1")), ("status", json!(200))]);
}

#[tokio::test]
async fn a_28_a_wait_that_was_too_long_leaves_its_line() {
    let up = Upstream::start("m1");
    let config =
        Config::new(&[&up]).set("pools", "slots", 1).set("routes.queue", "max_wait", "300ms").key("ann");
    let bench = Bench::live(&config, 1).await;
    up.answer_with(vec![Step::Hang]);
    let mut holder = bench.client().await;
    holder.send(&ask_as("ann", "held", "")).await;
    up.counts().requests.reached(1).await;
    assert_eq!(bench.ask(&ask_as("ann", "late", "")).await.status(), 503);
    let line = bench.usage_lines(1).await.pop().expect("a line");
    assert_line(&line, &[("outcome", json!("rejected_queue")), ("error_type", json!("queue_timeout"))]);
    assert_line(&line, &[("key", json!("ann")), ("attempts", json!(0)), ("status", json!(503))]);
    assert!(line["queue_ms"].as_f64() >= Some(300.0), "{line}");
    holder.reset();
    bench.assert_idle(2).await;
}
