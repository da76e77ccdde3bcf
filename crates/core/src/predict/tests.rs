use super::*;
use std::time::Duration;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn predictor(replicas: usize) -> Predictor {
    let mut predictor = Predictor::new();
    (0..replicas).for_each(|seat| assert_eq!(predictor.add_replica(), seat));
    predictor
}

/// Blocks of 500 tokens.
fn prompt(tokens: u32, blocks: &[u64]) -> Prompt<'_> {
    Prompt { tokens, blocks, block_tokens: 500, whole_answer: false }
}

fn near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-9, "{got} is not {expected}");
}

const TALK: [u64; 4] = [11, 12, 13, 14];

#[test]
fn a_warm_replica_works_on_the_rest_alone() {
    let mut predictor = predictor(2);
    let sent = predictor.sent(at(0), 0, &prompt(2000, &TALK), None).unwrap();
    predictor.answered(at(204), 0, sent);
    let query = predictor.query(at(1000), &prompt(3000, &[11, 12, 13, 14, 15, 16]), 2);
    let (warm, cold) = (query.predict(0), query.predict(1));
    assert_eq!((warm.depth, cold.depth), (4, 0));
    // 1,000 tokens behind 2,000: 1,000 * 0.1 ms and 1,000 * 2,500 * 4 ns. Cold: 3,000 * 0.1 ms and 3,000 * 1,500 * 4 ns.
    near(warm.ttft(), 0.11);
    near(cold.ttft(), 0.3 + 0.018);
}

#[test]
fn what_was_sent_waits_its_turn_and_its_prefix_counts_as_warm_at_once() {
    let mut predictor = predictor(2);
    predictor.sent(at(0), 0, &prompt(2000, &TALK), None);
    let query = predictor.query(at(100), &prompt(2000, &TALK), 2);
    // 2,000 tokens take 0.2 s and 2,000 * 1,000 * 4 ns, of which 0.1 s are over.
    near(query.predict(0).terms.wait, 0.108);
    assert_eq!((query.depth(0), query.depth(1)), (4, 0));
}

#[test]
fn a_pool_that_is_never_without_a_queue_learns_how_slow_its_engines_are() {
    let mut predictor = predictor(2);
    // Ten times slower than the prior: 2,000 tokens in 2.08 s, with somebody behind at any time.
    let first = predictor.sent(at(0), 0, &prompt(2000, &TALK), None).unwrap();
    predictor.sent(at(1), 0, &prompt(2000, &[21, 22, 23, 24]), None);
    predictor.answered(at(2080), 0, first);
    predictor.sent(at(3000), 0, &prompt(2000, &[31, 32, 33, 34]), None);
    let elsewhere = predictor.query(at(3000), &prompt(2000, &[41, 42, 43, 44]), 2).predict(1);
    assert!((1.8..2.3).contains(&elsewhere.ttft()), "{}", elsewhere.ttft());
}

#[test]
fn a_new_talk_on_a_popular_beginning_is_forgiven_its_prefill_where_the_traffic_is_not() {
    let mut predictor = predictor(4);
    // Two talks share their first two blocks: 0 holds them and has all the traffic.
    for (at_ms, last) in [(0, 3), (500, 4)] {
        predictor.sent(at(at_ms), 0, &prompt(1500, &[1, 2, last]), None);
    }
    let new = prompt(1500, &[1, 2, 5]);
    let prediction = predictor.query(at(5000), &new, 4).predict(1);
    // 1,000 of 1,500 tokens are forgiven of 1,500 * 0.1 ms + 1,500 * 750 * 4 ns.
    near(prediction.forgiven, 0.1545 * 1000.0 / 1500.0);
    near(prediction.terms.prefill, 0.1545 / 3.0);
    near(prediction.ttft(), 0.1545);
    let own = prompt(2000, &[1, 2, 3, 6]);
    near(predictor.query(at(5000), &own, 4).predict(1).forgiven, 0.0);
    // The others get as much: nobody has more than its share.
    for replica in 1..4 {
        for (at_ms, last) in [(5000, 7), (5001, 8)] {
            predictor.sent(at(at_ms), replica, &prompt(500, &[100 * last + replica as u64]), None);
        }
    }
    let even = predictor.query(at(5002), &new, 4).predict(1).forgiven;
    near(even, 0.0);
}

#[test]
fn slow_replicas_are_predicted_slow_and_do_not_slow_the_others() {
    let mut predictor = predictor(4);
    for turn in 0..200 {
        let start = at(turn * 10_000);
        for (replica, millis) in [(0, 1200), (1, 1200), (2, 1200), (3, 2400)] {
            let sent = predictor.sent(start, replica, &prompt(10_000, &[]), None).unwrap();
            predictor.answered(start + Duration::from_millis(millis), replica, sent);
            predictor.ended(start + Duration::from_millis(millis), replica, sent);
        }
    }
    let query = predictor.query(at(3_000_000), &prompt(10_000, &[]), 4);
    let [one, other, _, slow] = [0, 1, 2, 3].map(|replica| query.predict(replica).ttft());
    // The pool's fit is that of its mean replica; what counts is how they compare.
    assert_eq!(one, other);
    assert!((1.0..1.6).contains(&one) && (1.8..2.1).contains(&(slow / one)), "{one} {slow}");
}

#[test]
fn a_replica_that_is_gone_has_nothing_warm() {
    let mut predictor = predictor(2);
    predictor.sent(at(0), 0, &prompt(2000, &TALK), None);
    predictor.forget(0);
    assert_eq!(predictor.query(at(1), &prompt(2000, &TALK), 2).depth(0), 0);
}

#[test]
fn the_engine_says_how_much_it_can_hold() {
    let mut predictor = predictor(1);
    let load = |kv_tokens| Some(EngineLoad { kv_tokens: Some(kv_tokens), ..EngineLoad::default() });
    predictor.sent(at(0), 0, &prompt(2000, &TALK), None);
    let tokens = |predictor: &Predictor| (2.0 * predictor.block_tokens) as u64 + 1;
    predictor.scraped(at(10), 0, load(tokens(&predictor)));
    assert_eq!(predictor.query(at(20), &prompt(2000, &TALK), 1).depth(0), 0);
    predictor.sent(at(15), 0, &prompt(2000, &TALK), None);
    assert_eq!(predictor.query(at(20), &prompt(2000, &TALK), 1).depth(0), 2);
}

#[test]
fn a_seat_that_was_given_back_is_used_again_and_remembers_nothing() {
    let mut predictor = predictor(2);
    let sent = predictor.sent(at(0), 1, &prompt(2000, &TALK), None).unwrap();
    predictor.answered(at(204), 1, sent);
    predictor.ended(at(500), 1, sent);
    predictor.remove_replica(1);
    assert_eq!(predictor.query(at(1000), &prompt(2000, &TALK), 1).depth(0), 0);
    assert_eq!(predictor.rates.traffic(1), 0.0);
    assert_eq!((predictor.add_replica(), predictor.add_replica()), (1, 2));
    let query = predictor.query(at(1000), &prompt(2000, &TALK), 3);
    assert_eq!([0, 1, 2].map(|seat| query.depth(seat)), [0; 3]);
    predictor.sent(at(1000), 1, &prompt(2000, &TALK), None).unwrap();
    assert_eq!(predictor.query(at(1000), &prompt(2000, &TALK), 3).depth(1), 4, "it has room again");
}
