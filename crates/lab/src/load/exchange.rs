//! One request, measured. The only reader of the clock.

use super::Shared;
use super::report::Times;
use crate::client::{Outcome, Told};
use std::time::Duration;
use tokio::time::{Instant, timeout};

pub(super) fn now() -> Instant {
    Instant::now()
}

/// Sends a request that was meant for `intended` and reads its answer; its text where it ended well.
pub(super) async fn ask(shared: &Shared, session: &str, body: String, intended: Instant) -> Option<String> {
    let config = &shared.config;
    let sent = now();
    shared.book().sent(intended.duration_since(shared.began));
    let mut flight = Flight {
        shared,
        outcome: Outcome::BrokenOff,
        told: Told::default(),
        times: Times { lag: sent.saturating_duration_since(intended), ..Times::default() },
        intended,
        last: sent,
    };
    let (times, last) = (&mut flight.times, &mut flight.last);
    let on_events = |events: u32| {
        let at = now();
        match times.first {
            None => times.first = Some(at.saturating_duration_since(intended)),
            Some(_) => times.between.push(at.saturating_duration_since(*last)),
        }
        // What comes in one piece came at one time.
        times.between.extend((1..events).map(|_| Duration::ZERO));
        *last = at;
    };
    let stream = shared.endpoint.stream(config.kind.path(), session, body.into(), on_events);
    match timeout(config.timeout, stream).await {
        Ok((outcome, told)) => (flight.outcome, flight.told) = (outcome, told),
        Err(_) => flight.outcome = Outcome::TimedOut,
    }
    (flight.outcome == Outcome::Ok).then(|| flight.told.text.clone())
}

/// A request under way. Its drop books it, so that one whose future is dropped is counted too.
struct Flight<'a> {
    shared: &'a Shared,
    outcome: Outcome,
    told: Told,
    times: Times,
    intended: Instant,
    /// When the last token came.
    last: Instant,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let end = now();
        self.times.whole = end.saturating_duration_since(self.intended);
        self.times.to_last = self.last.saturating_duration_since(self.intended);
        let since_start = end.saturating_duration_since(self.shared.began);
        let goodput = &self.shared.config.goodput;
        self.shared.book().ended(self.outcome, &self.told, &self.times, since_start, goodput);
    }
}
