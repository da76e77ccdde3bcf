//! The fallback target: asked when no other can serve, or when the answer is of a class that the route would rather
//! not show. Only before the first byte.

use sluicegate_core::AttemptFailure;

use super::reserve::Search;
use super::{Answered, NoAnswer, Outgoing, run_attempts};
use crate::client::Client;
use crate::clock;
use crate::keys::index_of;
use crate::plan::{FallbackPlan, StatusClass};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::route::Way;

/// Makes attempts at the route's targets, then at its fallback.
pub(super) async fn run(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
) -> Result<Answered, NoAnswer> {
    let route = &out.resolved.route;
    if out.suspected {
        return via(client, out, record, Way::Fallback, true).await.0;
    }
    let way = out.resolved.way();
    let (first, suspected) = via(client, out, record, way, false).await;
    // A request that is bound to a replica is of no use anywhere else.
    let fallback = route.plan.fallback.as_ref().filter(|_| out.resolved.bound.is_none());
    if clock::now() >= out.deadline || !fallback.is_some_and(|fallback| fallback.takes_over(&first)) {
        return first;
    }
    let place = record.place().cloned();
    match via(client, out, record, Way::Fallback, suspected).await.0 {
        // It has nothing to show: what the targets said is worth more.
        Err(NoAnswer::Refused(_)) => {
            record.back_to(place);
            first
        }
        second => second,
    }
}

/// Makes attempts one way; and whether the request is suspected of failing whoever tries it. `suspected`: it was before,
/// so that one more such failure is enough.
async fn via(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
    way: Way,
    suspected: bool,
) -> (Result<Answered, NoAnswer>, bool) {
    let route = &out.resolved.route;
    let mut search = Search::new(way, route.way(way), index_of(out.key));
    let result = run_attempts(client, out, record, &mut search).await;
    let again =
        suspected && !matches!(result, Ok(Answered::Shown(_))) && search.last.is_some_and(is_doubtful);
    let suspect = search.attempts.is_suspect() || again;
    if suspect {
        route.suspect(way, out.key.map(|key| key.index), out.endpoint, &out.body);
    }
    (result, suspect)
}

/// A failure that may be the request's own.
fn is_doubtful(failure: AttemptFailure) -> bool {
    matches!(
        failure,
        AttemptFailure::Gone
            | AttemptFailure::ReplicaDied { sent_whole: true }
            | AttemptFailure::Reset { sent_whole: true }
            | AttemptFailure::Status(500 | 502 | 504)
            | AttemptFailure::ErrorEvent(500 | 502 | 504)
    )
}

impl FallbackPlan {
    /// Whether what the targets came to is for the fallback to do better.
    fn takes_over(&self, first: &Result<Answered, NoAnswer>) -> bool {
        match first {
            Ok(Answered::Shown(shown)) => self.is_on(shown.exchange.status),
            Ok(Answered::Stored(answer)) => self.is_on(answer.status),
            Err(NoAnswer::ClientGone { .. }) => false,
            Err(NoAnswer::Refused(refusal)) => match refusal {
                Refusal::UpstreamStatus { status, .. } => self.is_on(*status),
                Refusal::NoReplica(_)
                | Refusal::QueueFull { .. }
                | Refusal::QueueTimeout { .. }
                | Refusal::Unreachable
                | Refusal::CredentialRefused
                | Refusal::Upstream(_) => true,
                _ => false,
            },
        }
    }

    fn is_on(&self, status: u16) -> bool {
        StatusClass::of(status).is_some_and(|class| self.on.contains(&class))
    }
}
