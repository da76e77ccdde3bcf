//! A reserved place at a replica.

use crate::ids::{ReplicaId, Weight};
use crate::load::ScrapeCount;
use crate::pins::PinKey;
use crate::predict::Sent;
use crate::queue::Charge;
use crate::time::Time;

/// A reserved place at a replica. Neither `Copy` nor `Clone`: given back exactly once, through
/// [`Pool::release`](crate::Pool::release). A lease that is dropped instead stays counted for ever.
#[must_use]
#[derive(Debug, PartialEq)]
pub struct Lease {
    pub(crate) replica: ReplicaId,
    pub(crate) weight: Weight,
    pub(crate) sent_at: Time,
    pub(crate) sent_after: ScrapeCount,
    /// Its first byte has come.
    pub(crate) answered: bool,
    /// The replica's spell of service at the pick.
    pub(crate) era: u32,
    pub(crate) holds: Holds,
    /// Its entry in the replica's ledger of prefill, where there is one.
    pub(crate) sent: Option<Sent>,
    /// What its key was charged, where requests may have to wait, until the truth is known.
    pub(crate) charge: Option<Charge>,
}

impl Lease {
    /// Where the place is.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// The spell of service that the request was sent in.
    #[must_use]
    pub fn spell(&self) -> Spell {
        Spell { replica: self.replica, era: self.era }
    }
}

/// One spell of a replica's service. What began in it is no evidence about a later one: the process may be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    pub(crate) replica: ReplicaId,
    pub(crate) era: u32,
}

impl Spell {
    /// Whose.
    #[must_use]
    pub fn replica(self) -> ReplicaId {
        self.replica
    }
}

/// What the first answer byte does to the pins of the request's session and prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) session: Option<Hold>,
    pub(crate) prefix: Option<Hold>,
}

/// One pin and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) key: PinKey,
    pub(crate) on_answer: OnAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnAnswer {
    /// Made if there is none then.
    Make,
    /// Renewed if it still points to where the request went; made if there is none.
    Renew,
    /// Bound to where the request went, whatever it pointed to.
    Move,
}
