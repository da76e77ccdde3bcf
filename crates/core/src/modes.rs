//! How a route's requests find their replica. The mode follows from the configuration, never from live health.

mod policy;
mod predictive;
mod round_robin;
mod weighted;

use crate::choose::{Branch, Scope};
use crate::health::Health;
use crate::pick::Reason;
use crate::policies::{Decision, Policies};
pub(crate) use policy::{by_policies, parts};
pub(crate) use predictive::{by_cost, question};
pub(crate) use round_robin::round_robin;
pub(crate) use weighted::Credits;
pub use weighted::Shares;

/// How one of the candidates is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub enum Mode<'a> {
    /// The five steps over all replicas of all targets.
    #[default]
    Adaptive,
    /// The target by its share of the requests, then the five steps inside it.
    Weighted(&'a Shares),
    /// One LIVE replica after the other.
    RoundRobin,
    /// The lowest predicted cost. Needs [`PoolSettings::predict`](crate::PoolSettings::predict).
    Predictive,
    /// The largest total of weighted scores.
    Policy(Scoring<'a>),
}

/// What mode `policy` goes by.
#[derive(Clone, Copy, Debug)]
pub struct Scoring<'a> {
    /// The policies of the route.
    pub policies: &'a Policies,
    /// What a decision service has answered about this request; `None`: it was not asked, or has failed.
    pub decision: Option<&'a Decision>,
}

impl Mode<'_> {
    /// What a choice is called that no pin has led.
    pub(crate) fn by_load(self) -> Reason {
        match self {
            Self::Adaptive => Reason::Load,
            Self::Weighted(_) => Reason::Weighted,
            Self::RoundRobin => Reason::RoundRobin,
            Self::Predictive => Reason::Predicted,
            Self::Policy(_) => Reason::Policy,
        }
    }

    /// Loads and pins decide.
    pub(crate) fn takes_five_steps(self) -> bool {
        matches!(self, Self::Adaptive | Self::Weighted(_))
    }
}

/// The candidates of the modes that do not look at queues: LIVE replicas, or without any PROBING ones that may take
/// one more; each as branch and index.
fn candidates<'f>(
    field: &'f [Branch<'_>],
    scope: Scope,
) -> impl Iterator<Item = (usize, &'f Branch<'f>, usize)> {
    let live = in_health(field, scope, Health::Live).next().is_some();
    let health = if live { Health::Live } else { Health::Probing };
    in_health(field, scope, health)
}

fn in_health<'f>(
    field: &'f [Branch<'_>],
    scope: Scope,
    health: Health,
) -> impl Iterator<Item = (usize, &'f Branch<'f>, usize)> {
    field.iter().enumerate().flat_map(move |(at, branch)| {
        let fit = move |index: &usize| {
            let Some(row) = branch.view.board.get(*index) else { return false };
            let room = match scope {
                Scope::WithRoom => health == Health::Live && row.waiting == 0,
                Scope::Anywhere | Scope::WithSlot => health == Health::Live || branch.probing_has_room(row),
            };
            row.health == health && room && scope.covers(row) && branch.asked(*index)
        };
        (0..branch.view.board.len()).filter(fit).map(move |index| (at, branch, index))
    })
}
