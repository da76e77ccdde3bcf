//! The decision core as the data plane drives it: pools, the routes over them, leases, queues.

use super::routing::{Choosing, Home, PoolPart, Route, RoutePart};
use super::{Ask, AttemptEnd, Chosen, Decider, JobId, Order, Outcome, Report, Settings};
use sluicegate_core::{
    Awaited, Denial, Effect, Entry, Explanation, Lane, Lease, Origin, PickRequest, Picked, Pool,
    PoolSettings, Prompt, QueueLimits, ReplicaId, ReplicaSpec, Serves, Spell, TargetIndex, Ticket, Time,
    Transition, Turns, Verdict, Waiting, Weight,
};
use std::collections::HashMap;

/// Our own modes.
#[derive(Debug)]
pub struct Gateway {
    pools: Vec<Pool>,
    routes: Vec<Route>,
    /// Of each replica of the fleet: its pool, and its id there.
    homes: Vec<Home>,
    /// By pool and the replica's id there: its id in the fleet.
    members: Vec<Vec<ReplicaId>>,
    /// By request, with the pool; at most one of each is out.
    leases: HashMap<JobId, (usize, Lease)>,
    /// Of attempts whose verdict a replay is to speak.
    deferred: HashMap<JobId, Spell>,
    waiting: HashMap<(usize, Ticket), JobId>,
    /// Every place that a request waits in.
    places: HashMap<JobId, Vec<(usize, Ticket)>>,
    /// The target that a request of mode `weighted` is the share of, until it is answered well.
    aims: HashMap<JobId, TargetIndex>,
    /// Engine blocks in one block of prompt text, and tokens in one of these.
    blocks: (usize, u32),
    prompt_blocks: Vec<u64>,
    /// When it was called last.
    now: Time,
}

impl Gateway {
    /// One pool with one route, in front of the replicas of `settings`, each with so many slots where they are known,
    /// all known from the start.
    #[must_use]
    pub fn new(pool: PoolSettings, settings: &Settings, slots: Option<u32>, seed: u64) -> Self {
        let choosing = if pool.predict { Choosing::Predictive { hold: None } } else { Choosing::Adaptive };
        let pool = PoolPart { settings: pool, replicas: settings.replicas, slots, scraped: true };
        let route = RoutePart { choosing, targets: vec![0], fallback: None, queue: QueueLimits::default() };
        Self::of(vec![pool], vec![route], settings, seed)
    }

    /// Several pools, whose replicas are the fleet's in this order, and the routes over them.
    #[must_use]
    pub fn of(pools: Vec<PoolPart>, routes: Vec<RoutePart>, settings: &Settings, seed: u64) -> Self {
        let core =
            |(part, index): (&PoolPart, u64)| Pool::new(part.settings.clone(), seed.wrapping_add(index));
        let mut gateway = Self {
            pools: pools.iter().zip(0..).map(core).collect(),
            routes: routes.into_iter().map(Route::new).collect(),
            homes: Vec::new(),
            members: vec![Vec::new(); pools.len()],
            leases: HashMap::new(),
            deferred: HashMap::new(),
            waiting: HashMap::new(),
            places: HashMap::new(),
            aims: HashMap::new(),
            blocks: text_blocks(settings.block_tokens()),
            prompt_blocks: Vec::new(),
            now: Time::ZERO,
        };
        for (index, part) in pools.iter().enumerate() {
            for _ in 0..part.replicas {
                gateway.join(Time::ZERO, index, Origin::Startup, part.slots, part.scraped);
            }
        }
        gateway
    }

    /// One replica of the first pool more; it must be the one that [`Fleet::add_host`](super::Fleet::add_host) gave out
    /// last.
    pub fn add(&mut self, now: Time, origin: Origin, slots: Option<u32>) {
        self.join(now, 0, origin, slots, true);
    }

    fn join(&mut self, now: Time, pool: usize, origin: Origin, slots: Option<u32>, scraped: bool) {
        let name = format!("http://replica-{}:8000", self.homes.len());
        let (Some(core), Some(members)) = (self.pools.get_mut(pool), self.members.get_mut(pool)) else {
            return;
        };
        let id = core.add(now, ReplicaSpec { name, origin, scraped, slots, serves: Serves::All });
        members.push(ReplicaId(u32::try_from(self.homes.len()).unwrap_or(u32::MAX)));
        self.homes.push(Home { pool, id });
    }

    /// Sets the bounds of the queue for every route.
    #[must_use]
    pub fn with_queue(mut self, limits: QueueLimits) -> Self {
        self.routes.iter_mut().for_each(|route| route.queue = limits);
        self
    }

    /// Sets the mode of every route. Without it, [`Self::new`] takes `predictive` or `adaptive` as the pool's settings
    /// say.
    #[must_use]
    pub fn with_mode(mut self, choosing: &Choosing) -> Self {
        self.routes.iter_mut().for_each(|route| route.choosing = choosing.clone());
        self
    }

    /// What [`Decider::choose`] would choose and why, reserving nothing; its replicas have their pools' ids. `None`: the
    /// request's route is not there.
    #[must_use]
    pub fn explain(&mut self, now: Time, ask: &Ask<'_>) -> Option<Explanation> {
        self.with_lanes(ask, |turns, lanes| turns.explain(now, lanes, None))
    }

    /// The first pool's core.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pools[0]
    }

    /// Leases that are out and requests that wait: 0 and 0 where all have ended.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.leases.len(), self.places.len())
    }

    /// Runs `f` on the lanes of the request's route, or of its fallback. The one place where the core's request is made
    /// from a simulated one.
    fn with_lanes<R>(
        &mut self,
        ask: &Ask<'_>,
        f: impl FnOnce(&mut Turns, &mut [Lane<'_, '_>]) -> R,
    ) -> Option<R> {
        let job = ask.job;
        let (step, block_tokens) = self.blocks;
        // What is known of the prompt; not what lies in the answer.
        let known = (job.prompt_tokens / block_tokens) as usize;
        self.prompt_blocks.clear();
        self.prompt_blocks.extend(job.blocks.iter().skip(step - 1).step_by(step).take(known));
        let home = |id: &ReplicaId| self.homes.get(id.0 as usize).copied();
        let tried: Vec<Home> = ask.tried.iter().filter_map(home).collect();
        let (targets, of_route) = self.routes.get_mut(job.route.0 as usize)?.way(ask.fallback)?;
        let blocks = &self.prompt_blocks;
        let prompt = Prompt { tokens: job.prompt_tokens, blocks, block_tokens, whole_answer: !job.stream };
        let request = PickRequest {
            prompt,
            weight: Weight::from_prompt_tokens(u64::from(job.prompt_tokens)),
            session: job.session,
            prefix: job.prefix,
            ..of_route
        };
        Some(targets.enter(&mut self.pools, &request, &tried, f))
    }

    fn take(&mut self, id: JobId, pool: usize, picked: Picked) -> Option<(ReplicaId, &'static str)> {
        let replica = self.member(pool, picked.replica)?;
        self.leases.insert(id, (pool, picked.lease));
        Some((replica, picked.reason.as_str()))
    }

    fn member(&self, pool: usize, id: ReplicaId) -> Option<ReplicaId> {
        self.members.get(pool)?.get(id.0 as usize).copied()
    }

    /// The request waits nowhere any more.
    fn leave_all(&mut self, id: JobId) {
        for (pool, ticket) in self.places.remove(&id).unwrap_or_default() {
            self.waiting.remove(&(pool, ticket));
            if let Some(pool) = self.pools.get_mut(pool) {
                pool.leave(ticket);
            }
        }
    }

    /// The order that an effect of a pool makes, if it makes one.
    fn order(&mut self, pool: usize, effect: Effect) -> Option<Order> {
        match effect {
            Effect::Scrape(replica) => self.member(pool, replica).map(Order::Scrape),
            Effect::Canary(replica) => self.member(pool, replica).map(Order::Canary),
            Effect::AbortUnanswered(replica) => self.member(pool, replica).map(Order::AbortUnanswered),
            Effect::Transition(transition) => {
                let replica = self.member(pool, transition.replica)?;
                Some(Order::Note(Transition { replica, ..transition }))
            }
            Effect::MetricsChanged { .. } | Effect::Removed(_) => None,
            Effect::Granted { ticket, picked } => self.granted(pool, ticket, picked),
            Effect::Denied { ticket, why } => self.denied(pool, ticket, why),
        }
    }

    fn granted(&mut self, pool: usize, ticket: Ticket, picked: Picked) -> Option<Order> {
        let Some(job) = self.waiting.remove(&(pool, ticket)) else {
            // It has got a place elsewhere in the same moment: the slot goes to the next.
            let mut lease = picked.lease;
            let core = self.pools.get_mut(pool)?;
            core.served(&mut lease, 0);
            core.release(self.now, lease, Verdict::Neutral, None);
            return None;
        };
        self.leave_all(job);
        let (replica, reason) = self.take(job, pool, picked)?;
        Some(Order::Send { job, replica, reason })
    }

    fn denied(&mut self, pool: usize, ticket: Ticket, why: Denial) -> Option<Order> {
        let job = self.waiting.remove(&(pool, ticket))?;
        let places = self.places.get_mut(&job)?;
        places.retain(|place| *place != (pool, ticket));
        if !places.is_empty() {
            // Another pool may still have a slot.
            return None;
        }
        self.places.remove(&job);
        let outcome = match why {
            Denial::NoReplica(_) => Outcome::NoReplica,
            Denial::QueueFull { .. } | Denial::QueueTimeout { .. } => Outcome::RejectedQueue,
        };
        Some(Order::Deny { job, outcome })
    }
}

/// The gateway cuts prompts into pieces of some 256 tokens, or of one engine block where that is larger.
fn text_blocks(engine: u32) -> (usize, u32) {
    let step = (256 / engine.max(1)).max(1);
    (step as usize, step * engine.max(1))
}

impl Decider for Gateway {
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen {
        self.now = now;
        let mut aim = self.aims.get(&ask.id).copied();
        let job = ask.job;
        let limits = self.routes.get(job.route.0 as usize).map(|route| route.queue).unwrap_or_default();
        let waiting = Waiting {
            key: job.key,
            route: job.route,
            priority: job.priority,
            cost_tokens: u64::from(job.prompt_tokens),
            limits,
        };
        let entry = self.with_lanes(ask, |turns, lanes| match ask.with_room {
            true => turns.pick_with_room(now, lanes, &mut aim).map_or_else(Entry::No, Entry::Placed),
            false => turns.admit(now, lanes, &mut aim, waiting),
        });
        if let Some(aim) = aim {
            self.aims.insert(ask.id, aim);
        }
        let route = self.routes.get(job.route.0 as usize);
        let pool_of = |lane| route.and_then(|route| route.pool_of(lane, ask.fallback));
        match entry {
            Some(Entry::Placed(placed)) => {
                let taken = pool_of(placed.lane).and_then(|pool| self.take(ask.id, pool, placed.picked));
                taken.map_or(Chosen::Refused(Outcome::NoReplica), |(replica, reason)| Chosen::Replica {
                    replica,
                    reason,
                })
            }
            Some(Entry::Queued(queued)) => {
                let place = |place: &Awaited| Some((pool_of(place.lane)?, place.ticket));
                let places: Vec<_> = queued.iter().filter_map(place).collect();
                self.waiting.extend(places.iter().map(|place| (*place, ask.id)));
                self.places.insert(ask.id, places);
                Chosen::Waits
            }
            Some(Entry::Full { .. }) => Chosen::Refused(Outcome::RejectedQueue),
            Some(Entry::No(_)) | None => Chosen::Refused(Outcome::NoReplica),
        }
    }

    fn left(&mut self, now: Time, job: JobId) {
        self.now = now;
        self.leave_all(job);
    }

    fn first_byte(&mut self, now: Time, job: JobId) {
        self.now = now;
        if let Some((pool, lease)) = self.leases.get_mut(&job)
            && let Some(pool) = self.pools.get_mut(*pool)
        {
            pool.answered(now, lease);
        }
    }

    fn ended(&mut self, now: Time, job: JobId, end: AttemptEnd) {
        self.now = now;
        if end.verdict == Verdict::Success {
            self.aims.remove(&job);
        }
        let Some((pool, mut lease)) = self.leases.remove(&job) else { return };
        let Some(pool) = self.pools.get_mut(pool) else { return };
        if let Some(tokens) = end.served {
            pool.served(&mut lease, tokens);
        }
        if let Some(tokens) = end.generated {
            pool.generated(tokens);
        }
        if end.verdict == Verdict::Deferred {
            self.deferred.insert(job, lease.spell());
        }
        pool.release(now, lease, end.verdict, end.last_byte);
    }

    fn report(&mut self, now: Time, report: Report) {
        self.now = now;
        let replica = match &report {
            Report::Scraped { replica, .. }
            | Report::Canary { replica, .. }
            | Report::Booked { replica, .. } => *replica,
        };
        let Some(Home { pool, id }) = self.homes.get(replica.0 as usize).copied() else { return };
        let Some(pool) = self.pools.get_mut(pool) else { return };
        match report {
            Report::Scraped { scrape, last_byte, .. } => pool.scraped(now, id, scrape, last_byte),
            Report::Canary { answered, .. } => pool.canary(now, id, answered),
            Report::Booked { job, verdict, last_byte, .. } => {
                if let Some(spell) = self.deferred.remove(&job) {
                    pool.book(now, spell, verdict, last_byte);
                }
            }
        }
    }

    fn tick(&mut self, now: Time) {
        self.now = now;
        self.pools.iter_mut().for_each(|pool| pool.tick(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.pools.iter().filter_map(Pool::next_deadline).min()
    }

    fn poll(&mut self) -> Option<Order> {
        let mut pool = 0;
        while let Some(core) = self.pools.get_mut(pool) {
            match core.poll_effect() {
                None => pool += 1,
                Some(effect) => {
                    if let Some(order) = self.order(pool, effect) {
                        return Some(order);
                    }
                    // It may have moved something in an earlier pool.
                    pool = 0;
                }
            }
        }
        None
    }
}
