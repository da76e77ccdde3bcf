use super::*;
use crate::client::Outcome;
use crate::engine::Profile;
use crate::sim::{Sim, SimConfig};

fn lively(base_url: String) -> TrafficConfig {
    TrafficConfig {
        base_url,
        sessions: 4,
        turns: (2, 3),
        shared_system_prompts: 2,
        system_prompt_bytes: 400,
        user_bytes: 40,
        heavy_share: 0.5,
        heavy_bytes: 4_000,
        max_tokens: 8,
        think_time: Duration::ZERO,
        ..TrafficConfig::default()
    }
}

#[tokio::test]
async fn conversations_grow_share_their_system_prompts_and_are_measured() {
    let config = SimConfig { profile: Profile::fast(), max_model_len: 32_768, ..SimConfig::default() };
    let sim = Sim::start(config).unwrap();
    let traffic = Traffic::start(lively(format!("http://{}/", sim.addrs()[0]))).unwrap();
    sim.replicas()[0].until(|counters| counters.finished_length >= 60).await.unwrap();
    let totals = traffic.stop().await;
    let broken_off = totals.ended.get(&Outcome::BrokenOff).copied().unwrap_or(0);
    // The engine has finished requests whose end the client may not have read yet: at most one per session.
    assert!(totals.succeeded() >= 56 && broken_off <= 4, "{totals:?}");
    assert_eq!((totals.failed(), totals.in_flight()), (0, 0), "{:?}", totals.ended);
    assert!(totals.heavy > 0 && totals.heavy < totals.started);
    assert!(totals.completion_tokens >= 8 * 56);
    assert!(
        totals.cached_tokens * 4 > totals.prompt_tokens,
        "turns and system prompts are found in the cache"
    );
    let (first, whole) = (totals.first_token.summary(), totals.latency.summary());
    assert_eq!(whole.count, totals.succeeded());
    assert!(first.count >= whole.count && first.min > Duration::ZERO && first.min <= whole.min);
}

#[tokio::test]
async fn failures_are_told_apart() {
    let config =
        SimConfig { profile: Profile { max_num_queued: Some(0), ..Profile::fast() }, ..SimConfig::default() };
    let sim = Sim::start(config).unwrap();
    let base = format!("http://{}", sim.addrs()[0]);
    let table = [
        (TrafficConfig { model: "nope".to_owned(), ..lively(base.clone()) }, Outcome::Status(404)),
        (lively(base.clone()), Outcome::ErrorEvent(503)),
    ];
    for (config, outcome) in table {
        assert_eq!(first_failure(config).await, outcome);
    }
    sim.shutdown().await;
    assert_eq!(first_failure(lively(base)).await, Outcome::NotConnected);
}

/// How the first request that ends does so.
async fn first_failure(config: TrafficConfig) -> Outcome {
    let endpoint = Endpoint::new(&config.base_url, None).unwrap();
    let totals = Mutex::new(Totals::default());
    let mut rng = SeededRng::new(0);
    let body = Conversation::new(&config, &mut rng).ask(&config, &mut rng);
    assert_eq!(exchange(&endpoint, "one", body, &totals).await, None);
    let totals = totals.into_inner().unwrap();
    assert_eq!((totals.started, totals.failed(), totals.in_flight()), (1, 1, 0));
    *totals.ended.keys().next().unwrap()
}

#[test]
fn the_same_seed_says_the_same() {
    let config = lively("http://x".to_owned());
    let say = |seed| {
        let mut rng = SeededRng::new(seed);
        let mut conversation = Conversation::new(&config, &mut rng);
        let first = conversation.ask(&config, &mut rng).json;
        conversation.answered("yes");
        [first, conversation.ask(&config, &mut rng).json]
    };
    assert_eq!(say(1), say(1));
    assert_ne!(say(1), say(2));
}

#[tokio::test]
async fn a_conversation_ends_before_it_outgrows_its_bound() {
    let sim =
        Sim::start(SimConfig { profile: Profile::fast(), max_model_len: 2_000, ..SimConfig::default() })
            .unwrap();
    let config = TrafficConfig {
        sessions: 2,
        turns: (1_000, 1_000),
        heavy_share: 1.0,
        heavy_bytes: 1_000,
        max_conversation_bytes: 7_000,
        ..lively(format!("http://{}", sim.addrs()[0]))
    };
    let traffic = Traffic::start(config).unwrap();
    sim.replicas()[0].until(|counters| counters.finished_length >= 50).await.unwrap();
    let totals = traffic.stop().await;
    assert_eq!(totals.failed(), 0, "{:?}", totals.ended);
}
