use super::*;

use LoadSource::{Both, Engine};
use WaitingCounts::{Requests, Weight as ByWeight};

fn load(slots: Option<u32>, engine: Option<(u32, u32)>, weights: &[u64]) -> Load {
    let mut load = Load::new(slots);
    load.scrape_started();
    load.scraped(engine.map(|(running, waiting)| EngineLoad { running, waiting, ..EngineLoad::default() }));
    for weight in weights {
        load.reserve(Weight(*weight));
    }
    load.check();
    load
}

#[test]
fn a_request_weighs_its_thousands_of_tokens_and_at_least_one() {
    for (tokens, weight) in [(0, 1000), (999, 1000), (1000, 1000), (1001, 1001), (100_000, 100_000)] {
        assert_eq!(Weight::from_prompt_tokens(tokens), Weight(weight));
    }
}

#[test]
fn effective_load_is_the_published_arithmetic() {
    // source, counts, slots, engine (running, waiting), own weights -> effective running, waiting (thousandths)
    type Row = (LoadSource, WaitingCounts, Option<u32>, Option<(u32, u32)>, &'static [u64], (u64, u64));
    let rows: [Row; 14] = [
        (Both, Requests, None, Some((0, 0)), &[], (0, 0)),
        (Both, Requests, None, Some((0, 0)), &[1000], (1000, 1000)),
        (Both, Requests, None, Some((1, 0)), &[1000], (1000, 0)),
        (Both, Requests, None, Some((5, 2)), &[1000, 1000], (5000, 2000)),
        (Both, Requests, None, Some((2, 1)), &[9000, 1000, 1000], (11000, 2000)),
        (Both, Requests, Some(4), Some((0, 0)), &[9000, 1000, 1000], (11000, 0)),
        (Both, Requests, Some(2), Some((1, 0)), &[1000, 1000, 1000], (3000, 1000)),
        (Both, ByWeight, None, Some((2, 1)), &[9000, 1000, 1000], (11000, 10000)),
        (Both, ByWeight, Some(4), Some((0, 0)), &[1500], (1500, 1500)),
        (Both, ByWeight, None, Some((5, 0)), &[1500], (5000, 0)),
        (Both, Requests, None, None, &[2000, 1000], (3000, 2000)),
        (Engine, Requests, None, Some((5, 2)), &[9000, 1000], (7000, 2000)),
        (Engine, ByWeight, None, Some((0, 0)), &[9000], (1000, 0)),
        (Engine, Requests, None, None, &[2000, 1000], (3000, 2000)),
    ];
    for (source, counts, slots, engine, weights, expected) in rows {
        let load = load(slots, engine, weights);
        let got = (load.effective_running(source), load.effective_waiting(source, counts));
        assert_eq!(got, expected, "{source:?} {counts:?} {slots:?} {engine:?} {weights:?}");
    }
}

#[test]
fn a_slot_is_free_by_count_and_only_while_nothing_waits() {
    type Row = (Option<u32>, Option<(u32, u32)>, &'static [u64], Option<bool>);
    let rows: [Row; 7] = [
        (None, Some((0, 0)), &[], None),
        (Some(2), Some((0, 0)), &[], Some(true)),
        (Some(2), Some((0, 0)), &[90_000], Some(true)),
        (Some(2), Some((0, 0)), &[1000, 1000], Some(false)),
        (Some(2), Some((2, 0)), &[], Some(false)),
        (Some(2), Some((1, 1)), &[], Some(false)),
        (Some(2), None, &[1000], Some(true)),
    ];
    for (slots, engine, weights, free) in rows {
        assert_eq!(load(slots, engine, weights).free_slot(), free, "{slots:?} {engine:?} {weights:?}");
    }
}

#[test]
fn between_two_scrapes_slots_follow_own_requests_on_top_of_those_of_others() {
    // own requests at the scrape, what the engine says, own ones begun and ended since -> how many slots of 8 are free
    type Row = (usize, u32, usize, usize, u32);
    let rows: [Row; 8] = [
        (8, 8, 0, 0, 0),
        (8, 8, 0, 1, 1),
        (8, 8, 0, 8, 8),
        (5, 8, 0, 0, 0),
        (5, 8, 0, 2, 2),
        (2, 5, 1, 0, 2),
        (4, 2, 0, 1, 5),
        (0, 20, 0, 0, 0),
    ];
    for (own, running, begun, ended, free) in rows {
        let mut load = Load::new(Some(8));
        let mut open: Vec<ScrapeCount> = (0..own).map(|_| load.reserve(Weight(1000))).collect();
        load.scrape_started();
        load.scraped(Some(EngineLoad { running, ..EngineLoad::default() }));
        open.extend((0..begun).map(|_| load.reserve(Weight(1000))));
        open.drain(..ended).for_each(|sent| load.give_back(Weight(1000), sent));
        let got = (0..20)
            .take_while(|_| load.free_slot() == Some(true) && load.reserve(Weight(1000)) >= ScrapeCount(0));
        assert_eq!(got.count(), free as usize, "{own} own, {running} running, {begun} begun, {ended} ended");
    }
}

#[test]
fn a_request_that_ends_and_one_that_begins_while_the_scrape_is_out_are_not_taken_for_others() {
    let mut load = Load::new(Some(2));
    let first = load.reserve(Weight(1000));
    let _second = load.reserve(Weight(1000));
    load.scrape_started();
    load.give_back(Weight(1000), first);
    let third = load.reserve(Weight(1000));
    load.scraped(Some(EngineLoad { running: 2, ..EngineLoad::default() }));
    assert_eq!(load.free_slot(), Some(false));
    load.give_back(Weight(1000), third);
    assert_eq!(load.free_slot(), Some(true));
}

#[test]
fn a_request_that_was_shown_waiting_is_in_nobodys_way_once_an_own_one_has_left_the_queue() {
    // own requests at the scrape, how many the engine shows waiting, own ones that have left its queue since: begun before
    // the scrape, after it -> is a slot free?
    type Row = (usize, u32, usize, usize, bool);
    let rows: [Row; 7] = [
        (4, 0, 0, 0, true),
        (4, 2, 0, 0, false),
        (4, 2, 1, 0, false),
        (4, 2, 2, 0, true),
        (4, 2, 4, 0, true),
        // Nobody has seen those wait that came later.
        (4, 2, 1, 3, false),
        // The others' still wait.
        (1, 3, 1, 0, false),
    ];
    for (own, waiting, before, after, free) in rows {
        let mut load = Load::new(Some(100));
        let early: Vec<ScrapeCount> = (0..own).map(|_| load.reserve(Weight(1000))).collect();
        load.scrape_started();
        let late: Vec<ScrapeCount> = (0..after).map(|_| load.reserve(Weight(1000))).collect();
        load.scraped(Some(EngineLoad { running: 2, waiting, ..EngineLoad::default() }));
        let seen = early.iter().take(before).filter(|sent| load.unqueued(**sent)).count();
        assert_eq!(seen, before.min(waiting as usize));
        assert!(late.iter().all(|sent| !load.unqueued(*sent)));
        assert_eq!(load.free_slot(), Some(free), "{own} own, {waiting} waiting, {before} + {after} left");
        load.check();
    }
}

#[test]
fn with_several_gateways_only_what_was_sent_since_the_scrape_is_added() {
    let mut load = load(None, Some((3, 0)), &[]);
    let before = load.reserve(Weight(1000));
    load.scrape_started();
    let during = load.reserve(Weight(1000));
    assert_eq!(load.effective_running(Engine), 5000, "until the answer the scrape before it counts");
    load.scraped(Some(EngineLoad { running: 4, ..EngineLoad::default() }));
    assert_eq!(load.effective_running(Engine), 5000, "4 seen, 1 sent while the scrape was out");
    load.give_back(Weight(1000), before);
    assert_eq!(load.effective_running(Engine), 5000, "the engine's number has it until the next scrape");
    load.give_back(Weight(1000), during);
    assert_eq!(load.effective_running(Engine), 4000);
    load.check();
}

#[test]
fn sums_return_to_exactly_zero() {
    let mut load = Load::new(None);
    let leases: Vec<_> =
        (0..1000_u64).map(|i| 1000 + i * 7919 % 100_003).map(|w| (w, load.reserve(Weight(w)))).collect();
    for (weight, sent) in leases {
        load.give_back(Weight(weight), sent);
    }
    assert_eq!((load.inflight(), load.weight(), load.effective_running(Both)), (0, 0, 0));
}
