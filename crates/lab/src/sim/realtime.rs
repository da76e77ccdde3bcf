//! The pure model driven by the clock: one task sleeps until its next deadline and hands tokens to whoever waits.

use super::SimConfig;
use super::metrics::{Flight, Observations};
use crate::engine::{Counters, Output, Replica, Request, RequestId, StepCost, SubmitError};
use crate::rng::SeededRng;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until};

#[derive(Debug)]
pub(super) struct Realtime {
    origin: Instant,
    state: Mutex<State>,
    /// The next deadline may have changed.
    wake: Notify,
    published: watch::Sender<Counters>,
}

#[derive(Debug)]
struct State {
    replica: Replica,
    waiting: HashMap<RequestId, (mpsc::UnboundedSender<Piece>, Flight)>,
    observations: Observations,
    next_id: u64,
    names: SeededRng,
}

/// What a waiting request gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    Token(Output),
    /// There will be no more tokens.
    Ended(Ending),
}

/// How a request ends that the engine does not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The server shuts down.
    Aborted,
    /// The engine has died.
    Died,
}

impl Realtime {
    pub(super) fn new(config: &SimConfig, index: usize) -> Self {
        let replica = Replica::new(config.profile.clone());
        Self {
            origin: Instant::now(),
            wake: Notify::new(),
            published: watch::Sender::new(replica.counters()),
            state: Mutex::new(State {
                replica,
                waiting: HashMap::new(),
                observations: Observations::default(),
                next_id: 0,
                names: SeededRng::stream(config.seed, index as u64),
            }),
        }
    }

    /// Steps the model for ever.
    pub(super) async fn run(&self) {
        loop {
            let deadline = self.with_state(|state, now| {
                state.replica.advance(now);
                state.replica.next_deadline()
            });
            let wake = self.wake.notified();
            match deadline {
                None => wake.await,
                Some(deadline) => tokio::select! {
                    () = sleep_until(self.origin + deadline) => {}
                    () = wake => {}
                },
            }
        }
    }

    /// Hands a request to the model.
    pub(super) fn submit(self: &Arc<Self>, request: Request, max_tokens: u32) -> Result<Ticket, SubmitError> {
        // Bounded by the answer's length: at most one message per token of it.
        let (sender, outputs) = mpsc::unbounded_channel();
        let id = self.with_state(|state, now| {
            state.next_id += 1;
            let id = RequestId(state.next_id);
            let flight = Flight::new(request.prompt_tokens, max_tokens);
            state.replica.submit(now, id, request)?;
            state.waiting.insert(id, (sender, flight));
            Ok(id)
        })?;
        self.wake.notify_one();
        Ok(Ticket { id, outputs, realtime: Arc::clone(self) })
    }

    /// 16 hexadecimal digits for an answer's id.
    pub(super) fn name(&self) -> String {
        format!("{:016x}", self.lock().names.next_u64())
    }

    pub(super) fn counters(&self) -> watch::Receiver<Counters> {
        self.published.subscribe()
    }

    pub(super) fn count_response(&self, handler: &'static str, method: &'static str, status: u16) {
        self.lock().observations.count_response(handler, method, status);
    }

    /// Runs `read` on the counters as the metrics show them and everything observed so far.
    pub(super) fn observe<T>(&self, read: impl FnOnce(&Counters, &Observations) -> T) -> T {
        self.with_state(|state, now| {
            state.replica.advance(now);
            state.deliver();
            let shown = Counters { waiting: state.replica.shown_waiting(), ..state.replica.counters() };
            read(&shown, &state.observations)
        })
    }

    /// Slows or stops the steps.
    pub(super) fn set_pace(&self, cost: StepCost, frozen: bool) {
        self.with_state(|state, now| {
            state.replica.set_cost(cost);
            state.replica.set_frozen(now, frozen);
        });
        self.wake.notify_one();
    }

    /// Ends every request in flight.
    pub(super) fn end_all(&self, ending: Ending) {
        self.with_state(|state, now| {
            state.deliver();
            for (id, (sender, _)) in state.waiting.drain() {
                let _gone = sender.send(Piece::Ended(ending));
                state.replica.abort(now, id);
            }
        });
        self.wake.notify_one();
    }

    /// Begins anew: an empty cache, counters at 0. What is in flight is cut.
    pub(super) fn restart(&self, config: &SimConfig) {
        self.with_state(|state, _| {
            state.replica = Replica::new(config.profile.clone());
            state.waiting.clear();
            state.observations = Observations::default();
        });
        self.wake.notify_one();
    }

    fn abort(&self, id: RequestId) {
        self.with_state(|state, now| {
            state.waiting.remove(&id);
            state.replica.abort(now, id)
        });
        self.wake.notify_one();
    }

    /// One critical section: tokens the change brought about are delivered and the counters published with it.
    fn with_state<T>(&self, change: impl FnOnce(&mut State, Duration) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state, self.origin.elapsed());
        state.deliver();
        let counters = state.replica.counters();
        self.published.send_if_modified(|published| {
            let changed = *published != counters;
            *published = counters;
            changed
        });
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn deliver(&mut self) {
        while let Some(output) = self.replica.poll_output() {
            // An aborted request's last tokens have nobody to go to.
            let Some((sender, flight)) = self.waiting.get_mut(&output.id) else { continue };
            self.observations.token(flight, &output);
            // A failure means that the receiver is just being dropped, and its abort is on the way.
            let _gone = sender.send(Piece::Token(output));
            if output.finish.is_some() {
                self.waiting.remove(&output.id);
            }
        }
        self.observations.steps(&self.replica.counters());
    }
}

/// A request in flight. Dropping it aborts the request.
#[derive(Debug)]
pub(super) struct Ticket {
    id: RequestId,
    outputs: mpsc::UnboundedReceiver<Piece>,
    realtime: Arc<Realtime>,
}

impl Ticket {
    /// What comes next. `None` after the last token, or when the replica has been killed.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        self.outputs.recv().await
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.outputs.poll_recv(context)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.realtime.abort(self.id);
    }
}
