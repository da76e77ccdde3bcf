//! A-55 and A-54 under load: a limit is checked and taken as one step, however many ask in the same moment.

use std::sync::Arc;

use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::{Bench, Config, Gate, Setting, Step, Upstream, send, until};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::key_limits::ask_as;

/// As many requests as this, all let go by one barrier.
const AT_ONCE: usize = 200;

/// How many of them pass under these limits; the others must be refused by them.
async fn passing(limits: &[(&str, i64)]) -> (Bench, u64) {
    let up = Upstream::start("m1");
    let mut config = Config::new(&[&up]).set("listen", "threads", 4).key("ann");
    for (limit, most) in limits {
        config = config.key_set(limit, Setting::from(*most));
    }
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 3, 7))]);
    let barrier = Arc::new(Barrier::new(AT_ONCE));
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (mut client, barrier) = (bench.client().await, Arc::clone(&barrier));
        clients.spawn(async move {
            barrier.wait().await;
            client.exchange(&ask_as("ann", "u", r#","max_tokens":100"#)).await.status()
        });
    }
    until(|| up.counts().requests.get() as usize + bench.usage_count() == AT_ONCE).await;
    let passed = up.counts().requests.get();
    assert_eq!(u64::from(bench.key_usage("ann").concurrent), passed);
    gate.open();
    let statuses = clients.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count() as u64, passed);
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    bench.assert_idle(AT_ONCE).await;
    (bench, passed)
}

#[tokio::test]
async fn a_55_requests_of_the_same_moment_never_pass_a_limit_together() {
    for (limits, expected) in [
        (&[("max_concurrent", 7)][..], 7),
        (&[("requests_per_minute", 50)], 50),
        // Each reserves 100.
        (&[("tokens_per_minute", 1050)], 10),
        (&[("tokens_per_day", 3000)], 30),
        (&[("tokens_per_month", 99_999), ("requests_per_minute", 150)], 150),
        (&[("max_concurrent", 20), ("requests_per_minute", 60), ("tokens_per_minute", 1000)], 10),
        (&[("max_concurrent", 1000)], 200),
    ] {
        let (bench, passed) = passing(limits).await;
        assert_eq!(passed, expected, "{limits:?}");
        let usage = bench.key_usage("ann");
        // What was refused has taken nothing, and what passed has paid what was used.
        assert_eq!((usage.requests_minute, usage.day.tokens), (passed, passed * 10), "{limits:?}");
    }
}
