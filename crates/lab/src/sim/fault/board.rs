//! The faults that are switched on, and what follows from them for a request.

use super::super::problem::Problem;
use crate::fault::{Fault, FaultSpec, chances};
use crate::rng::SeededRng;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The faults of every replica.
#[derive(Debug)]
pub(in super::super) struct Board(Vec<Arc<Faults>>);

impl Board {
    pub(in super::super) fn new(replicas: usize, seed: u64) -> Self {
        Self((0..replicas).map(|index| Arc::new(Faults::new(chances(seed, index)))).collect())
    }

    pub(in super::super) fn of(&self, index: usize) -> Option<&Arc<Faults>> {
        self.0.get(index)
    }

    pub(super) fn all(&self) -> &[Arc<Faults>] {
        &self.0
    }
}

/// What happens to one request instead of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Trouble {
    Reset,
    Refused(Problem),
    Hang,
    Spoiled(Spoil),
}

/// How an answer goes wrong on its way.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Spoil {
    /// Tokens before that.
    pub(in super::super) after: u32,
    /// Said then; `None`: a cut.
    pub(in super::super) says: Option<Problem>,
}

/// What the listener and the engine are to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Plan {
    pub(in super::super) refuse: bool,
    pub(in super::super) engine_dead: bool,
    pub(in super::super) sigterm: bool,
    pub(in super::super) dead: bool,
    pub(in super::super) loading: bool,
    pub(in super::super) frozen: bool,
    pub(in super::super) slowness: f64,
    /// Which switching-on it was, time alive, time dead.
    pub(in super::super) flap: Option<(u64, Duration, Duration)>,
}

/// The faults of one replica.
#[derive(Debug)]
pub(in super::super) struct Faults {
    state: Mutex<State>,
    /// Counts the changes.
    version: watch::Sender<u64>,
    /// The last change that listener and engine have made theirs.
    applied: watch::Sender<u64>,
    listening: watch::Sender<bool>,
    /// Open connections.
    connections: watch::Sender<usize>,
}

#[derive(Debug)]
struct State {
    active: Vec<Active>,
    /// Ends that nobody waits for yet.
    new_ends: Vec<(u64, Duration)>,
    switched: u64,
    rng: SeededRng,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    number: u64,
    spec: FaultSpec,
}

impl Faults {
    fn new(rng: SeededRng) -> Self {
        Self {
            state: Mutex::new(State { active: Vec::new(), new_ends: Vec::new(), switched: 0, rng }),
            version: watch::Sender::new(0),
            applied: watch::Sender::new(u64::MAX),
            listening: watch::Sender::new(false),
            connections: watch::Sender::new(0),
        }
    }

    /// Switches a fault on; one of the same kind ends.
    pub(in super::super) fn set(&self, spec: FaultSpec) {
        let mut state = self.lock();
        state.switched += 1;
        let number = state.switched;
        state.active.retain(|active| active.spec.fault.kind() != spec.fault.kind());
        state.active.push(Active { number, spec });
        state.new_ends.extend(spec.lasts.map(|time| (number, time)));
        drop(state);
        self.changed();
    }

    /// Ends the faults of a kind; `None`: all of them.
    pub(in super::super) fn clear(&self, kind: Option<&str>) {
        self.lock().active.retain(|active| kind.is_some_and(|kind| kind != active.spec.fault.kind()));
        self.changed();
    }

    /// Ends that switching-on, if nothing else has.
    pub(in super::super) fn end(&self, number: u64) {
        self.lock().active.retain(|active| active.number != number);
        self.changed();
    }

    pub(in super::super) fn list(&self) -> Vec<FaultSpec> {
        self.lock().active.iter().map(|active| active.spec).collect()
    }

    pub(in super::super) fn is_listening(&self) -> bool {
        *self.listening.borrow()
    }

    pub(in super::super) async fn until_listening(&self, wanted: bool) {
        let mut listening = self.listening.subscribe();
        // The sender is ours: there is no error.
        let _seen = listening.wait_for(|listening| *listening == wanted).await;
    }

    /// Waits until listener and engine are as the faults of now want them.
    pub(in super::super) async fn settled(&self) {
        let wanted = *self.version.borrow();
        let mut applied = self.applied.subscribe();
        let _seen = applied.wait_for(|applied| *applied >= wanted).await;
    }

    /// Waits until no fault of that kind is switched on.
    pub(in super::super) async fn until_ended(&self, kind: &str) {
        let mut version = self.version.subscribe();
        let active = || self.lock().active.iter().any(|active| active.spec.fault.kind() == kind);
        while active() {
            let _changed = version.changed().await;
        }
    }

    /// For the listener: wakes with every change.
    pub(in super::super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(in super::super) fn listens(&self, listening: bool) {
        self.listening.send_replace(listening);
    }

    pub(in super::super) fn connected(&self, connections: usize) {
        self.connections.send_replace(connections);
    }

    pub(in super::super) async fn until_deserted(&self) {
        let mut connections = self.connections.subscribe();
        let _seen = connections.wait_for(|connections| *connections == 0).await;
    }

    /// Listener and engine have made that change theirs.
    pub(in super::super) fn applied(&self, version: u64) {
        self.applied.send_replace(version);
    }

    /// Timed faults that were switched on since the last call.
    pub(in super::super) fn new_ends(&self) -> Vec<(u64, Duration)> {
        std::mem::take(&mut self.lock().new_ends)
    }

    pub(in super::super) fn plan(&self) -> Plan {
        let mut plan = Plan { slowness: 1.0, ..Plan::default() };
        for active in &self.lock().active {
            match active.spec.fault {
                Fault::Refuse => plan.refuse = true,
                Fault::Slow { factor } => plan.slowness = factor,
                Fault::Frozen => plan.frozen = true,
                Fault::Flap { alive, dead } => plan.flap = Some((active.number, alive, dead)),
                Fault::EngineDead => plan.engine_dead = true,
                Fault::Sigterm => plan.sigterm = true,
                Fault::Dead => plan.dead = true,
                Fault::Loading => plan.loading = true,
                _ => {}
            }
        }
        plan
    }

    /// How long `/health` is to wait, and what is wrong by its word.
    pub(in super::super) fn health(&self) -> (Option<Duration>, Option<Problem>) {
        let state = self.lock();
        let delay = state.active.iter().find_map(|active| match active.spec.fault {
            Fault::SlowHealth(delay) => Some(delay),
            _ => None,
        });
        let wrong = state.active.iter().find_map(|active| match active.spec.fault {
            Fault::EngineDead => Some(Problem::Unwell),
            Fault::Loading => Some(Problem::Loading),
            _ => None,
        });
        (delay, wrong)
    }

    /// What befalls the next request: the first fault in order of switching on that does.
    pub(in super::super) fn strike(&self) -> Option<Trouble> {
        let mut state = self.lock();
        let State { active, rng, .. } = &mut *state;
        for active in active.iter_mut() {
            let spec = &mut active.spec;
            let Some(trouble) = trouble(spec.fault) else { continue };
            // A fault that is used up stays listed until it is switched off: what it holds is still held.
            if spec.strikes(rng) {
                return Some(trouble);
            }
        }
        None
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn trouble(fault: Fault) -> Option<Trouble> {
    let problem = |status| if status == 503 { Problem::Busy } else { Problem::Asked(status) };
    match fault {
        Fault::Status(status) => Some(Trouble::Refused(problem(status))),
        Fault::Reset => Some(Trouble::Reset),
        Fault::Hang => Some(Trouble::Hang),
        Fault::Cut { after } => Some(Trouble::Spoiled(Spoil { after, says: None })),
        Fault::ErrorEvent { after, status } => {
            Some(Trouble::Spoiled(Spoil { after, says: Some(problem(status)) }))
        }
        Fault::EngineDead => Some(Trouble::Refused(Problem::Dead)),
        Fault::Loading => Some(Trouble::Refused(Problem::Loading)),
        _ => None,
    }
}
