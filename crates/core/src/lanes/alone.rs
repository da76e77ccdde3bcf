//! One pool alone: the way through the lanes where there is one.

use super::{Entry, Lane, Turns};
use crate::explain::Explanation;
use crate::ids::TargetIndex;
use crate::pick::{NoReplica, PickRequest, Picked};
use crate::pool::Pool;
use crate::queue::{Admission, Waiting};
use crate::time::Time;

const ONLY: &[TargetIndex] = &[TargetIndex(0)];

impl Pool {
    /// The five steps of choosing, and the reservation, as one. It knows neither slots nor who waits for one: see
    /// [`Pool::admit`]. Allocates nothing but for mode `policy`.
    ///
    /// # Errors
    /// [`NoReplica`] says why nobody can take the request now.
    pub fn pick(&mut self, now: Time, request: &PickRequest<'_>) -> Result<Picked, NoReplica> {
        let placed = self.alone(request, |turns, lanes| turns.pick(now, lanes, &mut None));
        placed.map(|placed| placed.picked)
    }

    /// Like [`Pool::pick`], but only among LIVE replicas with nothing waiting and, where slots are known, a free one:
    /// for the one retry that follows a 429.
    ///
    /// # Errors
    /// [`NoReplica::AllTried`] where no replica has room.
    pub fn pick_with_room(&mut self, now: Time, request: &PickRequest<'_>) -> Result<Picked, NoReplica> {
        let placed = self.alone(request, |turns, lanes| turns.pick_with_room(now, lanes, &mut None));
        placed.map(|placed| placed.picked)
    }

    /// Gives the request a place, or has it wait for one. Where no slots are known in the pool this is
    /// [`Pool::pick`] and nobody waits. Where they are, the five steps run over the candidates with a free slot (a
    /// replica whose slots are not known has one always). Where none has one the request waits, also for replicas
    /// that are STARTING; it does not wait for those that are DRAINING. Where all are EJECTED one with a free slot
    /// is the last resort, as ever.
    ///
    /// A retry (`tried` is not empty) that has to wait goes ahead of its class.
    ///
    /// Where as many of its route wait as may it is turned away, unless one of them gives way to it and is turned away
    /// in its place ([`Denial::QueueFull`](crate::Denial::QueueFull)): of the lowest class, and there of the key with
    /// most waiting requests, the newest. For a newcomer of a higher class always; for one of the same class only if
    /// that key then still has more than the newcomer's. Retries never give way. So no key fills a queue for the
    /// others, and nobody is turned away for one that is less urgent. It costs a logarithm of those waiting, times the
    /// number of classes.
    pub fn admit(&mut self, now: Time, request: &PickRequest<'_>, waiting: Waiting) -> Admission {
        match self.alone(request, |turns, lanes| turns.admit(now, lanes, &mut None, waiting)) {
            Entry::Placed(placed) => Admission::Picked(placed.picked),
            Entry::Queued(queued) => match queued.first() {
                Some(awaited) => Admission::Queued(awaited.ticket),
                None => Admission::No(NoReplica::NotReady),
            },
            Entry::Full { retry_after } => Admission::Full { retry_after },
            Entry::No(none) => Admission::No(none),
        }
    }

    /// What [`Pool::admit`] with `waiting`, or without it [`Pool::pick`], would do and why. Nothing is reserved.
    #[must_use]
    pub fn explain(&mut self, now: Time, request: &PickRequest<'_>, waiting: Option<Waiting>) -> Explanation {
        self.alone(request, |turns, lanes| turns.explain(now, lanes, waiting))
    }

    fn alone<R>(
        &mut self,
        request: &PickRequest<'_>,
        way: impl FnOnce(&mut Turns, &mut [Lane<'_, '_>]) -> R,
    ) -> R {
        way(&mut Turns::default(), &mut [Lane { pool: self, request: *request, targets: ONLY }])
    }
}
