//! The fleet in virtual time and the gateway in front of simulated replicas tell the same story.
//!
//! One scenario: twelve sessions of four turns on three replicas, one request after the other. Over HTTP the clock is the
//! machine's; what is compared is what its load cannot change: choices, tokens, cache hits, and the engines' own times.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::config::{Config, Overrides};
use sluicegate::inspect::Readiness;
use sluicegate::{App, MemorySink};
use sluicegate_core::{PoolSettings, Session, Time};
use sluicegate_lab::client::{Endpoint, Outcome};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fleet::{Fleet, Gateway, Happening, Job, Settings};
use sluicegate_lab::rng::mix;
use sluicegate_lab::sim::{Sim, SimConfig};
use sluicegate_testkit::until;

use crate::http::get;

/// A mode that no measured time has a say in: over HTTP these are the machine's.
const ROUTE: &str = "[[routes]]\nmodel = \"sim\"\nmode = \"adaptive\"\ntargets = [{ pool = \"default\" }]\n";
const REPLICAS: usize = 3;
const SESSIONS: u64 = 12;
const TURNS: u64 = 4;
/// Every ninth is long, so that shares by requests and by tokens differ.
const LONG_EVERY: u64 = 9;
const ANSWER: u32 = 24;
/// Tokens of a block in the profile.
const BLOCK: u32 = 16;

/// What a way of running the scenario came to.
#[derive(Debug, Default)]
struct Story {
    /// In order of the requests: session, prompt tokens, cached tokens, answer tokens.
    requests: Vec<(u64, u32, u32, u32)>,
    /// By replica: requests, prompt tokens, cached tokens; the largest first.
    shares: Vec<(u64, u64, u64)>,
    /// Replicas that each session met.
    homes: BTreeMap<u64, Vec<usize>>,
    /// Engine's time to the first tokens, and between tokens, of all requests together.
    first: f64,
    between: f64,
}

/// Turn after turn, in each the sessions in their order.
fn order() -> impl Iterator<Item = u64> {
    (0..TURNS).flat_map(|_| 0..SESSIONS)
}

fn config(replicas: &[SocketAddr]) -> sluicegate::config::Loaded {
    let port = SocketAddr::from(([127, 0, 0, 1], 0));
    let overrides = Overrides {
        replicas: replicas.iter().map(|address| format!("http://{address}")).collect(),
        listen: Some(port),
        admin: Some(port),
        threads: Some(1),
        ..Overrides::default()
    };
    let mut loaded = Config::from_text("adaptive", ROUTE, &overrides, &|_| None).unwrap();
    loaded.usage.stdout = false;
    loaded
}

async fn over_http() -> Story {
    let profile = Profile::fast();
    let sim = Sim::start(SimConfig { replicas: REPLICAS, profile, ..SimConfig::default() }).unwrap();
    let lines = Arc::new(MemorySink::default());
    let (loaded, sink) = (config(&sim.addrs()), Arc::clone(&lines));
    let app = tokio::task::spawn_blocking(move || App::start(loaded, vec![sink])).await.unwrap().unwrap();
    until(|| app.inspect().readiness() == Readiness::Ready).await;
    let endpoint = Endpoint::new(&format!("http://{}", app.address()), None).unwrap();
    let mut talks: Vec<Vec<Value>> = vec![Vec::new(); SESSIONS as usize];
    let mut story = Story::default();
    for session in order() {
        let talk = &mut talks[session as usize];
        let words = if session % LONG_EVERY == 0 { 400 } else { 40 };
        let said = format!("session {session} turn {} {}", talk.len(), "level ".repeat(words));
        talk.push(json!({"role": "user", "content": said}));
        let body = json!({"model": "sim", "messages": talk, "max_tokens": ANSWER, "ignore_eos": true, "stream": true,
            "stream_options": {"include_usage": true}});
        let name = format!("s{session}");
        let (outcome, told) =
            endpoint.stream("/v1/chat/completions", &name, body.to_string().into(), |_| {}).await;
        assert_eq!(outcome, Outcome::Ok);
        talk.push(json!({"role": "assistant", "content": told.text}));
        let tokens = [told.prompt_tokens, told.cached_tokens, told.completion_tokens].map(|n| n as u32);
        story.requests.push((session, tokens[0], tokens[1], tokens[2]));
    }
    let lines = lines.wait_for(story.requests.len()).await;
    let addrs: Vec<String> = sim.addrs().iter().map(|address| format!("http://{address}")).collect();
    let mut by_replica = vec![(0, 0, 0); REPLICAS];
    for (line, (session, prompt, cached, _)) in lines.iter().zip(&story.requests) {
        let line: Value = serde_json::from_str(line).unwrap();
        let replica = addrs.iter().position(|address| line["replica"] == json!(address)).unwrap();
        book(&mut by_replica[replica], *prompt, *cached);
        story.homes.entry(*session).or_default().push(replica);
    }
    story.shares = sorted(by_replica);
    for address in sim.addrs() {
        let page = get(address, "/metrics").await.body;
        story.first += sum(&page, "vllm:time_to_first_token_seconds_sum");
        story.between += sum(&page, "vllm:inter_token_latency_seconds_sum");
    }
    tokio::task::spawn_blocking(move || app.finish(Duration::from_secs(60))).await.unwrap();
    story
}

fn sum(page: &str, name: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn book(share: &mut (u64, u64, u64), prompt: u32, cached: u32) {
    *share = (share.0 + 1, share.1 + u64::from(prompt), share.2 + u64::from(cached));
}

fn sorted(mut shares: Vec<(u64, u64, u64)>) -> Vec<(u64, u64, u64)> {
    shares.sort_unstable_by(|a, b| b.cmp(a));
    shares
}

/// The same requests, by their sizes, in virtual time.
fn in_virtual_time(requests: &[(u64, u32, u32, u32)]) -> Story {
    let settings = Settings { replicas: REPLICAS, profile: Profile::fast(), ..Settings::default() };
    let gateway = Gateway::new(PoolSettings::default(), &settings, None, 1);
    let mut fleet = Fleet::new(settings, gateway);
    let mut story = Story::default();
    let mut by_replica = vec![(0, 0, 0); REPLICAS];
    // The first scrapes are in by then.
    let mut now = Time::from_nanos(5_000_000_000);
    for &(session, prompt, _, answer) in requests {
        let blocks = (0..(prompt + answer) / BLOCK).map(|block| mix(session << 32 | u64::from(block)));
        let session_key = Some(Session::Explicit(session));
        fleet.submit(Job {
            blocks: blocks.collect(),
            session: session_key,
            ..Job::unique(now, prompt, answer)
        });
        let record = loop {
            match fleet.next(now + Duration::from_secs(60)) {
                Some(Happening::Ended(record)) => break record,
                Some(_) => {}
                None => panic!("a request without an end"),
            }
        };
        now = record.end;
        let replica = record.replica.unwrap().0 as usize;
        book(&mut by_replica[replica], prompt, record.cached_tokens);
        story.homes.entry(session).or_default().push(replica);
        story.requests.push((session, prompt, record.cached_tokens, record.output_tokens));
        let first = record.first_byte.unwrap();
        story.first += first.since(record.arrival).as_secs_f64();
        story.between += record.end.since(first).as_secs_f64();
    }
    story.shares = sorted(by_replica);
    story
}

#[tokio::test]
async fn virtual_time_and_http_agree_on_choices_tokens_cache_hits_and_the_engines_times() {
    let real = over_http().await;
    let virtual_ = in_virtual_time(&real.requests);
    assert_eq!(virtual_.requests, real.requests, "tokens and cache hits of every request");
    for story in [&real, &virtual_] {
        let stayed = |homes: &Vec<usize>| homes.iter().all(|home| *home == homes[0]);
        assert!(story.homes.values().all(stayed), "{:?}", story.homes);
        assert!(story.shares.iter().all(|share| share.0 > 0), "{:?}", story.shares);
    }
    // Which idle replica a new session goes to may differ by one session in each replica's share.
    for (real, virtual_) in real.shares.iter().zip(&virtual_.shares) {
        assert!(real.0.abs_diff(virtual_.0) <= TURNS, "{real:?} and {virtual_:?}");
    }
    let apart = |real: f64, virtual_: f64| (real / virtual_ - 1.0).abs();
    assert!(apart(real.first, virtual_.first) < 0.01, "{} s and {} s", real.first, virtual_.first);
    assert!(apart(real.between, virtual_.between) < 0.01, "{} s and {} s", real.between, virtual_.between);
}
