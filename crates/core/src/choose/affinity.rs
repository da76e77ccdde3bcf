//! Step 4: a warm replica instead of the least loaded one, where it costs nothing or little.

use super::survey::Load;
use super::{Choice, Scope, View, session_slack};
use crate::board::Row;
use crate::health::Health;
use crate::ids::{ReplicaId, Session};
use crate::lease::{Hold, OnAnswer};
use crate::load::REQUEST;
use crate::pick::{PickRequest, Reason};
use crate::pins::{Found, PinKey, PinKind};
use crate::rendezvous;
use crate::time::Time;

/// Spills in a row at which a prefix pin is deleted: a shared system prompt must not cement a hot node.
const PREFIX_SPILLS: u32 = 2;

/// Mode `pins`: the session's pin if there is one, else the prefix's.
pub(super) fn by_pins(
    view: &View<'_>,
    now: Time,
    request: &PickRequest<'_>,
    scope: Scope,
    least: Load,
) -> Choice {
    let mut choice = Choice::by_load(ReplicaId::from_index(least.index));
    let mut consult_prefix = true;
    if let Some(session) = request.session {
        consult_prefix = session_pin(view, now, request, scope, session, least, &mut choice);
    }
    if let Some(hash) = request.prefix {
        let key = PinKey { kind: PinKind::Prefix, hash };
        let mut hold = Hold { key, on_answer: OnAnswer::Make };
        if consult_prefix {
            hold.on_answer = prefix_pin(view, now, request, scope, key, least, &mut choice);
        }
        choice.holds.prefix = Some(hold);
    }
    choice
}

/// True if the prefix pin may be consulted: only where there was no session pin.
fn session_pin(
    view: &View<'_>,
    now: Time,
    request: &PickRequest<'_>,
    scope: Scope,
    session: Session,
    least: Load,
    choice: &mut Choice,
) -> bool {
    let affinity = &view.settings.affinity;
    let key = PinKey { kind: PinKind::Session, hash: session.key() };
    let Some(slack) = session_slack(session, affinity.session_slack) else {
        // A talk's first turn follows nothing: another talk that began with the same words has nothing warm for it.
        choice.holds.session = Some(Hold { key, on_answer: OnAnswer::Move });
        return true;
    };
    let (on_answer, consult_prefix) = match view.pins.find(now, key) {
        Found::Nothing => (OnAnswer::Make, true),
        Found::Dead { expired } => {
            choice.remove[0] = Some(key);
            (OnAnswer::Make, expired)
        }
        Found::Pin { replica, spills } => {
            let on_answer = match stand(view, request, scope, replica, slack, least) {
                Stand::Warm => {
                    choice.replica = replica;
                    choice.reason = Reason::AffinitySession;
                    OnAnswer::Renew
                }
                Stand::Least => OnAnswer::Renew,
                Stand::Far => choice.rebind(key),
                Stand::Away if spills + 1 >= affinity.rebind_after_spills => choice.rebind(key),
                Stand::Away => choice.spill(key),
            };
            (on_answer, false)
        }
    };
    choice.holds.session = Some(Hold { key, on_answer });
    consult_prefix
}

fn prefix_pin(
    view: &View<'_>,
    now: Time,
    request: &PickRequest<'_>,
    scope: Scope,
    key: PinKey,
    least: Load,
    choice: &mut Choice,
) -> OnAnswer {
    match view.pins.find(now, key) {
        Found::Nothing => OnAnswer::Make,
        Found::Dead { .. } => {
            choice.remove[1] = Some(key);
            OnAnswer::Make
        }
        Found::Pin { replica, spills } => {
            match stand(view, request, scope, replica, view.settings.affinity.prefix_slack, least) {
                Stand::Warm => {
                    choice.replica = replica;
                    choice.reason = Reason::AffinityPrefix;
                    OnAnswer::Renew
                }
                Stand::Least => OnAnswer::Renew,
                Stand::Far => choice.rebind(key),
                Stand::Away if spills + 1 >= PREFIX_SPILLS => {
                    choice.remove[1] = Some(key);
                    choice.spilled = true;
                    OnAnswer::Make
                }
                Stand::Away => choice.spill(key),
            }
        }
    }
}

impl Choice {
    fn spill(&mut self, key: PinKey) -> OnAnswer {
        self.spilled = true;
        self.spill = Some(key);
        OnAnswer::Make
    }

    fn rebind(&mut self, key: PinKey) -> OnAnswer {
        self.spill(key);
        self.reason = Reason::Rebind;
        OnAnswer::Move
    }
}

/// How a pin's replica stands to the least loaded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Usable: followed.
    Warm,
    /// Not usable, and yet the least loaded one: the request lands there all the same.
    Least,
    /// Not usable.
    Away,
    /// So far above the least loaded one that the pin moves at once.
    Far,
}

fn stand(
    view: &View<'_>,
    request: &PickRequest<'_>,
    scope: Scope,
    id: ReplicaId,
    slack: u32,
    least: Load,
) -> Stand {
    let Some(row) = view.board.get(id.index()) else { return Stand::Away };
    let above = row.running.saturating_sub(least.running);
    if above >= u64::from(view.settings.affinity.force_rebind_gap) * REQUEST {
        return Stand::Far;
    }
    if view.asked(id.index(), request) && usable(row, scope, least.running, slack) {
        return Stand::Warm;
    }
    if id.index() == least.index { Stand::Least } else { Stand::Away }
}

/// LIVE, nothing waiting there, and at most `slack` above the least loaded replica.
fn usable(row: &Row, scope: Scope, min_running: u64, slack: u32) -> bool {
    row.health == Health::Live
        && row.waiting == 0
        && row.running <= min_running.saturating_add(u64::from(slack) * REQUEST)
        && scope.covers(row)
}

/// Mode `consistent`: the first usable replica in the key's rendezvous order, else the least loaded.
///
/// A talk's first turn is placed by its hash, too: nothing remembers where it went, so the second turn would miss it.
pub(super) fn by_rendezvous(view: &View<'_>, request: &PickRequest<'_>, scope: Scope, least: Load) -> Choice {
    let affinity = &view.settings.affinity;
    let by_load = Choice::by_load(ReplicaId::from_index(least.index));
    let (key, slack, reason) = match (request.session, request.prefix) {
        (Some(session), _) => {
            let slack = session_slack(session, affinity.session_slack).unwrap_or(0);
            (session.key(), slack, Reason::AffinitySession)
        }
        (None, Some(prefix)) => (prefix, affinity.prefix_slack, Reason::AffinityPrefix),
        (None, None) => return by_load,
    };
    let mut owner: Option<(u64, usize)> = None;
    let mut winner: Option<(u64, usize)> = None;
    for (index, row) in view.board.iter().enumerate() {
        if row.health != Health::Live || !view.serves(index, request) {
            continue;
        }
        let rank = (rendezvous::score(key, row.identity), index);
        owner = owner.max(Some(rank));
        if Some(rank) > winner && usable(row, scope, least.running, slack) && view.asked(index, request) {
            winner = Some(rank);
        }
    }
    match winner {
        Some((_, index)) => {
            Choice { replica: ReplicaId::from_index(index), reason, spilled: winner != owner, ..by_load }
        }
        None => Choice { spilled: owner.is_some_and(|(_, index)| index != least.index), ..by_load },
    }
}
