//! A-35, A-36, A-37: silence is judged only where it means something. Time passes here by events: a companion stream
//! that stalls on purpose, and is ended for it, shows that the silence limit has gone by once.

use serde_json::json;
use sluicegate_testkit::answers::{
    self, DONE, LAST_CHUNK, STREAM_HEAD, chunk, open_stream, role_event, text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, End, Feed, Gate, RawClient, Received, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error, last_event};

/// A user name that tells the script what to do with the request.
fn request(role: &str, stream: bool) -> Vec<u8> {
    post(CHAT, &chat("m1", &format!(r#","user":"{role}","stream":{stream}"#)))
}

fn is(request: &Received, role: &str) -> bool {
    request.text().contains(&format!(r#""user":"{role}""#))
}

fn stalled() -> Vec<Step> {
    let mut script = open_stream(&[role_event(), text_event("a")]);
    script.push(Step::Hang);
    script
}

/// Returns when three silence limits have gone by since the call.
async fn three_silences(bench: &Bench) {
    for _ in 0..3 {
        let answer = bench.ask(&request("companion", true)).await;
        assert_ne!(answer.end, End::Whole, "the companion was not ended");
    }
}

#[tokio::test]
async fn a_35_silence_is_normal_before_the_first_byte_and_length_after_it() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("routes.timeouts", "stream_silence", "1s"), 1).await;
    let (late, tokens) = (Gate::new(), Feed::new());
    let (gate, feed) = (late.clone(), tokens.clone());
    up.on_request(move |request| match request {
        r if is(r, "companion") => stalled(),
        r if is(r, "whole") => vec![Step::Wait(gate.clone()), send(answers::chat_answer("late", 1, 1))],
        // Part of an answer without a stream: its silence means as little.
        r if is(r, "halves") => {
            let wire = answers::chat_answer("late", 1, 1);
            vec![send(&wire[..200]), Step::Wait(gate.clone()), send(&wire[200..])]
        }
        r if is(r, "late") => [vec![Step::Wait(gate.clone())], answers::polite(r)].concat(),
        r if is(r, "late after head") => {
            let mut script = answers::polite(r);
            script.insert(1, Step::Wait(gate.clone()));
            script
        }
        _ => vec![send(STREAM_HEAD), Step::Feed(feed.clone()), send(chunk(DONE)), send(LAST_CHUNK)],
    });
    let roles = [("whole", false), ("halves", false), ("late", true), ("late after head", true)];
    let mut clients = Vec::new();
    for (role, stream) in roles {
        let mut client = bench.client().await;
        client.send(&request(role, stream)).await;
        clients.push((role, client));
    }
    let mut long = bench.client().await;
    long.send(&request("long", true)).await;
    up.counts().requests.reached(5).await;
    // One token per probe, which comes every 20 ms: no gap is long, and the whole is.
    let probes = &up.counts().health_probes;
    let passed = three_silences(&bench);
    tokio::pin!(passed);
    let mut fed = 0;
    loop {
        tokio::select! {
            () = &mut passed => break,
            () = probes.reached(probes.get() + 1) => {
                tokens.push(chunk(&text_event("t")));
                fed += 1;
            }
        }
    }
    late.open();
    tokens.end();
    for (role, mut client) in clients {
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.end), (200, End::Whole), "{role}: {}", answer.text());
    }
    let answer = long.answer().await;
    assert_eq!(
        (answer.body, answer.end),
        ([text_event("t").repeat(fed), DONE.to_vec()].concat(), End::Whole)
    );
    let lines = bench.assert_idle(8).await;
    assert_eq!(lines.iter().filter(|l| l["outcome"] == json!("ok")).count(), 5, "{lines:#?}");
    assert!(lines.iter().all(|l| l["attempts"] == json!(1)));
    assert_eq!(up.counts().requests.get(), 8, "something was generated twice");
    assert_nobody_blamed(&bench, &[&up]);
}

/// G17 in its own proportions: one silence limit stands for a minute, so an answer without a stream takes three, and a
/// stream six.
#[tokio::test]
async fn g17_a_timeout_is_not_a_fault() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    let config = Config::new(&both)
        .set("routes.timeouts", "stream_silence", "1s")
        .set("pools.health", "eject_after_5xx", 1)
        .set("pools", "slots", 4);
    let bench = Bench::live(&config, 2).await;
    let (late, tokens) = (Gate::new(), Feed::new());
    for up in both {
        let (gate, feed) = (late.clone(), tokens.clone());
        up.on_request(move |request| match request {
            r if is(r, "companion") => stalled(),
            r if is(r, "whole") => vec![Step::Wait(gate.clone()), send(answers::chat_answer("late", 1, 1))],
            _ => vec![send(STREAM_HEAD), Step::Feed(feed.clone()), send(chunk(DONE)), send(LAST_CHUNK)],
        });
    }
    let (mut whole, mut long) = (bench.client().await, bench.client().await);
    whole.send(&request("whole", false)).await;
    long.send(&request("long", true)).await;
    let passed = async {
        three_silences(&bench).await;
        late.open();
        three_silences(&bench).await;
    };
    tokio::pin!(passed);
    let probes = &ups[0].counts().health_probes;
    let mut fed = 0;
    loop {
        tokio::select! {
            () = &mut passed => break,
            () = probes.reached(probes.get() + 1) => {
                tokens.push(chunk(&text_event("t")));
                fed += 1;
            }
        }
    }
    tokens.end();
    let answer = whole.answer().await;
    assert_eq!((answer.status(), answer.text()), (200, answers::chat_json("late", 1, 1)));
    let answer = long.answer().await;
    assert_eq!(answer.end, End::Whole);
    assert_eq!(answer.body, [text_event("t").repeat(fed), DONE.to_vec()].concat());
    let lines = bench.assert_idle(8).await;
    assert_eq!(lines.iter().filter(|l| l["outcome"] == json!("ok")).count(), 2, "{lines:#?}");
    assert_eq!(lines.iter().filter(|l| l["outcome"] == json!("timeout_silence")).count(), 6, "{lines:#?}");
    assert!(lines.iter().all(|l| l["attempts"] == json!(1)), "something was repeated");
    assert_nobody_blamed(&bench, &both);
}

#[tokio::test]
async fn a_35_the_total_limit_ends_a_request_once_and_blames_nobody() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let config = Config::new(&[&ups[0], &ups[1]]).set("routes.timeouts", "total", "300ms");
    let bench = Bench::live(&config, 2).await;
    for up in &ups {
        up.answer_with(vec![Step::Hang]);
    }
    for stream in [false, true] {
        assert_own_error(&bench.ask(&request("silent", stream)).await, 504);
    }
    for line in bench.assert_idle(2).await {
        assert_line(
            &line,
            &[("outcome", json!("timeout_total")), ("attempts", json!(1)), ("status", json!(504))],
        );
    }
    // The upstream connections are closed, nothing went elsewhere.
    let gone = |up: &Upstream| up.counts().gone.get();
    sluicegate_testkit::until(|| gone(&ups[0]) + gone(&ups[1]) == 2).await;
    assert_nobody_blamed(&bench, &[&ups[0], &ups[1]]);
}

/// Ends a stream that has started: error event, abnormal end, closed upstream, one line, no second generation.
async fn assert_ended_in_the_stream(setting: (&str, &str), outcome: &str, events: &[Vec<u8>]) {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let config = Config::new(&[&ups[0], &ups[1]]).set("routes.timeouts", setting.0, setting.1);
    let bench = Bench::live(&config, 2).await;
    // One write: no gap between these events can be taken for the silence that is meant.
    let wire: Vec<u8> = STREAM_HEAD.iter().copied().chain(events.iter().flat_map(|e| chunk(e))).collect();
    for up in &ups {
        up.answer_with(vec![send(&wire), Step::Hang]);
    }
    let mut client: RawClient = bench.client().await;
    client.send(&request("stalls", true)).await;
    client.head().await;
    for event in events {
        assert_eq!(client.event().await, *event);
    }
    let (rest, end) = client.rest().await;
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert_ne!(end, End::Whole, "{rest:?}");
    assert!(!rest.contains("[DONE]") && last_event(&rest)["error"].is_object(), "{rest:?}");
    let lines = bench.assert_idle(1).await;
    assert_line(&lines[0], &[("outcome", json!(outcome)), ("attempts", json!(1)), ("status", json!(200))]);
    sluicegate_testkit::until(|| ups.iter().map(|u| u.counts().gone.get()).sum::<u64>() == 1).await;
    assert_eq!(ups.iter().map(|u| u.counts().requests.get()).sum::<u64>(), 1, "generated twice");
    assert_nobody_blamed(&bench, &[&ups[0], &ups[1]]);
}

#[tokio::test]
async fn a_36_a_stream_that_stalls_is_ended_by_the_silence_limit() {
    let events: Vec<_> =
        [role_event()].into_iter().chain((0..4).map(|i| text_event(&format!("{i}")))).collect();
    assert_ended_in_the_stream(("stream_silence", "500ms"), "timeout_silence", &events).await;
    // Also where only a comment has come so far, and where the whole request's limit is the shorter one.
    assert_ended_in_the_stream(("stream_silence", "500ms"), "timeout_silence", &[b": wait\n\n".to_vec()])
        .await;
    assert_ended_in_the_stream(("total", "1s"), "timeout_total", &events).await;
}

#[tokio::test]
async fn a_37_one_dead_replica_does_not_freeze_the_rest() {
    let (dead, healthy) = (Upstream::start("m1"), Upstream::start("m2"));
    let config = Config::new(&[&dead])
        .pool("other", &[&healthy])
        .route("m2", "other")
        .set("listen", "threads", 1)
        .set("routes.timeouts", "total", "3s");
    let bench = Bench::live(&config, 2).await;
    dead.answer_with(vec![Step::Hang]);
    let stuck = post(CHAT, &chat("m1", ""));
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut client = bench.client().await;
        client.send(&stuck).await;
        waiting.push(client);
    }
    dead.counts().requests.reached(200).await;
    let free = post(CHAT, &chat("m2", ""));
    for _ in 0..50 {
        assert_eq!(bench.ask(&free).await.status(), 200);
    }
    for client in &mut waiting {
        assert_own_error(&client.answer().await, 504);
    }
    let lines = bench.assert_idle(250).await;
    assert_eq!(lines.iter().filter(|l| l["outcome"] == json!("ok")).count(), 50);
    assert_eq!(lines.iter().filter(|l| l["outcome"] == json!("timeout_total")).count(), 200);
    assert_nobody_blamed(&bench, &[&healthy]);
}
