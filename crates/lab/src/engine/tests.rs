use super::*;
use proptest::prelude::*;
use std::time::Duration;

/// 4-token blocks, 8 tokens a step, 10 ms a step whatever it holds.
fn small() -> Profile {
    Profile {
        block_tokens: 4,
        kv_blocks: 16,
        max_num_batched_tokens: 8,
        max_num_seqs: 4,
        max_num_queued: None,
        cost: StepCost {
            base: ms(10),
            prefill_ns_per_token: 0.0,
            prefill_ns_per_token_position: 0.0,
            decode_ns_per_sequence: 0.0,
            decode_ns_per_context_token: 0.0,
        },
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn hashed(prompt_tokens: u32, output_tokens: u32, block_hashes: &[u64]) -> Request {
    Request { block_hashes: block_hashes.to_vec(), ..Request::unique(prompt_tokens, output_tokens) }
}

/// Runs until idle; every token.
fn drain(replica: &mut Replica) -> Vec<Output> {
    let mut outputs = Vec::new();
    while let Some(deadline) = replica.next_deadline() {
        replica.advance(deadline);
        replica.check_invariants();
        outputs.extend(std::iter::from_fn(|| replica.poll_output()));
    }
    outputs
}

/// Submits at time zero and runs until idle.
fn run(replica: &mut Replica, at: Duration, id: u64, request: Request) -> Vec<Output> {
    replica.submit(at, RequestId(id), request).unwrap();
    drain(replica)
}

fn now_after(outputs: &[Output]) -> Duration {
    outputs.last().map_or(Duration::ZERO, |output| output.at)
}

#[test]
fn a_prompt_is_prefilled_in_chunks_of_the_budget_and_then_decoded_token_by_token() {
    let outputs = run(&mut Replica::new(small()), ms(5), 1, Request::unique(20, 3));
    // 8 + 8 + 4 tokens, then one a step.
    let at: Vec<_> = outputs.iter().map(|output| (output.at, output.generated)).collect();
    assert_eq!(at, [(ms(35), 1), (ms(45), 2), (ms(55), 3)]);
    assert_eq!(outputs.last().unwrap().finish, Some(FinishReason::Length));
}

#[test]
fn decoding_requests_share_a_step_with_a_prefill_that_takes_what_they_leave() {
    let mut replica = Replica::new(small());
    replica.submit(ms(0), RequestId(1), Request::unique(4, 10)).unwrap();
    replica.submit(ms(0), RequestId(2), Request::unique(15, 1)).unwrap();
    let outputs = drain(&mut replica);
    let first = |id| outputs.iter().find(|output| output.id == RequestId(id)).unwrap().at;
    assert_eq!(first(1), ms(10));
    // Steps 2, 3 and 4 give it 7, 7 and 1 tokens beside the decoder's one.
    assert_eq!(first(2), ms(40));
    assert_eq!(outputs.iter().filter(|output| output.id == RequestId(1)).count(), 10);
    assert_eq!(now_after(&outputs), ms(100), "the decoder was never held up");
}

#[test]
fn step_time_follows_its_content() {
    let cost = StepCost {
        base: ms(1),
        prefill_ns_per_token: 1_000.0,
        prefill_ns_per_token_position: 10.0,
        decode_ns_per_sequence: 5_000.0,
        decode_ns_per_context_token: 100.0,
    };
    let outputs = run(&mut Replica::new(Profile { cost, ..small() }), ms(0), 1, Request::unique(12, 2));
    // Chunk 8 behind 0: 8*1000 + 8*4*10; chunk 4 behind 8: 4*1000 + 4*10*10; decode behind 12: 5000 + 12*100.
    let prefill = Duration::from_nanos(2 * 1_000_000 + 8_320 + 4_400);
    let decode = Duration::from_nanos(1_000_000 + 6_200);
    assert_eq!(outputs.iter().map(|output| output.at).collect::<Vec<_>>(), [prefill, prefill + decode]);
}

#[test]
fn the_cache_supplies_whole_blocks_and_never_the_last_token() {
    let hashes = [1, 2, 3, 4];
    // (prompt tokens of the repeat, cached tokens)
    for (prompt, cached) in [(3, 0), (4, 0), (5, 4), (8, 4), (9, 8), (11, 8), (12, 8), (13, 12)] {
        let mut replica = Replica::new(small());
        let first = run(&mut replica, ms(0), 1, hashed(16, 1, &hashes));
        let again = run(&mut replica, now_after(&first), 2, hashed(prompt, 1, &hashes));
        assert_eq!(again.last().unwrap().cached_tokens, cached, "prompt of {prompt}");
        let counters = replica.counters();
        assert_eq!(
            (counters.prefix_queries, counters.prefix_hits),
            (16 + u64::from(prompt), u64::from(cached))
        );
        assert_eq!(counters.prompt_tokens, 16 + u64::from(prompt), "cached tokens count as prompt tokens");
    }
}

#[test]
fn a_prefix_hit_saves_its_prefill_time() {
    let mut replica = Replica::new(small());
    let hashes = [1, 2, 3, 4];
    let first = run(&mut replica, ms(0), 1, hashed(17, 1, &hashes));
    assert_eq!(now_after(&first), ms(30));
    let again = run(&mut replica, ms(100), 2, hashed(17, 1, &hashes));
    assert_eq!(now_after(&again), ms(110), "one token is left to compute");
}

#[test]
fn a_different_block_ends_the_shared_prefix() {
    let mut replica = Replica::new(small());
    let first = run(&mut replica, ms(0), 1, hashed(16, 1, &[1, 2, 3, 4]));
    let other = run(&mut replica, now_after(&first), 2, hashed(16, 1, &[1, 9, 3, 4]));
    assert_eq!(other.last().unwrap().cached_tokens, 4);
}

#[test]
fn the_next_turn_finds_the_answer_of_the_last_one() {
    let mut replica = Replica::new(small());
    // Prompt of 6, answer of 7: 13 tokens, the last never computed, so three whole blocks.
    let first = run(&mut replica, ms(0), 1, hashed(6, 7, &[1, 2, 3]));
    let next = run(&mut replica, now_after(&first), 2, hashed(20, 1, &[1, 2, 3, 4, 5]));
    assert_eq!(next.last().unwrap().cached_tokens, 12);
}

#[test]
fn a_request_admitted_to_the_same_step_shares_the_blocks_being_computed() {
    let mut replica = Replica::new(Profile { max_num_batched_tokens: 64, ..small() });
    replica.submit(ms(0), RequestId(0), Request::unique(1, 1)).unwrap();
    replica.submit(ms(0), RequestId(1), hashed(16, 1, &[1, 2, 3, 4])).unwrap();
    replica.submit(ms(0), RequestId(2), hashed(16, 1, &[1, 2, 3, 4])).unwrap();
    let outputs = drain(&mut replica);
    let cached: Vec<_> = outputs.iter().map(|output| output.cached_tokens).collect();
    assert_eq!(cached, [0, 0, 12]);
}

#[test]
fn the_least_recently_used_prefix_is_evicted_first() {
    let mut replica = Replica::new(Profile { kv_blocks: 9, ..small() });
    let mut now = ms(0);
    let mut cached = |id, hashes: &[u64]| {
        let outputs = run(&mut replica, now, id, hashed(13, 1, hashes));
        now = now_after(&outputs);
        outputs.last().unwrap().cached_tokens
    };
    let (a, b, c) = ([1, 2, 3], [11, 12, 13], [21, 22, 23]);
    assert_eq!(cached(1, &a), 0);
    assert_eq!(cached(2, &b), 0);
    assert_eq!(cached(3, &a), 12, "used again");
    assert_eq!(cached(4, &c), 0);
    assert_eq!(cached(5, &a), 12, "a outlived b");
    assert!(cached(6, &b) < 12, "b made room for c");
}

#[test]
fn a_prefix_is_evicted_from_its_end() {
    let mut replica = Replica::new(Profile { kv_blocks: 4, ..small() });
    let first = run(&mut replica, ms(0), 1, hashed(13, 1, &[1, 2, 3]));
    let other = run(&mut replica, now_after(&first), 2, Request::unique(8, 1));
    let again = run(&mut replica, now_after(&other), 3, hashed(13, 1, &[1, 2, 3]));
    assert_eq!(
        again.last().unwrap().cached_tokens,
        8,
        "the beginning outlived the two blocks the other one took"
    );
}

#[test]
fn one_that_came_since_the_last_step_began_is_not_shown_as_waiting() {
    let mut replica = Replica::new(small());
    for id in 1..=2 {
        replica.submit(ms(0), RequestId(id), Request::unique(2, 3)).unwrap();
    }
    assert_eq!((replica.counters().waiting, replica.shown_waiting()), (1, 0));
    drain(&mut replica);
    assert_eq!((replica.counters().waiting, replica.shown_waiting()), (0, 0));
}

#[test]
fn no_more_than_max_num_seqs_run_and_the_queue_is_first_in_first_out() {
    let mut replica = Replica::new(Profile { max_num_seqs: 2, ..small() });
    for id in 1..=5 {
        replica.submit(ms(0), RequestId(id), Request::unique(2, 2)).unwrap();
    }
    replica.advance(ms(10));
    assert_eq!((replica.counters().running, replica.counters().waiting), (2, 3));
    assert_eq!(replica.shown_waiting(), 3);
    let ends: Vec<_> = drain(&mut replica)
        .iter()
        .filter(|output| output.finish.is_some())
        .map(|output| output.id.0)
        .collect();
    assert_eq!(ends, [1, 2, 3, 4, 5]);
}

#[test]
fn a_prompt_that_does_not_fit_whole_waits_and_lets_nobody_pass() {
    let mut replica = Replica::new(small());
    replica.submit(ms(0), RequestId(1), Request::unique(40, 2)).unwrap();
    replica.submit(ms(0), RequestId(2), Request::unique(36, 1)).unwrap();
    replica.submit(ms(0), RequestId(3), Request::unique(1, 1)).unwrap();
    replica.advance(ms(40));
    assert_eq!((replica.counters().running, replica.counters().waiting), (1, 2));
    let ends: Vec<_> = drain(&mut replica)
        .iter()
        .filter(|output| output.finish.is_some())
        .map(|output| output.id.0)
        .collect();
    assert_eq!(ends, [1, 2, 3]);
}

#[test]
fn requests_in_flight_are_bounded_running_and_waiting_together() {
    let mut replica = Replica::new(Profile { max_num_seqs: 1, max_num_queued: Some(2), ..small() });
    let mut submit = |id| replica.submit(ms(0), RequestId(id), Request::unique(2, 2));
    assert_eq!([submit(1), submit(2), submit(3)], [Ok(()), Ok(()), Err(SubmitError::QueueFull)]);
    assert_eq!(replica.counters().refused, 1);
    assert_eq!(drain(&mut replica).len(), 4);
    assert_eq!(replica.submit(ms(99), RequestId(4), Request::unique(2, 2)), Ok(()));
}

#[test]
fn what_can_never_be_served_is_refused() {
    let mut replica = Replica::new(small());
    let refusal = replica.submit(ms(0), RequestId(1), Request::unique(60, 5));
    assert_eq!(refusal, Err(SubmitError::TooLarge { needed: 17, available: 16 }));
    assert_eq!(replica.submit(ms(0), RequestId(1), Request::unique(60, 4)), Ok(()));
    assert_eq!(replica.submit(ms(0), RequestId(1), Request::unique(1, 1)), Err(SubmitError::DuplicateId));
}

#[test]
fn when_blocks_run_out_the_youngest_is_computed_again_and_loses_no_token() {
    let mut replica = Replica::new(Profile { kv_blocks: 6, ..small() });
    replica.submit(ms(0), RequestId(1), Request::unique(8, 12)).unwrap();
    replica.submit(ms(0), RequestId(2), Request::unique(4, 12)).unwrap();
    let outputs = drain(&mut replica);
    assert!(replica.counters().preemptions > 0);
    for id in [1, 2] {
        let generated: Vec<_> = outputs
            .iter()
            .filter(|output| output.id == RequestId(id))
            .map(|output| output.generated)
            .collect();
        assert_eq!(generated, (1..=12).collect::<Vec<_>>());
    }
    let end = |id| outputs.iter().rfind(|output| output.id == RequestId(id)).unwrap().at;
    assert!(end(1) < end(2));
    assert_eq!(replica.counters().prompt_tokens, 12, "a prompt counts once");
}

#[test]
fn a_preempted_request_goes_back_to_the_head_of_the_queue() {
    let mut replica = Replica::new(Profile { kv_blocks: 6, max_num_seqs: 2, ..small() });
    for (id, prompt, output) in [(1, 8, 12), (2, 4, 12), (3, 1, 1)] {
        replica.submit(ms(0), RequestId(id), Request::unique(prompt, output)).unwrap();
    }
    let outputs = drain(&mut replica);
    assert!(replica.counters().preemptions > 0);
    let end_of_first = outputs.iter().rfind(|output| output.id == RequestId(1)).unwrap().at;
    let third = outputs.iter().find(|output| output.id == RequestId(3)).unwrap();
    assert!(
        third.admitted >= end_of_first,
        "the small one would have fitted, but not before the one thrown out"
    );
}

#[test]
fn an_abort_frees_everything_at_every_stage() {
    // Moment of the abort: waiting, in mid-prefill, decoding.
    for (at, id) in [(0, 2), (15, 2), (35, 1)] {
        let mut replica = Replica::new(small());
        replica.submit(ms(0), RequestId(1), Request::unique(4, 20)).unwrap();
        replica.submit(ms(0), RequestId(2), Request::unique(15, 20)).unwrap();
        assert!(replica.abort(ms(at), RequestId(id)));
        replica.check_invariants();
        assert!(!replica.abort(ms(at), RequestId(id)), "once");
        let left = replica.counters();
        assert_eq!((left.running + left.waiting, left.aborted), (1, 1));
        let outputs = drain(&mut replica);
        assert!(outputs.iter().all(|output| output.id != RequestId(id) || output.at <= ms(at)));
        let idle = replica.counters();
        assert_eq!((idle.running, idle.waiting, idle.kv_blocks_used, idle.finished_length), (0, 0, 0, 1));
    }
}

#[test]
fn a_late_call_makes_up_for_the_missed_steps_at_their_own_times() {
    let outputs_of = |call_times: &[u64]| {
        let mut replica = Replica::new(small());
        replica.submit(ms(0), RequestId(1), Request::unique(20, 5)).unwrap();
        call_times.iter().for_each(|at| replica.advance(ms(*at)));
        std::iter::from_fn(|| replica.poll_output()).collect::<Vec<_>>()
    };
    assert_eq!(outputs_of(&[1000]), outputs_of(&[10, 20, 30, 40, 50, 60, 70, 1000]));
}

#[test]
fn an_idle_replica_has_no_deadline_and_empty_limits_do_not_stop_it() {
    let zero = Profile { block_tokens: 0, max_num_batched_tokens: 0, max_num_seqs: 0, ..small() };
    let mut replica = Replica::new(zero);
    assert_eq!(replica.next_deadline(), None);
    assert_eq!(run(&mut replica, ms(0), 1, Request::unique(0, 0)).len(), 1);
    assert_eq!(replica.next_deadline(), None);
}

#[derive(Clone, Debug)]
enum Event {
    Submit { prompt: u32, output: u32, family: u64 },
    Abort { back: u64 },
    Pass { millis: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..50_u32, 0..20_u32, 0..4_u64)
            .prop_map(|(prompt, output, family)| Event::Submit { prompt, output, family }),
        1 => (0..8_u64).prop_map(|back| Event::Abort { back }),
        4 => (0..60_u64).prop_map(|millis| Event::Pass { millis }),
    ]
}

/// Families share prefixes: block `i` of family `f` is `f * 100 + i`, and all share block 0.
fn family_hashes(family: u64, blocks: u64) -> Vec<u64> {
    (0..blocks).map(|i| if i == 0 { 1 } else { family * 100 + i }).collect()
}

/// Plays the events and runs until idle; what came out and the ids that were taken and not aborted, in order.
fn play(profile: Profile, events: &[Event]) -> (Replica, Vec<Output>, Vec<(u64, u32, u32)>) {
    let mut replica = Replica::new(profile);
    let (mut now, mut next_id) = (ms(0), 0);
    let (mut outputs, mut taken) = (Vec::new(), Vec::new());
    for event in events {
        match *event {
            Event::Submit { prompt, output, family } => {
                next_id += 1;
                let hashes = family_hashes(family, u64::from((prompt + output) / 4));
                if replica.submit(now, RequestId(next_id), hashed(prompt, output, &hashes)).is_ok() {
                    taken.push((next_id, prompt.max(1), output.max(1)));
                }
            }
            Event::Abort { back } => {
                let id = next_id.saturating_sub(back);
                if replica.abort(now, RequestId(id)) {
                    taken.retain(|(other, ..)| *other != id);
                }
            }
            Event::Pass { millis } => {
                now += ms(millis);
                replica.advance(now);
            }
        }
        replica.check_invariants();
        outputs.extend(std::iter::from_fn(|| replica.poll_output()));
    }
    outputs.extend(drain(&mut replica));
    (replica, outputs, taken)
}

proptest! {
    #[test]
    fn tokens_are_conserved_blocks_never_leak_and_the_queue_is_fair(
        events in prop::collection::vec(event(), 1..60),
        kv_blocks in 8..40_u32,
        max_num_seqs in 1..6_u32,
        max_num_batched_tokens in 1..30_u32,
    ) {
        let profile = Profile { kv_blocks, max_num_seqs, max_num_batched_tokens, ..small() };
        let (replica, outputs, taken) = play(profile.clone(), &events);
        let counters = replica.counters();

        prop_assert_eq!(counters.kv_blocks_used + counters.running + counters.waiting, 0);
        prop_assert_eq!(counters.generation_tokens, outputs.len() as u64);
        prop_assert_eq!(counters.finished_length, taken.len() as u64);
        let mut admissions = Vec::new();
        for (id, prompt, output) in taken {
            let of_id: Vec<_> = outputs.iter().filter(|token| token.id == RequestId(id)).collect();
            let generated: Vec<_> = of_id.iter().map(|token| token.generated).collect();
            prop_assert_eq!(generated, (1..=output).collect::<Vec<_>>());
            prop_assert!(of_id.iter().rev().skip(1).all(|token| token.finish.is_none()));
            prop_assert!(of_id.iter().all(|token| token.cached_tokens < prompt && token.cached_tokens % 4 == 0));
            admissions.extend(of_id.first().map(|token| token.admitted));
        }
        prop_assert!(admissions.is_sorted(), "first in, first admitted");
        prop_assert!(outputs.is_sorted_by_key(|token| token.at));

        let (_, again, _) = play(profile, &events);
        prop_assert_eq!(outputs, again, "the same inputs give the same outputs");
    }
}
