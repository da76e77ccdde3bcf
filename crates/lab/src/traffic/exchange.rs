//! One request and its stream, measured.

use super::conversation::Body;
use super::totals::Totals;
use crate::client::{Endpoint, Outcome};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Sends a request and reads its stream; the answer's text where it ended well.
pub(super) async fn exchange(
    endpoint: &Endpoint,
    session: &str,
    body: Body,
    totals: &Mutex<Totals>,
) -> Option<String> {
    lock(totals).sent(body.json.len(), body.heavy);
    let mut sent = Sent { totals, at: Instant::now(), outcome: Outcome::BrokenOff };
    let at = sent.at;
    let mut first = true;
    let on_events = |_| {
        if std::mem::take(&mut first) {
            lock(totals).first_token.record(at.elapsed());
        }
    };
    let (outcome, told) = endpoint.stream("/v1/chat/completions", session, body.json.into(), on_events).await;
    sent.outcome = outcome;
    let mut totals = lock(totals);
    totals.prompt_tokens += told.prompt_tokens;
    totals.cached_tokens += told.cached_tokens;
    totals.completion_tokens += told.completion_tokens;
    drop(totals);
    (outcome == Outcome::Ok).then_some(told.text)
}

/// A request under way. Its drop books the outcome, so that one whose future is dropped is counted too.
struct Sent<'a> {
    totals: &'a Mutex<Totals>,
    at: Instant,
    outcome: Outcome,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        lock(self.totals).end(self.outcome, self.at.elapsed());
    }
}

fn lock(totals: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}
