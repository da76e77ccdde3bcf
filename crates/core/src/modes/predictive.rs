//! Mode `predictive`: the lowest predicted cost, to this request and to everybody else.

use crate::choose::{Branch, Choice, LastTurn, Scope, Survey, without_candidates};
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::{NoReplica, Reason};
use crate::predict::{Prediction, Predictor, Query, Standing, Ties, WINDOW};
use crate::time::Time;
use std::cmp::Reverse;

/// The cheapest candidate; of those that cost the same the one that knows most of the prompt, then the one with the fewest
/// requests in flight, others' included, then the one that answered the session's last turn, then the one that got the
/// fewest lately, then the one whose turn it is.
///
/// A cost counts what those who come after save where a prompt is warm. That is no reason for a request to stay there when
/// its own first token would come sooner elsewhere.
///
/// A request that is held back finds nobody while all have more prefill queued than its hold, and else chooses among all.
pub(crate) fn by_cost(field: &[Branch<'_>], now: Time, scope: Scope) -> Result<Choice, NoReplica> {
    let mut look = Look::of(LastTurn::of(field, now));
    look.at_all(field, now, scope);
    if look.stays_too_long() {
        look.again(field, now, scope);
    }
    let held = look.held && field.iter().any(|branch| branch.hold(scope).is_some());
    match look.ties.winner().filter(|_| !held) {
        Some((Offer { branch, id, prediction }, _)) => {
            let chosen = Choice::of(branch, id, Reason::Predicted);
            Ok(look.last.follows(Choice { takes_turn: true, depth: Some(prediction.depth), ..chosen }))
        }
        None => without_candidates(field, &Survey::of(field, scope), scope),
    }
}

/// What is asked of every replica of a branch.
pub(crate) fn question<'a>(
    predictor: &'a Predictor,
    now: Time,
    branch: &Branch<'_>,
    last: &LastTurn,
) -> Query<'a> {
    let (prompt, serving) = (&branch.request.prompt, branch.in_service());
    let query = predictor.query(now, prompt, serving);
    if last.is_none_of(branch.request.session) { query.of_a_new_talk(prompt, serving) } else { query }
}

/// A look over all candidates.
struct Look {
    last: LastTurn,
    ties: Ties<Offer>,
    /// Where the first token comes soonest, and least of the prompt is known.
    soonest: Option<Prediction>,
    /// Those where a request would stay too long are passed over.
    second: bool,
    /// No candidate has as little prefill queued as ends a hold.
    held: bool,
}

#[derive(Clone, Copy)]
struct Offer {
    branch: usize,
    id: ReplicaId,
    prediction: Prediction,
}

impl Look {
    fn of(last: LastTurn) -> Self {
        Self { last, ties: Ties::default(), soonest: None, second: false, held: true }
    }

    fn again(&mut self, field: &[Branch<'_>], now: Time, scope: Scope) {
        self.ties = Ties::default();
        self.second = true;
        self.at_all(field, now, scope);
    }

    fn at_all(&mut self, field: &[Branch<'_>], now: Time, scope: Scope) {
        for (at, branch) in field.iter().enumerate() {
            self.at(at, branch, now, scope);
        }
    }

    fn at(&mut self, at: usize, branch: &Branch<'_>, now: Time, scope: Scope) {
        let Some(predictor) = branch.view.predictor else { return };
        let query = question(predictor, now, branch, &self.last);
        let hold = branch.hold(scope).map(|hold| hold.as_secs_f64());
        for (index, row) in branch.view.board.iter().enumerate() {
            let probing = row.health == Health::Probing;
            let open = match row.health {
                Health::Live => scope != Scope::WithRoom || row.waiting == 0,
                Health::Probing => scope != Scope::WithRoom && branch.probing_has_room(row),
                Health::Starting | Health::Ejected | Health::Draining => false,
            };
            if !open || !scope.covers(row) || !branch.asked(index) {
                continue;
            }
            self.held &= hold.is_none_or(|hold| predictor.queued(now, row.seat) > hold);
            let limit = self.ties.limit().unwrap_or(f64::INFINITY);
            let Some(prediction) = query.predict_below(row.seat, limit) else { continue };
            if self.second && self.is_too_late(&prediction) {
                continue;
            }
            self.note(&prediction);
            let depth = Reverse(prediction.draws);
            // A scrape is seconds old, and half of what it saw of others may be over: one that was is not to herd everybody.
            let inflight = row.inflight.saturating_add(query.others(row.seat) / 2);
            let standing = match self.last.slack_at(at, row.id) {
                // Of replicas that are alike, what no hash tells is known where the session was last.
                Some(slack) if !probing => {
                    let inflight = inflight.saturating_sub(slack);
                    Standing { depth, inflight, lately: 0, probing, distance: 0 }
                }
                _ => {
                    let (lately, distance) = (query.lately(row.seat), branch.distance(index));
                    Standing { depth, inflight, lately, probing, distance }
                }
            };
            self.ties.offer(prediction.terms.cost(), standing, Offer { branch: at, id: row.id, prediction });
        }
    }

    /// Whoever is dearer than the best so far is not seen here, and is not the soonest: no cost is less than the time to
    /// the first token.
    fn note(&mut self, prediction: &Prediction) {
        let order = |one: &Prediction| (one.terms.first_token(), one.depth);
        if self.soonest.is_none_or(|soonest| order(prediction) < order(&soonest)) {
            self.soonest = Some(*prediction);
        }
    }

    fn stays_too_long(&self) -> bool {
        self.ties.winner().is_some_and(|(offer, _)| self.is_too_late(&offer.prediction))
    }

    /// More of the prompt is known here than where it would be answered soonest, and that is all that speaks for it.
    fn is_too_late(&self, prediction: &Prediction) -> bool {
        self.soonest.is_some_and(|soonest| {
            prediction.depth > soonest.depth
                && prediction.terms.first_token() > soonest.terms.first_token() + WINDOW
        })
    }
}
