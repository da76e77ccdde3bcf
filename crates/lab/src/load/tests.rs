use super::*;
use crate::client::Outcome;
use crate::engine::Profile;
use crate::fault::Fault;
use crate::sim::{Sim, SimConfig};

fn sim(profile: Profile) -> Sim {
    Sim::start(SimConfig { profile, max_model_len: 32_768, ..SimConfig::default() }).unwrap()
}

fn config(sim: &Sim) -> LoadConfig {
    LoadConfig {
        pace: Pace::Closed { concurrency: 4 },
        requests: Some(40),
        prompt: Lengths::Fixed(100),
        output: Lengths::Fixed(8),
        tokens_per_word: 1.5,
        timeout: Duration::from_secs(600),
        ..LoadConfig::one_by_one(format!("http://{}", sim.addrs()[0]), "sim".to_owned())
    }
}

async fn run(config: LoadConfig) -> Report {
    let mut load = Load::start(config).unwrap();
    load.finished().await;
    load.report().await
}

#[tokio::test]
async fn so_many_requests_are_sent_as_asked_for_and_their_tokens_are_those_of_the_engine() {
    for (kind, pace) in [
        (Kind::Chat, Pace::Closed { concurrency: 4 }),
        (Kind::Text, Pace::Open { rate: 1e6, arrivals: Arrivals::Poisson, most: 1000 }),
    ] {
        let sim = sim(Profile::fast());
        let report = run(LoadConfig { kind, pace, ..config(&sim) }).await;
        assert_eq!((report.sent, report.ok(), report.failed()), (40, 40, 0), "{:?}", report.ended);
        let engine = sim.replicas()[0].counters().unwrap();
        assert_eq!(
            (report.prompt_tokens, report.output_tokens),
            (engine.prompt_tokens, engine.generation_tokens)
        );
        assert_eq!(report.output_tokens, 40 * 8);
        assert_eq!((report.ttft.count, report.tpot.count, report.e2e.count), (40, 40, 40));
        assert_eq!(report.itl.count, 40 * 7);
        assert_eq!(report.good, 40);
    }
}

#[tokio::test]
async fn a_closed_loop_never_has_more_in_flight_than_asked_for() {
    // One more would be refused.
    let sim = sim(Profile { max_num_queued: Some(4), ..Profile::fast() });
    let report = run(config(&sim)).await;
    assert_eq!((report.ok(), sim.replicas()[0].counters().unwrap().refused), (40, 0));
}

#[tokio::test]
async fn an_open_loop_sends_whether_or_not_it_is_answered() {
    let sim = sim(Profile::fast());
    sim.replicas()[0].set_fault(Fault::Frozen).await;
    let pace = Pace::Open { rate: 1e5, arrivals: Arrivals::Constant, most: 1000 };
    let mut load = Load::start(LoadConfig { pace, requests: Some(200), ..config(&sim) }).unwrap();
    sim.replicas()[0].until(|counters| counters.running + counters.waiting == 200).await.unwrap();
    assert_eq!((load.progress().sent, load.progress().ended), (200, 0));
    sim.replicas()[0].clear_faults().await;
    load.finished().await;
    assert_eq!(load.report().await.ok(), 200);
}

#[tokio::test]
async fn sessions_grow_and_begin_with_shared_prefixes() {
    let sim = sim(Profile::fast());
    let alone = run(LoadConfig { requests: Some(24), ..config(&sim) }).await;
    assert!(alone.cached_tokens < alone.prompt_tokens / 10, "{} cached", alone.cached_tokens);
    let shaped = LoadConfig {
        turns: Lengths::Fixed(6),
        prefixes: 2,
        prefix_tokens: 400,
        requests: Some(24),
        seed: 1,
        ..config(&sim)
    };
    let report = run(shaped).await;
    assert_eq!(report.ok(), 24);
    assert!(
        report.cached_tokens * 2 > report.prompt_tokens,
        "{} of {}",
        report.cached_tokens,
        report.prompt_tokens
    );
}

#[tokio::test]
async fn the_trace_decides_lengths_where_there_is_one() {
    let sim = sim(Profile::fast());
    let report = run(LoadConfig { trace: vec![(50, 3), (90, 11)], ..config(&sim) }).await;
    assert_eq!(report.output_tokens, 20 * 3 + 20 * 11);
}

#[tokio::test]
async fn failures_are_told_apart() {
    let table = [
        (Fault::Status(503), Outcome::Status(503)),
        (Fault::Reset, Outcome::NoAnswer),
        (Fault::Refuse, Outcome::NotConnected),
        (Fault::Cut { after: 2 }, Outcome::Cut),
        (Fault::ErrorEvent { after: 1, status: 500 }, Outcome::ErrorEvent(500)),
        (Fault::Hang, Outcome::TimedOut),
    ];
    for (fault, outcome) in table {
        let sim = sim(Profile::fast());
        sim.replicas()[0].set_fault(fault).await;
        let timeout = Duration::from_secs(if fault == Fault::Hang { 0 } else { 600 });
        let report = run(LoadConfig { requests: Some(5), timeout, ..config(&sim) }).await;
        assert_eq!(report.ended.into_iter().collect::<Vec<_>>(), [(outcome, 5)], "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_in_flight_when_it_is_stopped_is_broken_off_and_counted() {
    let sim = sim(Profile::fast());
    sim.replicas()[0].set_fault(Fault::Hang).await;
    let load = Load::start(config(&sim)).unwrap();
    while load.progress().sent < 4 {
        tokio::task::yield_now().await;
    }
    let report = load.report().await;
    assert_eq!(report.ended.into_iter().collect::<Vec<_>>(), [(Outcome::BrokenOff, 4)]);
}

#[tokio::test]
async fn nobody_waits_for_a_turn_that_will_not_be_sent() {
    let sim = sim(Profile::fast());
    let (turns, think) = (Lengths::Fixed(2), Duration::from_secs(1 << 40));
    let report = run(LoadConfig { turns, think, requests: Some(4), ..config(&sim) }).await;
    assert_eq!((report.sent, report.ok()), (4, 4));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_before_any_load_is_sent() {
    let sim = sim(Profile::fast());
    sim.replicas()[0].set_fault(Fault::Hang).await;
    let config = LoadConfig { timeout: Duration::ZERO, ..config(&sim) };
    let endpoint = Endpoint::new(&config.base_url, None).unwrap();
    let refusal = probe(&endpoint, &config).await.unwrap_err();
    assert_eq!(refusal, ProbeError::NoAnswer { path: config.kind.path(), outcome: Outcome::TimedOut });
}

#[tokio::test]
async fn the_servers_model_and_the_length_of_words_are_asked_for() {
    let sim = sim(Profile::fast());
    let config = config(&sim);
    let endpoint = Endpoint::new(&config.base_url, None).unwrap();
    assert_eq!(
        first_model(&endpoint).await,
        Ok(Model { name: "sim".to_owned(), of: 1, max_model_len: Some(32_768) })
    );
    let per_word = probe(&endpoint, &config).await.unwrap();
    // Four bytes are a token; the words have 6.4 bytes on the mean, their spaces included.
    assert!((1.4..1.8).contains(&per_word), "{per_word}");
    let wrong = LoadConfig { model: "nope".to_owned(), ..config };
    let refusal = probe(&endpoint, &wrong).await.unwrap_err().to_string();
    assert!(refusal.contains("404: The model `nope` does not exist"), "{refusal}");
    sim.replicas()[0].set_fault(Fault::Refuse).await;
    // Kept connections would go on.
    let endpoint = Endpoint::new(&format!("http://{}", sim.addrs()[0]), None).unwrap();
    let refusal = first_model(&endpoint).await.unwrap_err();
    assert_eq!(refusal, ProbeError::NoAnswer { path: "/v1/models", outcome: Outcome::NotConnected });
}
