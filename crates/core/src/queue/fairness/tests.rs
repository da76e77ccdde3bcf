use super::*;

fn id(key: u32) -> FlowId {
    FlowId { priority: 0, key: KeyIndex(key) }
}

fn counter(flows: &Flows, key: u32) -> Option<u64> {
    flows.flows.get(&id(key)).map(|flow| flow.counter)
}

/// A key that does not wait is served.
fn serve(flows: &mut Flows, key: u32, tokens: u64, others: Option<u64>) -> Charge {
    flows.activate(id(key), 0);
    flows.serve(id(key), tokens, 0, others)
}

#[test]
fn a_key_that_comes_back_is_lifted_to_where_the_last_one_served_began() {
    let mut flows = Flows::default();
    (0..3).for_each(|_| {
        serve(&mut flows, 1, 100, None);
    });
    assert_eq!(counter(&flows, 1), Some(300));
    serve(&mut flows, 2, 10, None);
    assert_eq!(counter(&flows, 2), Some(210), "not 10: what it did not ask for is not saved up");
    serve(&mut flows, 1, 100, None);
    assert_eq!(counter(&flows, 1), Some(400), "and one that is ahead stays so");
}

#[test]
fn time_does_not_pass_those_who_wait() {
    let mut flows = Flows::default();
    serve(&mut flows, 1, 1000, None);
    serve(&mut flows, 1, 1000, Some(40));
    serve(&mut flows, 2, 1, Some(40));
    assert_eq!(counter(&flows, 2), Some(41));
}

#[test]
fn the_truth_takes_the_place_of_the_estimate_down_to_what_it_was_lifted_to() {
    // charged, true, others served meanwhile and the key lifted again -> the counter
    let rows =
        [(100, 100, 0, 100), (100, 30, 0, 30), (100, 250, 0, 250), (100, 0, 70, 70), (100, 0, 500, 500)];
    for (charged, truth, meanwhile, expected) in rows {
        let mut flows = Flows::default();
        let charge = serve(&mut flows, 1, charged, None);
        if meanwhile > 0 {
            serve(&mut flows, 2, meanwhile, Some(0));
            serve(&mut flows, 2, 1, None);
            flows.activate(id(1), 0);
        }
        flows.correct(charge, truth);
        assert_eq!(counter(&flows, 1), Some(expected), "{charged} charged, {truth} true");
    }
}

#[test]
fn classes_do_not_know_each_other() {
    let mut flows = Flows::default();
    let high = FlowId { priority: 5, key: KeyIndex(1) };
    flows.activate(high, 0);
    flows.serve(high, 1000, 0, None);
    flows.serve(high, 1000, 0, None);
    serve(&mut flows, 1, 10, None);
    assert_eq!((flows.flows[&high].counter, counter(&flows, 1)), (2000, Some(10)));
}

#[test]
fn idle_keys_that_owe_nothing_are_forgotten_and_a_late_truth_makes_them_owe() {
    let mut flows = Flows::default();
    let charges: Vec<Charge> = (0..10_000).map(|key| serve(&mut flows, key, 10, None)).collect();
    assert!(flows.flows.len() > 9000, "all of them owe");
    for _ in 0..3 {
        serve(&mut flows, 7, 1000, None);
    }
    (20_000..40_000).for_each(|key| {
        flows.activate(id(key), 0);
    });
    assert!(flows.flows.len() < 30_000 && counter(&flows, 1).is_none());
    flows.correct(charges[1], 4);
    assert_eq!(counter(&flows, 1), None);
    flows.correct(charges[1], 25);
    assert_eq!(counter(&flows, 1), Some(2010 + 15));
}
