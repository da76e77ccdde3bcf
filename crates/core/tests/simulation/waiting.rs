//! The queue's part: who waits by the shadow's own count, and that no place and nobody is lost.

use crate::shadow::{Asked, Shadow};
use crate::world::World;
use sluicegate_core::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

/// Somebody who waits.
pub(crate) struct Waiter {
    ticket: Ticket,
    model: Option<ModelId>,
    weight: Weight,
    session: Option<Session>,
    prefix: Option<u64>,
    tried: Vec<ReplicaId>,
    waiting: Waiting,
    since: Time,
}

impl Waiter {
    fn asked(&self) -> Asked<'_> {
        let Self { model, weight, session, prefix, .. } = *self;
        Asked {
            request: PickRequest {
                model,
                weight,
                session,
                prefix,
                tried: &self.tried,
                ..PickRequest::default()
            },
            needs_slot: true,
        }
    }

    fn deadline(&self) -> Time {
        self.since + self.waiting.limits.max_wait
    }

    /// Must be served before the other one if both could have the place.
    fn precedes(&self, other: &Self) -> bool {
        let class = |one: &Self| (one.waiting.priority, !one.tried.is_empty());
        let same_key = self.waiting.key == other.waiting.key || !self.tried.is_empty();
        class(self) > class(other) || (class(self) == class(other) && same_key && self.ticket < other.ticket)
    }
}

impl Shadow {
    pub(crate) fn has_slot(&self, id: u32) -> bool {
        let replica = &self.replicas[&id];
        let waits = replica.engine.is_some_and(|(_, waiting)| waiting as usize > replica.unqueued);
        let taken = replica.foreign + self.inflight(id);
        replica.slots.is_none_or(|slots| taken < slots as usize && !waits)
    }

    /// Replicas that have a place for the request now.
    fn places(&self, request: &PickRequest<'_>) -> Vec<u32> {
        let limit = self.settings.health.probing_max_inflight as usize;
        let untried = self.untried(request);
        let of = |health: Health| untried.iter().copied().filter(move |id| self.health(*id) == health);
        if of(Health::Live).chain(of(Health::Probing)).next().is_none() {
            return of(Health::Ejected).filter(|id| self.has_slot(*id)).collect();
        }
        let probing = of(Health::Probing).filter(|id| self.inflight(*id) < limit);
        of(Health::Live).chain(probing).filter(|id| self.has_slot(*id)).collect()
    }

    fn untried(&self, request: &PickRequest<'_>) -> Vec<u32> {
        let ids = self.replicas.keys().copied();
        ids.filter(|id| self.serves(*id, request.model) && !request.tried.contains(&ReplicaId(*id))).collect()
    }

    fn has_hope(&self, request: &PickRequest<'_>) -> bool {
        self.untried(request).iter().any(|id| self.health(*id) != Health::Draining)
    }

    fn of_route(&self, route: RouteIndex) -> usize {
        self.queue.iter().filter(|waiter| waiter.waiting.route == route).count()
    }

    /// Who must give way to this one if its route is full: nobody of a higher class, no retry, of the lowest class the
    /// newest of a key that has most.
    fn gives_way(&self, newcomer: &Waiting) -> Option<Ticket> {
        let class = |waiter: &Waiter| waiter.waiting.priority;
        let mut fresh: Vec<&Waiter> = self
            .queue
            .iter()
            .filter(|waiter| waiter.waiting.route == newcomer.route && waiter.tried.is_empty())
            .collect();
        let lowest = fresh.iter().map(|waiter| class(waiter)).min()?;
        fresh.retain(|waiter| class(waiter) == lowest);
        let size = |key| fresh.iter().filter(|waiter| waiter.waiting.key == key).count();
        let newest = fresh.iter().max_by_key(|waiter| (size(waiter.waiting.key), waiter.ticket))?;
        let would_have = size(newcomer.key) + 1;
        let yields = match lowest.cmp(&newcomer.priority) {
            Ordering::Less => true,
            Ordering::Equal => size(newest.waiting.key) >= would_have + 2,
            Ordering::Greater => false,
        };
        (newcomer.limits.max_length > 0 && yields).then_some(newest.ticket)
    }

    fn take(&mut self, ticket: Ticket) -> Waiter {
        let index = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        self.queue.remove(index.expect("it waits"))
    }
}

impl World {
    pub(crate) fn admit(&mut self) {
        let tried: Vec<ReplicaId> = (0..self.random.below(5).saturating_sub(2))
            .map(|_| ReplicaId(self.random.below(4) as u32))
            .collect();
        let prefix = self.random.flip().then(|| self.random.below(3));
        let (model, weight) = (self.random.model(), self.random.weight());
        let session = self.random.session();
        let (blocks, whole_answer) = (self.random.blocks(), self.random.below(4) == 0);
        let prompt =
            Prompt { tokens: blocks.len() as u32 * 256, blocks: &blocks, block_tokens: 256, whole_answer };
        let request =
            PickRequest { model, weight, session, prefix, prompt, tried: &tried, ..PickRequest::default() };
        let waiting = Waiting {
            key: KeyIndex(self.random.below(4) as u32),
            route: RouteIndex(self.random.below(3) as u32),
            priority: self.random.below(3) as i32 - 1,
            cost_tokens: self.random.below(5000),
            limits: QueueLimits {
                max_length: [0, 2, 8][self.random.index(3)],
                max_wait: Duration::from_millis(self.random.below(60_000)),
            },
        };
        let slotted = self.shadow.replicas.values().any(|replica| replica.slots.is_some());
        let asked = Asked { request, needs_slot: slotted };
        let (places, hope) = (self.shadow.places(&request), self.shadow.has_hope(&request));
        let full = self.shadow.of_route(waiting.route) >= waiting.limits.max_length;
        let gives_way = self.shadow.gives_way(&waiting).filter(|_| full);
        let told = self.pool.explain(self.now, &request, Some(waiting)).outcome;
        let admission = self.pool.admit(self.now, &request, waiting);
        let waits = self.shadow.queue.len();
        match (&admission, told) {
            (Admission::Picked(p), told) => {
                let told = told.map(|chosen| (chosen.replica, chosen.reason, chosen.spilled));
                assert_eq!(told, Ok((p.replica, p.reason, p.spilled)));
            }
            (Admission::Queued(_), Err(NoPlace::Waits { ahead })) => {
                assert!(ahead <= waits, "{ahead} of {waits}")
            }
            (Admission::Full { retry_after }, told) => {
                assert_eq!(told, Err(NoPlace::Full { retry_after: *retry_after }));
            }
            (Admission::No(why), told) => assert_eq!(told, Err(NoPlace::NoReplica(*why))),
            (admission, told) => panic!("{admission:?}, but {told:?} was told"),
        }
        match admission {
            Admission::Picked(picked) => {
                self.shadow.check_pick(&asked, Ok((picked.replica, picked.reason)));
                self.opened(picked, &request);
            }
            Admission::No(why) if !slotted => self.shadow.check_pick(&asked, Err(why)),
            Admission::No(why) => assert!(!hope, "hopeless: {why}"),
            other => {
                assert!(slotted && places.is_empty() && hope, "waits though {places:?} have places");
                self.turned_away_or_queued(other, full && gives_way.is_none(), request, waiting);
                self.gives_way = gives_way;
            }
        }
    }

    fn turned_away_or_queued(
        &mut self,
        admission: Admission,
        full: bool,
        request: PickRequest<'_>,
        waiting: Waiting,
    ) {
        let PickRequest { model, weight, session, prefix, tried, .. } = request;
        match admission {
            Admission::Queued(ticket) => {
                assert!(!full, "one too many");
                let (tried, since) = (tried.to_vec(), self.now);
                self.shadow.queue.push(Waiter {
                    ticket,
                    model,
                    weight,
                    session,
                    prefix,
                    tried,
                    waiting,
                    since,
                });
            }
            Admission::Full { retry_after } => {
                assert!(full && retry_after >= Duration::from_secs(1), "{retry_after:?}");
            }
            other => panic!("neither waits nor was turned away: {other:?}"),
        }
    }

    pub(crate) fn leave(&mut self) {
        if let Some(index) = self.random.choose(self.shadow.queue.len()) {
            let ticket = self.shadow.queue.remove(index).ticket;
            assert!(self.pool.leave(ticket) && !self.pool.leave(ticket));
        }
    }

    pub(crate) fn granted(&mut self, ticket: Ticket, picked: Picked) {
        let waiter = self.shadow.take(ticket);
        let replica = picked.replica.0;
        self.shadow.check_pick(&waiter.asked(), Ok((picked.replica, picked.reason)));
        for other in self.shadow.queue.iter().filter(|other| other.precedes(&waiter)) {
            let could = self.shadow.places(&other.asked().request).contains(&replica);
            assert!(!could, "{ticket:?} overtook {:?} at {replica}", other.ticket);
        }
        self.opened(picked, &waiter.asked().request);
    }

    pub(crate) fn denied(&mut self, ticket: Ticket, why: Denial) {
        let waiter = self.shadow.take(ticket);
        match why {
            Denial::NoReplica(why) => {
                assert!(!self.shadow.has_hope(&waiter.asked().request), "not hopeless: {why}");
            }
            Denial::QueueFull { retry_after } => {
                assert_eq!(self.gives_way.take(), Some(ticket), "another should have given way");
                assert!(retry_after >= Duration::from_secs(1), "{retry_after:?}");
            }
            Denial::QueueTimeout { .. } => assert!(self.now >= waiter.deadline(), "too early"),
        }
    }

    /// Nobody is lost, and nobody waits for whom there is a place or can be none.
    pub(crate) fn check_queue(&self) {
        assert_eq!(self.gives_way, None, "it was not turned away");
        let mut depths: BTreeMap<(RouteIndex, i32), usize> = BTreeMap::new();
        for waiter in &self.shadow.queue {
            let asked = waiter.asked();
            assert_eq!(self.shadow.places(&asked.request), [], "{:?} waits", waiter.ticket);
            assert!(self.shadow.has_hope(&asked.request), "{:?} waits for nothing", waiter.ticket);
            let due = self.pool.next_deadline().expect("somebody waits");
            assert!(due <= waiter.deadline(), "the end of its wait would be missed");
            *depths.entry((waiter.waiting.route, waiter.waiting.priority)).or_default() += 1;
        }
        let seen = self.pool.queue(self.now);
        let counted = seen.waiting.iter().map(|depth| ((depth.route, depth.priority), depth.waiting));
        assert_eq!(counted.collect::<BTreeMap<_, _>>(), depths);
        let oldest = self.shadow.queue.first().map_or(Duration::ZERO, |first| self.now.since(first.since));
        assert_eq!(seen.oldest, oldest);
    }
}
