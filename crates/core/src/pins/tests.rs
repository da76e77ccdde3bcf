use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const SESSION: u64 = 60;
const PREFIX: u64 = 5;
const REPLICAS: u32 = 3;
const CAPACITY: usize = 8;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn table(capacity: usize) -> PinTable {
    let lifetimes = Lifetimes { session: Duration::from_secs(SESSION), prefix: Duration::from_secs(PREFIX) };
    let mut table = PinTable::new(capacity, lifetimes, 42);
    (0..REPLICAS).for_each(|id| table.add_replica(ReplicaId(id)));
    table
}

fn session(hash: u64) -> PinKey {
    PinKey { kind: PinKind::Session, hash }
}

/// Pins as a map with the moment of use and a serial number of it, everything by exhaustive search.
#[derive(Default)]
struct Naive {
    pins: HashMap<(bool, u64), (u32, u64, u64, u32)>,
    serial: u64,
}

impl Naive {
    fn forget(&mut self, now: u64) {
        self.pins.retain(|(is_session, _), (_, used, _, _)| {
            now - *used < if *is_session { SESSION } else { PREFIX }
        });
    }

    fn bind(&mut self, now: u64, key: (bool, u64), replica: u32) {
        self.pins.remove(&key);
        if self.pins.len() == CAPACITY {
            let oldest = self.pins.iter().min_by_key(|(_, pin)| pin.2).map(|(key, _)| *key);
            self.pins.remove(&oldest.expect("a full table has an oldest pin"));
        }
        self.serial += 1;
        self.pins.insert(key, (replica, now, self.serial, 0));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Bind(bool, u64, u32),
    Renew(bool, u64, u32),
    Spill(bool, u64),
    Remove(bool, u64),
    Kill(u32),
    Sweep,
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || (any::<bool>(), 0..12_u64);
    prop_oneof![
        6 => (key(), 0..REPLICAS).prop_map(|((s, k), r)| Op::Bind(s, k, r)),
        4 => (key(), 0..REPLICAS).prop_map(|((s, k), r)| Op::Renew(s, k, r)),
        2 => key().prop_map(|(s, k)| Op::Spill(s, k)),
        2 => key().prop_map(|(s, k)| Op::Remove(s, k)),
        1 => (0..REPLICAS).prop_map(Op::Kill),
        1 => Just(Op::Sweep),
        3 => (1..30_u64).prop_map(Op::Pass),
    ]
}

proptest! {
    /// Time passes in whole seconds before each change, so that no two pins are used at one moment: the order in which
    /// equally old pins of different kinds go is free.
    #[test]
    fn the_table_is_a_bounded_map_with_lifetimes(ops in prop::collection::vec(op(), 1..200)) {
        let (mut table, mut naive, mut now) = (table(CAPACITY), Naive::default(), 0);
        let key = |is_session, hash| PinKey { kind: if is_session { PinKind::Session } else { PinKind::Prefix }, hash };
        for op in ops {
            now += 1;
            table.sweep(at(now));
            naive.forget(now);
            match op {
                Op::Bind(s, k, r) => {
                    table.bind(at(now), key(s, k), ReplicaId(r));
                    naive.bind(now, (s, k), r);
                }
                Op::Renew(s, k, r) => {
                    table.renew(at(now), key(s, k), ReplicaId(r));
                    naive.serial += 1;
                    let serial = naive.serial;
                    naive.pins.entry((s, k)).and_modify(|pin| if pin.0 == r { *pin = (r, now, serial, 0) });
                }
                Op::Spill(s, k) => {
                    table.spill(key(s, k));
                    naive.pins.entry((s, k)).and_modify(|pin| pin.3 += 1);
                }
                Op::Remove(s, k) => {
                    table.remove(key(s, k));
                    naive.pins.remove(&(s, k));
                }
                Op::Kill(r) => {
                    table.kill_all(ReplicaId(r));
                    naive.pins.retain(|_, pin| pin.0 != r);
                    prop_assert_eq!(table.count_at(ReplicaId(r)), 0, "dead at once");
                }
                Op::Sweep => table.sweep(at(now)),
                Op::Pass(seconds) => now += seconds,
            }
            table.check(at(now), |_| true);
            naive.forget(now);
            for (s, k) in (0..12).flat_map(|k| [(true, k), (false, k)]) {
                let expected = naive.pins.get(&(s, k)).map(|pin| (ReplicaId(pin.0), pin.3));
                let got = match table.find(at(now), key(s, k)) {
                    Found::Pin { replica, spills } => Some((replica, spills)),
                    Found::Nothing | Found::Dead { .. } => None,
                };
                prop_assert_eq!(got, expected, "key {:?} at {}", (s, k), now);
            }
        }
    }
}

#[test]
fn a_sweep_is_bounded_and_asks_for_more_while_dead_pins_are_left() {
    let mut table = table(1000);
    (0..300).for_each(|key| table.bind(at(0), session(key), ReplicaId(0)));
    table.kill_all(ReplicaId(0));
    assert_eq!((table.count(PinKind::Session), table.sweep_due(at(7))), (0, Some(at(7))));
    let mut sweeps = 0;
    while table.sweep_due(at(7)).is_some() {
        table.sweep(at(7));
        sweeps += 1;
    }
    assert_eq!((sweeps, table.slab.len()), (300_usize.div_ceil(SWEEP), 0));
}

#[test]
fn idle_pins_are_gone_after_the_sweep_that_is_asked_for() {
    let mut table = table(1000);
    table.bind(at(1), session(1), ReplicaId(0));
    table.bind(at(2), PinKey { kind: PinKind::Prefix, hash: 1 }, ReplicaId(0));
    let mut seen = Vec::new();
    while let Some(due) = table.sweep_due(at(2)) {
        table.sweep(due);
        seen.push((due, table.slab.len()));
    }
    assert_eq!(seen, [(at(7), 1), (at(61), 0)]);
}

#[test]
fn a_dead_pin_makes_room_before_a_living_one() {
    let mut table = table(2);
    table.bind(at(0), session(1), ReplicaId(1));
    table.bind(at(1), session(2), ReplicaId(0));
    table.kill_all(ReplicaId(0));
    table.bind(at(2), session(3), ReplicaId(1));
    assert!(matches!(table.find(at(2), session(1)), Found::Pin { .. }));
    assert_eq!(table.find(at(2), session(2)), Found::Nothing);
}

#[test]
fn no_capacity_holds_no_pins() {
    let mut table = table(0);
    table.bind(at(0), session(1), ReplicaId(0));
    assert_eq!(table.find(at(0), session(1)), Found::Nothing);
}
