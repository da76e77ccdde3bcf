//! The waiting requests, found by ticket, by line, by route and by deadline. Every operation takes time in the
//! logarithm of those waiting, times the number of lines where it must look at each; memory is linear in them.

use super::crowd::Crowd;
use super::fairness::{Flow, Flows};
use super::held::due;
use super::line::{LineId, tried};
use super::{Charge, FlowId, Line, QueueLimits, Rank, Ticket, Waiting};
use crate::ids::{ReplicaId, RouteIndex, Session, Weight};
use crate::modes::Mode;
use crate::pick::{PickRequest, Prompt, Reason};
use crate::time::Time;
use crate::window::Window;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What of the replicas has changed since places were last given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stir {
    #[default]
    Nothing,
    /// The load of one.
    One(ReplicaId),
    /// The health of one, which may matter to who can go to another; or several.
    All,
}

/// A waiting request, as far as its line does not know it.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) weight: Weight,
    pub(crate) waiting: Waiting,
    session: Option<Session>,
    prefix: Option<u64>,
    prompt: OwnedPrompt,
    /// What a grant is called that no pin has led.
    by_load: Reason,
    line: LineId,
    /// False for a retry.
    fresh: bool,
    pub(super) since: Time,
    /// Its place among those of its key.
    due: Time,
    hold: Option<Duration>,
}

/// A prompt that outlives the request's call.
#[derive(Debug)]
struct OwnedPrompt {
    tokens: u32,
    blocks: Box<[u64]>,
    block_tokens: u32,
    whole_answer: bool,
}

impl OwnedPrompt {
    fn of(prompt: &Prompt<'_>) -> Self {
        let Prompt { tokens, blocks, block_tokens, whole_answer } = *prompt;
        Self { tokens, blocks: blocks.into(), block_tokens, whole_answer }
    }

    fn prompt(&self) -> Prompt<'_> {
        let Self { tokens, blocks, block_tokens, whole_answer } = self;
        Prompt { tokens: *tokens, blocks, block_tokens: *block_tokens, whole_answer: *whole_answer }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) waiters: BTreeMap<Ticket, Waiter>,
    pub(super) lines: BTreeMap<LineId, Line>,
    pub(super) flows: Flows,
    pub(super) routes: BTreeMap<(RouteIndex, Reverse<i32>), Crowd>,
    pub(super) deadlines: BTreeSet<(Time, Ticket)>,
    /// Numbers tickets, turns and lines.
    serial: u64,
    /// Places given out, waited for or not.
    pace: Window<60>,
    pub(crate) tally: Tally,
}

/// What has happened, ever.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) grants: u64,
    pub(crate) refused: u64,
    pub(crate) timeouts: u64,
    pub(crate) denied: u64,
    pub(crate) left: u64,
    pub(crate) sent_on: u64,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            waiters: BTreeMap::new(),
            lines: BTreeMap::new(),
            flows: Flows::default(),
            routes: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            serial: 0,
            pace: Window::new(Duration::from_secs(1)),
            tally: Tally::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// As many requests of the route wait as may.
    pub(crate) fn is_full(&self, route: RouteIndex, limits: QueueLimits) -> bool {
        let of_route = (route, Reverse(i32::MAX))..=(route, Reverse(i32::MIN));
        let waiting: usize = self.routes.range(of_route).map(|(_, crowd)| crowd.tickets().len()).sum();
        waiting >= limits.max_length
    }

    /// Who gives way to a newcomer of a full route: in the lowest class in which somebody can, the newest request of the
    /// key with most. In the newcomer's own class only if that key has two more than the newcomer's would have.
    pub(crate) fn gives_way(&self, newcomer: &Waiting) -> Option<Ticket> {
        let Waiting { route, priority, key, .. } = *newcomer;
        if newcomer.limits.max_length == 0 {
            return None;
        }
        let not_above = (route, Reverse(priority))..=(route, Reverse(i32::MIN));
        let lowest = |((_, class), crowd): (&(_, Reverse<i32>), &Crowd)| {
            let (size, newest) = crowd.newest_of_most()?;
            let enough = class.0 < priority || size >= crowd.of(key) + 3;
            Some(enough.then_some(newest))
        };
        self.routes.range(not_above).rev().find_map(lowest)?
    }

    /// `prefill`: seconds that its prompt is expected to take, where that decides who of a key goes first; else 0.
    pub(crate) fn push(
        &mut self,
        now: Time,
        request: &PickRequest<'_>,
        waiting: Waiting,
        prefill: f64,
    ) -> Ticket {
        let ticket = Ticket(self.next_serial());
        let line = self.line_for(request, waiting.route);
        let fresh = request.tried.is_empty();
        // Where pins do not decide, whoever has waited takes the slot that comes free; by cost the last turn breaks ties.
        let pins = request.mode.takes_five_steps();
        let last_turn = pins || matches!(request.mode, Mode::Predictive);
        let waiter = Waiter {
            weight: request.weight,
            waiting,
            session: request.session.filter(|_| last_turn),
            prefix: request.prefix.filter(|_| pins),
            prompt: OwnedPrompt::of(&request.prompt),
            by_load: request.mode.by_load(),
            line,
            fresh,
            since: now,
            due: due(now, prefill),
            hold: request.hold,
        };
        let rank = if fresh {
            let id = waiter.flow();
            let flow = self.flows.activate(id, ticket.0);
            flow.waiting.insert((line, waiter.due, ticket));
            id.rank(flow)
        } else {
            waiter.retry_rank(ticket)
        };
        if let Some(line) = self.lines.get_mut(&line) {
            line.heads.insert(rank);
        }
        self.routes.entry(waiter.place()).or_default().insert(waiting.key, ticket, fresh);
        self.deadlines.insert((waiter.deadline(), ticket));
        self.waiters.insert(ticket, waiter);
        ticket
    }

    /// Takes one out, whatever for; `None`: it does not wait any more.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        let gone =
            if waiter.fresh { self.leave_flow(&waiter, ticket) } else { Some(waiter.retry_rank(ticket)) };
        if let Some(rank) = gone
            && let Some(line) = self.lines.get_mut(&waiter.line)
        {
            line.heads.remove(&rank);
            if line.heads.is_empty() {
                self.lines.remove(&waiter.line);
            }
        }
        let place = waiter.place();
        if let Some(crowd) = self.routes.get_mut(&place) {
            crowd.remove(waiter.waiting.key, ticket, waiter.fresh);
            if crowd.tickets().is_empty() {
                self.routes.remove(&place);
            }
        }
        self.deadlines.remove(&(waiter.deadline(), ticket));
        Some(waiter)
    }

    /// A place is given to the key: its estimate is charged.
    pub(crate) fn charge(&mut self, now: Time, id: FlowId, tokens: u64) -> Charge {
        self.pace.add(now);
        let turn = self.next_serial();
        self.flows.activate(id, turn);
        let others = self.lines.values().filter_map(|line| line.least(id.priority)).min();
        self.reranked(id, |flows| flows.serve(id, tokens, turn, others))
    }

    pub(crate) fn correct(&mut self, charge: Charge, tokens: u64) {
        self.reranked(charge.flow(), |flows| flows.correct(charge, tokens));
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = (LineId, &Line)> {
        self.lines.iter().map(|(id, line)| (*id, line))
    }

    /// The request that a line's rank stands for.
    /// The earliest due one of its key.
    pub(crate) fn at(&self, id: LineId, rank: Rank) -> Option<(Time, Ticket)> {
        if !rank.fresh {
            return Some((Time::ZERO, Ticket(rank.turn)));
        }
        let flow = FlowId { priority: rank.class.0, key: rank.key };
        self.flows.flows.get(&flow)?.first_in(id)
    }

    /// The waiting request, and what its choice is called that no pin has led.
    pub(crate) fn request<'a>(&'a self, line: &'a Line, ticket: Ticket) -> Option<(PickRequest<'a>, Reason)> {
        let waiter = self.waiters.get(&ticket)?;
        let (session, prefix, prompt) = (waiter.session, waiter.prefix, waiter.prompt.prompt());
        Some((PickRequest { session, prefix, prompt, ..line.request(waiter.weight) }, waiter.by_load))
    }

    /// The line that it waits in.
    pub(crate) fn line_of(&self, ticket: Ticket) -> Option<&Line> {
        self.lines.get(&self.waiters.get(&ticket)?.line)
    }

    pub(crate) fn of_line(&self, id: LineId) -> Vec<Ticket> {
        self.waiters.iter().filter(|(_, waiter)| waiter.line == id).map(|(ticket, _)| *ticket).collect()
    }

    /// One that has waited too long.
    pub(crate) fn overdue(&self, now: Time) -> Option<Ticket> {
        self.deadlines.first().filter(|(due, _)| *due <= now).map(|(_, ticket)| *ticket)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    /// When all that wait now will have been served, at the pace of the last minute.
    pub(crate) fn retry_after(&self, now: Time, limits: QueueLimits) -> Duration {
        let least = Duration::from_secs(1);
        let most = limits.max_wait.max(least);
        let waiting = u32::try_from(self.waiters.len()).unwrap_or(u32::MAX);
        match u32::try_from(self.pace.count(now)).unwrap_or(u32::MAX) {
            0 => most,
            places => (Duration::from_secs(60).saturating_mul(waiting) / places).clamp(least, most),
        }
    }

    /// The last number that was given out.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The line of requests that can go where this one can.
    fn line_for(&mut self, request: &PickRequest<'_>, route: RouteIndex) -> LineId {
        let tried = tried(request.tried);
        if let Some((id, _)) = self.lines.iter().find(|(_, line)| line.takes(request, &tried, route)) {
            return *id;
        }
        let id = LineId(self.next_serial());
        self.lines.insert(id, Line::new(request, tried, route));
        id
    }

    /// Takes the request out of its key's; the key's rank in the line if it was the last one there.
    fn leave_flow(&mut self, waiter: &Waiter, ticket: Ticket) -> Option<Rank> {
        let id = waiter.flow();
        let flow = self.flows.flows.get_mut(&id)?;
        flow.waiting.remove(&(waiter.line, waiter.due, ticket));
        flow.first_in(waiter.line).is_none().then(|| id.rank(flow))
    }

    /// Changes a key's counter, and its rank in the lines where it waits along.
    fn reranked<R>(&mut self, id: FlowId, change: impl FnOnce(&mut Flows) -> R) -> R {
        let lines = self.flows.flows.get(&id).map(Flow::lines).unwrap_or_default();
        let before = self.flows.flows.get(&id).map(|flow| id.rank(flow));
        let result = change(&mut self.flows);
        let after = self.flows.flows.get(&id).map(|flow| id.rank(flow));
        for line in lines {
            if let (Some(line), Some(before), Some(after)) = (self.lines.get_mut(&line), before, after) {
                line.heads.remove(&before);
                line.heads.insert(after);
            }
        }
        result
    }
}

impl Waiter {
    /// What there is to reserve.
    pub(crate) fn request(&self) -> PickRequest<'_> {
        let (weight, prompt) = (self.weight, self.prompt.prompt());
        PickRequest { weight, prompt, hold: self.hold, ..PickRequest::default() }
    }

    pub(crate) fn flow(&self) -> FlowId {
        FlowId { priority: self.waiting.priority, key: self.waiting.key }
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    pub(super) fn line(&self) -> LineId {
        self.line
    }

    pub(super) fn place(&self) -> (RouteIndex, Reverse<i32>) {
        (self.waiting.route, Reverse(self.waiting.priority))
    }

    fn deadline(&self) -> Time {
        self.since + self.waiting.limits.max_wait
    }

    pub(super) fn retry_rank(&self, ticket: Ticket) -> Rank {
        let class = Reverse(self.waiting.priority);
        Rank { class, fresh: false, counter: 0, turn: ticket.0, key: self.waiting.key }
    }
}

impl Line {
    /// What its requests have in common.
    pub(crate) fn request(&self, weight: Weight) -> PickRequest<'_> {
        let Self { model, only, tried, has_fallback, by_cost, held, .. } = self;
        PickRequest {
            mode: if *by_cost { Mode::Predictive } else { Mode::Adaptive },
            model: *model,
            weight,
            tried,
            only: *only,
            has_fallback: *has_fallback,
            hold: held.map(|held| held.hold),
            ..PickRequest::default()
        }
    }
}
