//! G13: whatever way a request ends, at whatever stage, nothing of it is left.

use std::sync::Arc;

use serde_json::Value;
use sluicegate_testkit::answers::{
    self, LAST_CHUNK, STREAM_HEAD, answer, chunk, error_answer, open_stream, role_event, text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, get, get_as, post, post_as};
use sluicegate_testkit::{Bench, Config, End, RawClient, Received, Step, Upstream, send, until};
use tokio::task::JoinSet;

/// Requests of one run: with those of `tenancy_leaks` ten thousand.
const REQUESTS: u64 = 2000;
/// Requests under way at once.
const AT_ONCE: usize = 32;

/// xorshift64*: the whole run follows from its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % sides
    }
}

/// What the replica does with requests of each `user`.
pub(crate) fn script(request: &Received) -> Vec<Step> {
    let text = request.text();
    let is = |user: &str| text.contains(&format!(r#""user":"{user}""#));
    match () {
        () if is("hang") => vec![Step::Hang],
        () if is("reset") => vec![Step::Reset],
        () if is("close") => vec![Step::Close],
        () if is("500") => vec![send(error_answer(500, "oops"))],
        () if is("503") => vec![send(error_answer(503, "busy"))],
        () if is("429") => vec![send(error_answer(429, "slow down"))],
        () if is("400") => vec![send(error_answer(400, "no"))],
        () if is("half head") => vec![send(b"HTTP/1.1 200 OK\r\nx"), Step::Reset],
        () if is("half body") => vec![send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), Step::Close],
        () if is("half stream") => {
            [open_stream(&[role_event(), text_event("a")]), vec![Step::Reset]].concat()
        }
        () if is("no done") => [open_stream(&[role_event()]), vec![send(LAST_CHUNK)]].concat(),
        () if is("error event") => [
            open_stream(&[text_event("a"), answers::event(r#"{"error":{"message":"x","code":500}}"#)]),
            vec![send(LAST_CHUNK)],
        ]
        .concat(),
        () if is("stall") => [open_stream(&[role_event(), text_event("a")]), vec![Step::Hang]].concat(),
        () if is("flood") => vec![send(answer(200, &[], &vec![b'x'; 4 << 20]))],
        () if is("stream flood") => {
            vec![send(STREAM_HEAD), send(chunk(&text_event(&"x".repeat(4 << 20)))), Step::Hang]
        }
        () => answers::polite(request),
    }
}

/// Ends that leave it to the gateway and the replica: the client reads whatever comes.
const ANSWERED: [&str; 13] = [
    "good",
    "reset",
    "close",
    "500",
    "503",
    "429",
    "400",
    "half head",
    "half body",
    "half stream",
    "no done",
    "error event",
    "stall",
];

fn body(user: &str, stream: bool) -> Vec<u8> {
    chat("m1", &format!(r#","user":"{user}","stream":{stream}"#))
}

/// Plays one request of this key, and returns how many requests the gateway must have seen.
pub(crate) async fn play(mut client: RawClient, key: &str, kind: u64, detail: u64) -> usize {
    let stream = detail.is_multiple_of(2);
    let whole = |user: &str| post_as(key, CHAT, &body(user, stream));
    match kind {
        0 => leave(client, detail).await,
        1 => {
            let request = whole("good");
            client.send(&request[..request.len().min(10 + usize::try_from(detail).unwrap_or(0) % 60)]).await;
            leave(client, detail).await;
        }
        2 => {
            // The head whole, the body not.
            let request = whole("good");
            client.send(&request[..request.len() - 1 - usize::try_from(detail % 40).unwrap_or(0)]).await;
            leave(client, detail).await;
            return 1;
        }
        3 => {
            client.send(&whole("hang")).await;
            leave(client, detail).await;
            return 1;
        }
        4 => {
            client.send(&post_as(key, CHAT, &body("stall", true))).await;
            let shown = client.maybe_head().await.is_some_and(|head| head.status() == 200);
            if shown && !detail.is_multiple_of(3) {
                client.event().await;
            }
            leave(client, detail).await;
            return 1;
        }
        5 => {
            let user = if stream { "stream flood" } else { "flood" };
            client.send(&whole(user)).await;
            client.maybe_head().await;
            leave(client, detail).await;
            return 1;
        }
        6 => {
            let mut requests = [
                post_as(key, CHAT, b"{"),
                post_as(key, CHAT, br#"{"model":"m9"}"#),
                get("/nowhere"),
                get_as(key, "/v1/models"),
                post("/sleep", b"{}"),
            ];
            requests.rotate_left(usize::try_from(detail).unwrap_or(0) % 5);
            let mut seen = 0;
            for request in &requests {
                seen += 1;
                // A refusal may end the connection, and says so.
                if client.exchange(request).await.head.get("connection") == Some("close") {
                    break;
                }
            }
            return seen;
        }
        7 => {
            // Two at once on one connection.
            client.send(&[whole("good"), whole("good")].concat()).await;
            if client.answer().await.end != End::Whole {
                // The silence limit is short here: a box that stalls may end a good stream, and its connection.
                return 1;
            }
            client.answer().await;
            return 2;
        }
        _ => {
            let user = ANSWERED[usize::try_from(detail).unwrap_or(0) % ANSWERED.len()];
            client.exchange(&whole(user)).await;
            return 1;
        }
    }
    0
}

async fn leave(mut client: RawClient, how: u64) {
    match how % 3 {
        0 => client.reset(),
        1 => client.close().await,
        _ => {
            client.half_close().await;
            client.closed().await;
        }
    }
}

/// Requests of every kind and end, so many at once.
pub(crate) struct Traffic {
    bench: Arc<Bench>,
    pub(crate) dice: Dice,
    at_once: usize,
    running: JoinSet<usize>,
    lines: usize,
}

impl Traffic {
    pub(crate) fn new(bench: &Arc<Bench>, seed: u64, at_once: usize) -> Self {
        Self { bench: Arc::clone(bench), dice: Dice(seed), at_once, running: JoinSet::new(), lines: 0 }
    }

    /// One of any kind, once there is room.
    pub(crate) async fn one_more(&mut self) {
        let (kind, detail) = (self.dice.roll(12), self.dice.roll(1 << 20));
        self.start("anyone", kind, detail).await;
    }

    /// This one, once there is room.
    pub(crate) async fn start(&mut self, key: &'static str, kind: u64, detail: u64) {
        if self.running.len() == self.at_once {
            let ended = self.running.join_next().await.expect("a running request");
            self.lines += ended.expect("a request that did not panic");
        }
        let bench = Arc::clone(&self.bench);
        self.running.spawn(async move { play(bench.client().await, key, kind, detail).await });
    }

    /// Waits for all; how many usage lines they are to have.
    pub(crate) async fn end(self) -> usize {
        self.lines + self.running.join_all().await.into_iter().sum::<usize>()
    }
}

async fn run(seed: u64) {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let all = [&ups[0], &ups[1], &ups[2]];
    // Failures must not take replicas away here: this is about what is left of requests.
    let config = Config::new(&all).set("pools.health", "eject_after_5xx", 1_000_000).set(
        "routes.timeouts",
        "stream_silence",
        "500ms",
    );
    let bench = Arc::new(Bench::live(&config, 3).await);
    for up in all {
        up.on_request(script);
    }
    let mut traffic = Traffic::new(&bench, seed, AT_ONCE);
    for _ in 0..REQUESTS {
        traffic.one_more().await;
    }
    let expected = traffic.end().await;
    let lines = bench.assert_idle(expected).await;
    until(|| bench.open_connections() == 0).await;
    until(|| all.iter().all(|u| u.counts().open.get() == 0)).await;
    bench.assert_idle(expected).await;
    let ids: std::collections::HashSet<_> =
        lines.iter().map(|l| l["request_id"].as_str().map(str::to_owned)).collect();
    assert_eq!(ids.len(), lines.len(), "seed {seed}: two lines for one request");
    let outcomes: std::collections::BTreeSet<_> =
        lines.iter().filter_map(|l: &Value| l["outcome"].as_str()).collect();
    assert!(outcomes.len() >= 6, "seed {seed} only reached {outcomes:?}");
}

#[tokio::test]
async fn g13_every_end_at_every_stage_leaves_nothing_behind() {
    for seed in [1, 2] {
        run(seed).await;
    }
}
