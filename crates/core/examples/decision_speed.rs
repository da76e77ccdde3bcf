//! Nanoseconds of a decision: choice and lease, the first byte, the release.
//!
//! `cargo run --release --example decision_speed -p sluicegate-core`

use sluicegate_core::{
    Mode, Origin, PickRequest, Pool, PoolSettings, Prompt, ReplicaSpec, Scrape, Serves, Time, Verdict, Weight,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Requests of a round; the fastest of the rounds counts, since a shared machine only ever adds time.
const REQUESTS: u64 = 20_000;
const ROUNDS: usize = 15;
/// Requests that are open at a time, for each replica.
const OPEN: usize = 2;

/// Talks of 60 blocks, the size of the mean prompt of recorded chat traffic, all with the same first four.
struct Talks {
    blocks: Vec<u64>,
    count: u64,
}

impl Talks {
    fn prompt(&mut self, turn: u64, len: u64) -> &[u64] {
        let talk = turn.wrapping_mul(0x9e37_79b9) % self.count;
        self.blocks.clear();
        self.blocks.extend((0..len).map(|at| if at < 4 { at + 1 } else { (talk + 1) << 20 | at }));
        &self.blocks
    }
}

fn pool(replicas: usize) -> Pool {
    let mut pool = Pool::new(PoolSettings { predict: true, ..PoolSettings::default() }, 1);
    for index in 0..replicas {
        let id = pool.add(
            Time::ZERO,
            ReplicaSpec {
                name: format!("http://replica-{index}:8000"),
                origin: Origin::Startup,
                scraped: true,
                slots: None,
                serves: Serves::All,
            },
        );
        pool.scraped(Time::ZERO, id, Scrape::Healthy { load: None }, None);
    }
    while pool.poll_effect().is_some() {}
    pool
}

/// Nanoseconds of the choice, and of what follows.
fn measure(replicas: usize, len: u64, mode: Mode<'static>) -> (f64, f64) {
    let mut pool = pool(replicas);
    let mut talks = Talks { blocks: Vec::new(), count: 40 * replicas as u64 };
    let mut open = std::collections::VecDeque::new();
    let mut now = Time::ZERO + Duration::from_secs(1);
    let step = Duration::from_secs_f64(1.5 / replicas as f64);
    let (mut best, mut turn) = ((f64::MAX, f64::MAX), 0);
    for _ in 0..ROUNDS {
        let (mut choosing, mut following) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..REQUESTS {
            turn += 1;
            now = now + step;
            let blocks = talks.prompt(turn, len);
            let tokens = len as u32 * 256 + 100;
            let prompt = Prompt { tokens, blocks, block_tokens: 256, whole_answer: false };
            let weight = Weight::from_prompt_tokens(u64::from(tokens));
            let request = PickRequest { weight, prompt, mode, ..PickRequest::default() };
            let begun = Instant::now();
            let picked = black_box(pool.pick(now, black_box(&request)));
            choosing += begun.elapsed();
            open.push_back(picked.expect("all are LIVE"));
            if open.len() > OPEN * replicas
                && let Some(mut picked) = open.pop_front()
            {
                let begun = Instant::now();
                pool.answered(now, &mut picked.lease);
                pool.release(now, picked.lease, Verdict::Success, None);
                following += begun.elapsed();
            }
        }
        let each = |time: Duration| time.as_secs_f64() * 1e9 / REQUESTS as f64;
        best = (best.0.min(each(choosing)), best.1.min(each(following)));
    }
    best
}

fn main() {
    for replicas in std::env::args().nth(1).map_or(vec![4, 32, 1000], |n| vec![n.parse().expect("a number")])
    {
        for (name, mode) in [("adaptive", Mode::Adaptive), ("predictive", Mode::Predictive)] {
            for len in [4, 60] {
                let (choice, rest) = measure(replicas, len, mode);
                println!(
                    "{replicas:>4} replicas, {name:<10} prompts of {len:>2} blocks: choice and lease {choice:>6.0} ns, first byte and release {rest:>5.0} ns"
                );
            }
        }
    }
}
