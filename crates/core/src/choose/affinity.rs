//! Step 4: a warm replica instead of the least loaded one, where it costs nothing or little.
//!
//! Where a route has several pools a pin lives in the pool of its replica. A request that is spilled to another pool
//! makes no second pin there; one that is re-bound takes the pin along.

use super::survey::Load;
use super::{Branch, Choice, PinChanges, Scope, session_slack};
use crate::board::Row;
use crate::health::Health;
use crate::ids::{ReplicaId, Session};
use crate::lease::{Hold, Holds, OnAnswer};
use crate::load::REQUEST;
use crate::pick::{PickRequest, Reason};
use crate::pins::{Found, PinKey, PinKind};
use crate::rendezvous;
use crate::settings::AffinityMode;
use crate::time::Time;

/// Spills in a row at which a prefix pin is deleted: a shared system prompt must not cement a hot node.
const PREFIX_SPILLS: u32 = 2;

/// Mode `pins`: the session's pin if there is one, else the prefix's. `request` is what the branches have in common.
pub(super) fn by_pins(
    field: &[Branch<'_>],
    request: &PickRequest<'_>,
    now: Time,
    scope: Scope,
    least: &Load,
    by_load: Choice,
) -> Choice {
    let asked = Asked { field, now, scope, least };
    let mut choice = by_load;
    let mut consult_prefix = true;
    if let Some(session) = request.session {
        consult_prefix = session_pin(&asked, session, &mut choice);
    }
    if let Some(hash) = request.prefix {
        let key = PinKey { kind: PinKind::Prefix, hash };
        let on_answer =
            if consult_prefix { prefix_pin(&asked, key, &mut choice) } else { Some(OnAnswer::Make) };
        choice.holds.prefix = on_answer.map(|on_answer| Hold { key, on_answer });
    }
    choice
}

/// Mode `predictive`: where the last turn of a request's session was answered.
pub(crate) struct LastTurn {
    key: Option<PinKey>,
    /// The replica, in which branch, and how many requests of others' there are as good as none.
    home: Option<(Pin, u32)>,
    changes: PinChanges,
}

impl LastTurn {
    /// Of a request that has no session, or whose session may not be followed, nothing.
    pub(crate) fn of(field: &[Branch<'_>], now: Time) -> Self {
        let mut last = Self { key: None, home: None, changes: PinChanges::default() };
        let Some(first) = field.first() else { return last };
        let affinity = &first.view.settings.affinity;
        let Some(session) = first.request.session.filter(|_| affinity.mode == AffinityMode::Pins) else {
            return last;
        };
        let key = PinKey { kind: PinKind::Session, hash: session.key() };
        last.key = Some(key);
        let slack = session_slack(session, affinity.session_slack);
        if let (Known::Pin(pin), Some(slack)) = (look_up(field, now, key, &mut last.changes), slack) {
            last.home = Some((pin, slack));
        }
        last
    }

    /// The request begins a talk, by its session: one that has not been met, or whose first turn it is.
    pub(crate) fn is_none_of(&self, session: Option<Session>) -> bool {
        let begins =
            session.is_some_and(|session| !matches!(session, Session::Conversation { continued: true, .. }));
        self.key.is_some() && self.home.is_none() && begins
    }

    /// The slack of this replica, where it is the one.
    pub(crate) fn slack_at(&self, branch: usize, replica: ReplicaId) -> Option<u32> {
        let (pin, slack) = self.home.as_ref()?;
        (pin.branch == branch && pin.replica == replica).then_some(*slack)
    }

    /// The next turn is to find where this one was answered.
    pub(crate) fn follows(mut self, choice: Choice) -> Choice {
        let Some(key) = self.key else { return choice };
        let on_answer = match &self.home {
            Some((pin, _)) if (pin.branch, pin.replica) == (choice.branch, choice.replica) => OnAnswer::Renew,
            Some((pin, _)) if pin.branch != choice.branch => {
                self.changes.remove(pin.branch, key);
                OnAnswer::Move
            }
            _ => OnAnswer::Move,
        };
        let holds = Holds { session: Some(Hold { key, on_answer }), prefix: None };
        Choice { holds, pins: self.changes, ..choice }
    }
}

/// What both kinds of pin are judged by.
struct Asked<'f, 'a> {
    field: &'f [Branch<'a>],
    now: Time,
    scope: Scope,
    least: &'f Load,
}

/// A living pin.
struct Pin {
    branch: usize,
    replica: ReplicaId,
    /// Spills in a row.
    spills: u32,
}

/// What the pools know of a key.
enum Known {
    Pin(Pin),
    Nothing,
    /// Its replica has left service.
    Dead,
}

/// True if the prefix pin may be consulted: only where there was no session pin.
fn session_pin(asked: &Asked<'_, '_>, session: Session, choice: &mut Choice) -> bool {
    let Some(first) = asked.field.first() else { return true };
    let affinity = &first.view.settings.affinity;
    let key = PinKey { kind: PinKind::Session, hash: session.key() };
    let hold = |on_answer| Some(Hold { key, on_answer });
    let Some(slack) = session_slack(session, affinity.session_slack) else {
        // A talk's first turn follows nothing: another talk that began with the same words has nothing warm for it.
        choice.holds.session = hold(OnAnswer::Move);
        return true;
    };
    let pin = match look_up(asked.field, asked.now, key, &mut choice.pins) {
        Known::Pin(pin) => pin,
        Known::Nothing => {
            choice.holds.session = hold(OnAnswer::Make);
            return true;
        }
        Known::Dead => {
            choice.holds.session = hold(OnAnswer::Make);
            return false;
        }
    };
    let on_answer = match stand(asked, &pin, slack) {
        Stand::Warm => {
            choice.follow(&pin, Reason::AffinitySession);
            Some(OnAnswer::Renew)
        }
        Stand::Least => Some(OnAnswer::Renew),
        Stand::Far => choice.rebind(&pin, key),
        Stand::Away if pin.spills + 1 >= affinity.rebind_after_spills => choice.rebind(&pin, key),
        Stand::Away => choice.spill(&pin, key),
    };
    choice.holds.session = on_answer.and_then(hold);
    false
}

/// What the first answer byte does to the prefix pin; `None`: nothing.
fn prefix_pin(asked: &Asked<'_, '_>, key: PinKey, choice: &mut Choice) -> Option<OnAnswer> {
    let affinity = &asked.field.first()?.view.settings.affinity;
    let Known::Pin(pin) = look_up(asked.field, asked.now, key, &mut choice.pins) else {
        return Some(OnAnswer::Make);
    };
    match stand(asked, &pin, affinity.prefix_slack) {
        Stand::Warm => {
            choice.follow(&pin, Reason::AffinityPrefix);
            Some(OnAnswer::Renew)
        }
        Stand::Least => Some(OnAnswer::Renew),
        Stand::Far => choice.rebind(&pin, key),
        Stand::Away if pin.spills + 1 >= PREFIX_SPILLS => {
            choice.pins.remove(pin.branch, key);
            choice.spilled = true;
            Some(OnAnswer::Make)
        }
        Stand::Away => choice.spill(&pin, key),
    }
}

/// The living pin of the first pool that has one; dead ones that are met are removed.
fn look_up(field: &[Branch<'_>], now: Time, key: PinKey, changes: &mut PinChanges) -> Known {
    let mut dead = false;
    for (branch, at) in field.iter().enumerate() {
        match at.view.pins.find(now, key) {
            Found::Nothing => {}
            Found::Dead { expired } => {
                changes.remove(branch, key);
                dead |= !expired;
            }
            Found::Pin { replica, spills } => return Known::Pin(Pin { branch, replica, spills }),
        }
    }
    if dead { Known::Dead } else { Known::Nothing }
}

impl Choice {
    /// The request goes where its session's pin is.
    pub(crate) fn stays(&self) -> bool {
        self.holds.session.is_some_and(|hold| hold.on_answer == OnAnswer::Renew)
    }

    fn follow(&mut self, pin: &Pin, reason: Reason) {
        self.branch = pin.branch;
        self.replica = pin.replica;
        self.reason = reason;
        self.takes_turn = false;
    }

    fn spill(&mut self, pin: &Pin, key: PinKey) -> Option<OnAnswer> {
        self.spilled = true;
        self.pins.spill = Some((pin.branch, key));
        (pin.branch == self.branch).then_some(OnAnswer::Make)
    }

    fn rebind(&mut self, pin: &Pin, key: PinKey) -> Option<OnAnswer> {
        self.spill(pin, key);
        if pin.branch != self.branch {
            self.pins.remove(pin.branch, key);
        }
        self.reason = Reason::Rebind;
        Some(OnAnswer::Move)
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

fn stand(asked: &Asked<'_, '_>, pin: &Pin, slack: u32) -> Stand {
    let Some(home) = asked.field.get(pin.branch) else { return Stand::Away };
    let Some(index) = home.view.place(pin.replica) else { return Stand::Away };
    let row = &home.view.board[index];
    let above = row.running.saturating_sub(asked.least.running);
    if above >= u64::from(home.view.settings.affinity.force_rebind_gap) * REQUEST {
        return Stand::Far;
    }
    if home.asked(index) && usable(row, asked.scope, asked.least.running, slack) {
        return Stand::Warm;
    }
    let least = (asked.least.branch, asked.least.id);
    if (pin.branch, pin.replica) == least { Stand::Least } else { Stand::Away }
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
pub(super) fn by_rendezvous(
    field: &[Branch<'_>],
    first: &Branch<'_>,
    scope: Scope,
    least: &Load,
    by_load: Choice,
) -> Choice {
    let affinity = &first.view.settings.affinity;
    let (key, slack, reason) = match (first.request.session, first.request.prefix) {
        (Some(session), _) => {
            let slack = session_slack(session, affinity.session_slack).unwrap_or(0);
            (session.key(), slack, Reason::AffinitySession)
        }
        (None, Some(prefix)) => (prefix, affinity.prefix_slack, Reason::AffinityPrefix),
        (None, None) => return by_load,
    };
    let mut owner: Option<(u64, usize, ReplicaId)> = None;
    let mut winner: Option<(u64, usize, ReplicaId)> = None;
    for (at, branch) in field.iter().enumerate() {
        for (index, row) in branch.view.board.iter().enumerate() {
            if row.health != Health::Live || !branch.serves(index) {
                continue;
            }
            let rank = (rendezvous::score(key, row.identity), at, row.id);
            owner = owner.max(Some(rank));
            if Some(rank) > winner && usable(row, scope, least.running, slack) && branch.asked(index) {
                winner = Some(rank);
            }
        }
    }
    match winner {
        Some((_, at, id)) => {
            let spilled = winner != owner;
            Choice { spilled, ..Choice::of(at, id, reason) }
        }
        None => {
            let elsewhere = |(_, at, id)| (at, id) != (least.branch, least.id);
            Choice { spilled: owner.is_some_and(elsewhere), ..by_load }
        }
    }
}
