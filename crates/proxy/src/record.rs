//! One request's record: filled along its way, written as one usage line when it is dropped, whatever ended it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use std::time::Duration;

use sluicegate_core::{Micros, Price, Reason, Spent, Time};
use sluicegate_wire::{Endpoint, Usage};

use crate::attempt::Exchange;
use crate::clock;
use crate::gateway::Gateway;
use crate::keys::{Key, KeyHold};
use crate::pool::{Replica, Served};
use crate::rate_fields::RateFields;
use crate::refusal::Refusal;
use crate::resolve::{Resolved, generates};
use crate::route::{Prompt, Route};
use crate::targets::Target;
use crate::usage::{Outcome, UsageLine, UsageSource};

/// Most tokens that one request can be said to have used.
const TOKENS_MAX: u64 = 1 << 32;
/// Longest model name that reaches a usage line.
const MODEL_MAX: usize = 256;

/// Where an attempt went, and why.
#[derive(Clone)]
pub(crate) struct Chosen {
    pub(crate) target: Arc<Target>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) reason: Reason,
}

/// What is known of a request so far.
pub(crate) struct Record {
    gateway: Arc<Gateway>,
    pub(crate) start: Time,
    wall: SystemTime,
    pub(crate) request_id: Arc<str>,
    pub(crate) key: Option<Arc<Key>>,
    hold: Option<KeyHold>,
    /// The `x-ratelimit-*` fields of the answer.
    pub(crate) rate_fields: Option<Arc<RateFields>>,
    asked: Option<Arc<str>>,
    pub(crate) route: Option<Arc<Route>>,
    place: Option<Chosen>,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) stream: bool,
    pub(crate) status: Option<u16>,
    outcome: Outcome,
    error_type: Option<Cow<'static, str>>,
    spilled: bool,
    pub(crate) attempts: u32,
    /// A replica had the request until its time was over: it has used its prompt at least.
    pub(crate) worked: bool,
    queued: Option<Duration>,
    pub(crate) connect: Option<Duration>,
    /// When the request was complete: the TTFT clock starts.
    complete: Time,
    first_content: Option<Time>,
    bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) prompt: Prompt,
    /// Output tokens that the request lets there be, all answers together.
    output: u64,
    /// The answer is made without its client: leaving it ends nothing.
    pub(crate) background: bool,
    /// When the last attempt began.
    attempted: Option<Time>,
    usage: Option<Usage>,
    cost: Micros,
    source: UsageSource,
    finish_reason: Option<Box<str>>,
    pub(crate) events: Option<u64>,
}

impl Record {
    pub(crate) fn new(gateway: &Arc<Gateway>) -> Self {
        gateway.counters.open_requests.fetch_add(1, Ordering::Relaxed);
        let start = clock::now();
        Self {
            gateway: Arc::clone(gateway),
            start,
            wall: clock::wall(),
            request_id: Arc::default(),
            key: None,
            hold: None,
            rate_fields: None,
            asked: None,
            route: None,
            place: None,
            endpoint: None,
            stream: false,
            status: None,
            // What a request is that nobody ended: its task was cut by the end of a drain, or by a panic.
            outcome: Outcome::GatewayStopped,
            error_type: Some(Cow::Borrowed("gateway_stopped")),
            spilled: false,
            attempts: 0,
            worked: false,
            queued: None,
            connect: None,
            complete: start,
            first_content: None,
            bytes_in: 0,
            bytes_out: 0,
            prompt: Prompt::default(),
            output: 0,
            background: false,
            attempted: None,
            usage: None,
            cost: Micros::default(),
            source: UsageSource::None,
            finish_reason: None,
            events: None,
        }
    }

    /// The whole request has been read.
    pub(crate) fn body_read(&mut self, bytes: usize) {
        self.bytes_in = bytes as u64;
        self.complete = clock::now();
    }

    /// The model as asked, cut at a character boundary.
    pub(crate) fn asked(&mut self, model: &Arc<str>) {
        let head = model.get(..model.floor_char_boundary(MODEL_MAX)).unwrap_or_default();
        self.asked = Some(if head.len() < model.len() { head.into() } else { Arc::clone(model) });
    }

    /// Where it goes is known, and how much may come back.
    pub(crate) fn resolved(&mut self, resolved: &Resolved) {
        self.route = Some(Arc::clone(&resolved.route));
        self.output = resolved.ask.tokens.saturating_sub(resolved.tokens);
    }

    pub(crate) fn chosen(&mut self, place: Chosen, spilled: bool) {
        self.place = Some(place);
        self.spilled |= spilled;
        self.attempts += 1;
        self.attempted = Some(clock::now());
        self.connect = None;
    }

    /// Where the last attempt went.
    pub(crate) fn place(&self) -> Option<&Chosen> {
        self.place.as_ref()
    }

    /// The answer of an earlier attempt is shown after all.
    pub(crate) fn back_to(&mut self, place: Option<Chosen>) {
        self.place = place;
    }

    /// Name of the fallback target that answers, if it is one.
    pub(crate) fn fallback(&self) -> Option<&str> {
        self.place.as_ref()?.target.fallback.as_deref()
    }

    pub(crate) fn first_content(&mut self, now: Time) {
        self.first_content.get_or_insert(now);
    }

    pub(crate) fn finished(&mut self, reason: Option<&str>) {
        self.finish_reason = reason.map(Into::into);
    }

    /// Remembers where the response lives that this answer makes, as far as it has said so.
    pub(crate) fn note_response(&self, exchange: &Exchange) {
        if exchange.endpoint == Endpoint::Responses
            && exchange.status < 300
            && let Some(id) = exchange.answer.response_id()
            && let (Some(route), Some(at)) = (&self.route, &self.place)
        {
            self.gateway.responses.made(id, self.key.as_deref(), route, (&at.target, &at.replica));
        }
    }

    /// Refuses a request whose body is still on its way where its key's limits let none pass, whatever it asks for.
    pub(crate) fn refuse_unread(&mut self) -> Result<(), Refusal> {
        let Some(key) = self.limited() else { return Ok(()) };
        let Err(refusal) = key.used_up() else { return Ok(()) };
        self.rate_fields = key.rate_fields();
        Err(Refusal::Limit(refusal))
    }

    /// The key whose limits the request is under. The list of models has none.
    fn limited(&self) -> Option<&Arc<Key>> {
        self.key.as_ref().filter(|_| !matches!(self.endpoint, Some(Endpoint::Models | Endpoint::Model)))
    }

    /// A request that is refused before its key's limits are asked counts in the requests per minute, or else a key
    /// could send any number of them; where these are used up, that is the refusal.
    pub(crate) fn count_refused(&mut self, refusal: Refusal) -> Refusal {
        let asked = self.hold.is_some() || matches!(refusal, Refusal::Limit(_));
        let Some(key) = self.limited().filter(|_| !asked) else { return refusal };
        let counted = key.count_refused();
        self.rate_fields = key.rate_fields();
        counted.err().map_or(refusal, Refusal::Limit)
    }

    /// A request that no replica was found for, because the queue is full or none is there, has used up none of its
    /// key's limits.
    pub(crate) fn turned_away(&mut self, refusal: &Refusal) {
        let admitted =
            self.attempts > 0 || !matches!(refusal, Refusal::QueueFull { .. } | Refusal::NoReplica(_));
        if let (Some(hold), Some(key), false) = (&mut self.hold, &self.key, admitted) {
            hold.withdraw();
            self.rate_fields = key.rate_fields();
        }
    }

    /// Lets go of what only the answer's head needed: an open stream is to hold as little as it can.
    pub(crate) fn head_is_made(&mut self) {
        self.rate_fields = None;
    }

    /// The key's limits have let the request pass.
    pub(crate) fn reserved(&mut self, hold: KeyHold) {
        self.hold = Some(hold);
    }

    /// It waited for a slot.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.queued = Some(self.queued.unwrap_or_default() + time);
    }

    /// Counts the engine reported, else an estimate of the prompt; and `generated` tokens beyond those counts. None:
    /// nothing is known, and nothing was used. `whole`: the answer came to its end, so that counts of generated tokens
    /// are its last word; those of one that broke off say nothing of what came behind them. The key's reservation is
    /// settled with it.
    pub(crate) fn tokens(&mut self, reported: Option<Usage>, generated: Option<u64>, whole: bool) {
        // The tokens of a stored response were counted when it was made.
        let counts = !self.endpoint.is_some_and(Endpoint::is_stored_response);
        let (reported, generated) = (reported.filter(|_| counts), generated.filter(|_| counts));
        let generated = self.made_behind(reported, generated, whole);
        let prompt = self.route.as_ref().map_or(0, |r| r.prompt_tokens(self.prompt));
        let beyond = generated.unwrap_or(0);
        (self.usage, self.source) = match (reported.map(plausible), generated) {
            (Some(usage), _) if beyond == 0 || whole && usage.completion_tokens > 0 => {
                (Some(usage), UsageSource::Engine)
            }
            (Some(usage), _) => {
                let completion_tokens = usage.completion_tokens.saturating_add(beyond);
                (Some(Usage { completion_tokens, ..usage }), UsageSource::Estimated)
            }
            (None, Some(completion_tokens)) => {
                let usage = Usage {
                    prompt_tokens: prompt,
                    cached_tokens: None,
                    completion_tokens,
                    reasoning_tokens: None,
                };
                (Some(usage), UsageSource::Estimated)
            }
            (None, None) => (None, UsageSource::None),
        };
        if let (Some(route), Some(usage)) = (&self.route, self.usage) {
            let cached = usage.cached_tokens.unwrap_or(0).min(usage.prompt_tokens);
            self.cost = route.plan.price.cost(usage.prompt_tokens, cached, usage.completion_tokens);
            if let (Some(_), Some(text_bytes)) = (reported, self.prompt.text_alone()) {
                route.learn(text_bytes, usage.prompt_tokens);
            }
            if let (true, UsageSource::Engine, Some(time)) = (whole, self.source, self.since_sent()) {
                route.learn_rate(usage.completion_tokens, time);
            }
        }
        let spent = Spent { tokens: self.served(false).tokens, cost: self.cost };
        if let Some(hold) = &mut self.hold {
            hold.settle(spent);
        }
    }

    /// The tokens of a request that nothing was seen of. `worked`: a replica has had it, and may have worked on it.
    pub(crate) fn unanswered(&mut self, worked: bool) {
        self.tokens(None, worked.then(|| self.unseen()), false);
    }

    /// What may have been generated and was not seen: in a stream nothing.
    fn unseen(&self) -> u64 {
        match (&self.route, self.since_sent()) {
            (Some(route), Some(time)) if !self.stream && self.endpoint.is_some_and(generates) => {
                route.generated_in(time).min(self.output)
            }
            _ => 0,
        }
    }

    /// Of a background response that its engine has not counted: as much as it may become, since it goes on.
    fn made_behind(&self, reported: Option<Usage>, generated: Option<u64>, whole: bool) -> Option<u64> {
        if !self.background || whole && reported.is_some() {
            return generated;
        }
        let to_come = self.output.saturating_sub(reported.map_or(0, |usage| usage.completion_tokens));
        generated.map(|seen| seen.max(to_come))
    }

    /// How long the last attempt's replica has had the request.
    fn since_sent(&self) -> Option<Duration> {
        Some(clock::now().since(self.attempted? + self.connect?))
    }

    /// Tokens used, as far as known. `whole`: the answer came to its end.
    pub(crate) fn served(&self, whole: bool) -> Served {
        let answer = |u: Usage| u32::try_from(u.completion_tokens).ok();
        Served {
            tokens: self.usage.map_or(0, |u| u.prompt_tokens.saturating_add(u.completion_tokens)),
            generated: self.usage.filter(|_| whole).and_then(answer),
        }
    }

    pub(crate) fn ended(&mut self, outcome: Outcome, error_type: Option<Cow<'static, str>>) {
        self.outcome = outcome;
        self.error_type = error_type;
    }
}

/// Counts that an engine cannot mean are cut: sums of them must stay sums.
fn plausible(usage: Usage) -> Usage {
    let cut = |n: u64| n.min(TOKENS_MAX);
    Usage {
        prompt_tokens: cut(usage.prompt_tokens),
        cached_tokens: usage.cached_tokens.map(cut),
        completion_tokens: cut(usage.completion_tokens),
        reasoning_tokens: usage.reasoning_tokens.map(cut),
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let now = clock::now();
        let reason = self.place.as_ref().map(|at| at.reason);
        let affinity = match reason {
            Some(Reason::AffinitySession) => Some("session"),
            Some(Reason::AffinityPrefix) => Some("prefix"),
            _ => None,
        };
        let route = self.route.as_deref();
        let chosen = self.place.as_ref().map(|at| &at.target);
        // A route that has one target leads there, whether it came to an attempt or not.
        let target = chosen.or_else(|| route?.targets.only_target());
        // Without a name of its own a target is asked for by the name that the client used.
        let upstream_model = target.and_then(|t| t.upstream_model.as_deref().or(self.asked.as_deref()));
        self.gateway.sink.write(&UsageLine {
            request_id: &self.request_id,
            key: self.key.as_deref().map(|k| &*k.plan.name),
            project: self.key.as_deref().and_then(|k| k.plan.project.as_deref()),
            queued: self.queued,
            cost: route.filter(|r| r.plan.price != Price::default()).map(|_| self.cost),
            time: self.wall,
            model: self.asked.as_deref(),
            route: route.map(|r| &*r.plan.model),
            upstream_model,
            pool: target.map(|t| &**t.pool.name()),
            replica: self.place.as_ref().map(|at| &*at.replica.url.text),
            endpoint: self.endpoint.map(Endpoint::label),
            stream: self.stream,
            status: self.status,
            outcome: self.outcome,
            error_type: self.error_type.as_deref(),
            reason: reason.map(Reason::as_str),
            affinity,
            spilled: self.spilled,
            attempts: self.attempts,
            connect: self.connect,
            ttft: self.first_content.filter(|_| self.stream).map(|t| t.since(self.complete)),
            // Time stands still within a poll, and the wait may have ended in this one.
            total: now.since(self.start).max(self.queued.unwrap_or_default()),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            usage: self.usage,
            usage_source: self.source,
            finish_reason: self.finish_reason.as_deref(),
            events: self.events,
        });
        self.gateway.counters.open_requests.fetch_sub(1, Ordering::Relaxed);
    }
}
