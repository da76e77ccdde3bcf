//! From a whole request to where it may go: the body is peeked at, the route found, the affinity keys made.

use std::borrow::Cow;
use std::sync::Arc;

use httparse::Header;
use sluicegate_core::{Ask, Decision, Session, Waiting, Weight};
use sluicegate_wire::{
    Dialect, Edits, Endpoint, IncludeUsage, Peek, PeekError, Span, Value, conversation_key, is_form, peek,
    peek_form, prefix_key, session_key, unescape,
};

use crate::blocks::Blocks;
use crate::keys::{Key, index_of};
use crate::plan::SessionSource;
use crate::record::Record;
use crate::refusal::{Refusal, repeated};
use crate::responses::Responses;
use crate::route::{Prompt, Route, Routes, Way};
use crate::targets::{Asked, Only, Spot, Target};

/// Most tokens that a request is expected to cost where keys take turns: no engine's context is longer, and whatever a
/// client states must not decide who is served next for ever.
const COST_MAX: u64 = 1 << 20;
/// Output tokens that are reserved for a request that states no maximum.
const OUTPUT_TOKENS: u64 = 1024;
/// Longest list of models in a refusal.
const HINT_MODELS: usize = 10;
/// Bytes of a model name that are read: longer than the name of any route, so what is cut off is unknown anyway.
const NAME_READ: usize = 4096;
/// Bytes of a session key in a body that are read.
const SESSION_READ: usize = 1024;
/// How a browser sends a form without files.
const URL_ENCODED: &[u8] = b"application/x-www-form-urlencoded";

/// Where a request goes and what it weighs.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) route: Arc<Route>,
    /// The model name as asked; None: the request names none.
    model: Option<Arc<str>>,
    /// Where what is edited stands in the body.
    peek: Option<Peek>,
    /// Streams of this request are asked for their usage, where the pool says so.
    wants_usage: bool,
    /// Estimated prompt tokens.
    pub(crate) tokens: u64,
    /// What it reserves of its key's limits.
    pub(crate) ask: Ask,
    pub(crate) session: Option<Session>,
    pub(crate) prefix: Option<u64>,
    blocks: Blocks,
    /// The only replica that knows the response that it is about or follows on.
    pub(crate) bound: Option<Bound>,
    /// What a decision service has answered about it.
    pub(crate) decision: Option<Decision>,
}

/// The only replica that can serve a request, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) way: Way,
    pub(crate) only: Only,
}

/// A request as one target is sent it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) target: Arc<Target>,
    /// The model name that the replica is asked for.
    pub(crate) upstream_model: Arc<str>,
    pub(crate) edits: Edits,
    /// The usage-only event that will come was asked for by the gateway, not by the client.
    pub(crate) hide_usage: bool,
}

/// What a request is looked up in.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) routes: &'a Routes,
    pub(crate) responses: &'a Responses,
}

impl Resolved {
    /// A request about a stored response of `route`: it has no prompt and generates nothing.
    pub(crate) fn stored(route: Arc<Route>, bound: Bound) -> Self {
        Self {
            model: None,
            peek: None,
            wants_usage: false,
            tokens: 0,
            ask: Ask::default(),
            session: None,
            prefix: None,
            blocks: Blocks::unhashed(0, true),
            bound: Some(bound),
            decision: None,
            route,
        }
    }

    /// What its choice depends on.
    pub(crate) fn asked<'a>(&'a self, tried: &'a [Spot]) -> Asked<'a> {
        Asked {
            model: self.route.model,
            weight: Weight::from_prompt_tokens(self.tokens),
            session: self.session,
            prefix: self.prefix,
            prompt: self.blocks.prompt(),
            tried,
            only: self.bound.map(|bound| bound.only),
            decision: self.decision.as_ref(),
        }
    }

    /// What was read of its body.
    pub(crate) fn peek(&self) -> Option<&Peek> {
        self.peek.as_ref()
    }

    /// The way that it goes first.
    pub(crate) fn way(&self) -> Way {
        self.bound.map_or(Way::Targets, |bound| bound.way)
    }

    /// The request as `target` is to be sent it.
    pub(crate) fn version_for(&self, target: &Arc<Target>) -> Version {
        let asked = self.model.as_ref().unwrap_or(&self.route.plan.model);
        let renamed = target.upstream_model.as_ref().filter(|model| *model != asked && self.model.is_some());
        let hide_usage = self.wants_usage && target.pool.plan().usage_injection;
        Version {
            target: Arc::clone(target),
            upstream_model: Arc::clone(renamed.unwrap_or(asked)),
            edits: self
                .peek
                .as_ref()
                .map_or_else(Edits::none, |peek| Edits::new(peek, renamed.map(|model| &**model), hide_usage)),
            hide_usage,
        }
    }

    /// What it waits under where it has to wait for a slot.
    pub(crate) fn waiting(&self, key: Option<&Key>) -> Waiting {
        Waiting {
            key: index_of(key),
            route: self.route.index,
            priority: key.map_or(0, |key| key.plan.priority),
            cost_tokens: self.ask.tokens.min(COST_MAX),
            limits: self.route.plan.queue,
        }
    }
}

/// Reads the body as far as the gateway has to and looks its route up.
pub(crate) fn resolve(
    Sources { routes, responses }: Sources<'_>,
    endpoint: Endpoint,
    headers: &[Header<'_>],
    body: &[u8],
    key: Option<&Key>,
    record: Option<&mut Record>,
) -> Result<Resolved, Refusal> {
    let names: smallvec::SmallVec<[&str; 8]> = routes.session_members().iter().map(|n| &**n).collect();
    let peek = read(endpoint, headers, body, &names)?;
    let model = model_name(body, &peek)?;
    let allowed = |route: &&Arc<Route>| key.is_none_or(|key| key.may_use(&route.plan.model));
    let route = routes.get(&model).filter(allowed);
    // Usually the route's own name, which is there already.
    let own = route.map(|route| &route.plan.model).filter(|own| ***own == *model);
    let model = own.map_or_else(|| (&*model).into(), Arc::clone);
    if let Some(record) = record {
        record.asked(&model);
        record.stream = peek.stream;
        record.prompt = Prompt::of(&peek);
        record.background = peek.background;
    }
    if peek.odd_stream {
        // What is read here must be what the engine does: a stream that is taken for none is neither asked for its
        // usage nor counted.
        return Err(Refusal::OddStream);
    }
    let Some(route) = route else { return Err(unknown_model(routes, &model, key)) };
    let bound = match &peek.previous_response_id {
        Some(span) if endpoint == Endpoint::Responses => {
            Some(responses.pin(&unescaped(body, span), key, route)?)
        }
        _ => None,
    };
    let salt = route.salt ^ key.map_or(0, |key| key.salt);
    let tokens = route.prompt_tokens(Prompt::of(&peek));
    let asks = matches!(&peek.stream_options, Some(o) if matches!(o.include_usage, IncludeUsage::True));
    let wants_usage =
        peek.stream && !asks && matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Completions);
    Ok(Resolved {
        model: Some(model),
        wants_usage,
        tokens,
        ask: ask(route, endpoint, tokens, &peek),
        session: session((routes, route), endpoint, salt, headers, body, &peek),
        prefix: match route.follows_prefixes {
            true => prefix_key(body, &peek, route.plan.prefix_chars, salt),
            false => None,
        },
        // A bound request brings what follows on a prompt, and not the prompt.
        blocks: blocks(route, body, &peek, tokens, bound.is_none() && generates(endpoint)),
        bound,
        decision: None,
        route: Arc::clone(route),
        peek: Some(peek),
    })
}

/// `whole`: the body has all of a prompt that an engine keeps.
fn blocks(route: &Route, body: &[u8], peek: &Peek, tokens: u64, whole: bool) -> Blocks {
    match whole && route.hashes_prompts() {
        true => Blocks::of(body, peek, route.cache_salt, tokens),
        false => Blocks::unhashed(tokens, !peek.stream),
    }
}

/// The dialect that errors take before the endpoint is known.
pub(crate) fn dialect_of(target: &str) -> Dialect {
    if target.contains("/messages") { Dialect::Anthropic } else { Dialect::OpenAi }
}

/// Reads the body as JSON, or as a form where the endpoint takes one.
fn read(endpoint: Endpoint, headers: &[Header<'_>], body: &[u8], names: &[&str]) -> Result<Peek, Refusal> {
    if body.is_empty() {
        return Err(Refusal::BadBody(PeekError::Syntax { what: "it is empty", at: 0 }));
    }
    let (mut kinds, mut multipart) = (0, None);
    for h in headers.iter().filter(|h| h.name.eq_ignore_ascii_case("content-type")) {
        kinds += 1;
        let is = |family: &[u8]| h.value.get(..family.len()).is_some_and(|s| s.eq_ignore_ascii_case(family));
        multipart = multipart.or(is(b"multipart/").then_some(h.value));
        if is(URL_ENCODED) && takes_forms(endpoint) {
            // A reader of forms could find another model in what is JSON here.
            return Err(Refusal::Unsupported(
                "forms are taken as multipart/form-data, not as application/x-www-form-urlencoded",
            ));
        }
    }
    let Some(kind) = multipart else {
        return peek(body, endpoint.shape(), names).map_err(Refusal::BadBody);
    };
    if kinds > 1 || !is_form(kind) || !takes_forms(endpoint) {
        return Err(Refusal::Unsupported(
            "multipart bodies are taken as one multipart/form-data on /v1/audio/* and /v1/images/*: send JSON",
        ));
    }
    peek_form(kind, body, names).map_err(Refusal::BadForm)
}

fn takes_forms(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::Audio | Endpoint::Images)
}

fn model_name<'b>(body: &'b [u8], peek: &Peek) -> Result<Cow<'b, str>, Refusal> {
    let text = |span: &Span, quotes: usize| {
        let value = body.get(span.start + quotes..span.end - quotes).unwrap_or_default();
        std::str::from_utf8(value.get(..NAME_READ).unwrap_or(value))
    };
    let name = match &peek.model {
        None if peek.form => return Err(Refusal::BadModel("is missing: the form needs a part of that name")),
        None => return Err(Refusal::BadModel("is missing")),
        Some(Value::Other { .. }) => return Err(Refusal::BadModel("must be a string")),
        Some(Value::Plain { span }) => {
            Cow::Borrowed(text(span, 0).map_err(|_| Refusal::BadModel("must be UTF-8"))?)
        }
        Some(Value::Text { span, escaped }) => {
            let plain = text(span, 1).ok().filter(|_| !escaped);
            plain.map_or_else(|| Cow::Owned(unescaped(body, span)), Cow::Borrowed)
        }
    };
    if name.trim().is_empty() {
        return Err(Refusal::BadModel("must not be blank"));
    }
    Ok(name)
}

fn unescaped(body: &[u8], span: &Span) -> String {
    let mut text = String::new();
    unescape(body, span, NAME_READ, &mut text);
    text
}

/// No such model for this key, or none for anybody yet.
pub(crate) fn unknown_model(routes: &Routes, asked: &str, key: Option<&Key>) -> Refusal {
    let may_use = |model: &&Arc<str>| key.is_none_or(|key| key.may_use(model));
    let models: Vec<_> = routes.models().iter().filter(may_use).collect();
    if routes.is_empty() {
        return Refusal::NoModels;
    }
    let mut hint = format!(
        " (available: {}",
        models.iter().take(HINT_MODELS).map(|m| &***m).collect::<Vec<_>>().join(", ")
    );
    hint.push_str(if models.len() > HINT_MODELS { ", ...)" } else { ")" });
    Refusal::UnknownModel { asked: repeated(asked), hint: hint.into() }
}

/// The estimate that token and money limits reserve: the prompt, and as much output as the request lets there be. That
/// is, of an endpoint that generates, its stated maximum (or else [`OUTPUT_TOKENS`]) for each answer that is made of each
/// prompt: `n` or `best_of` of them, whichever is more.
fn ask(route: &Route, endpoint: Endpoint, prompt: u64, peek: &Peek) -> Ask {
    let output = if generates(endpoint) {
        let answers = peek.n.max(peek.best_of).unwrap_or(1).max(1).saturating_mul(peek.prompts.max(1));
        let unlimited = peek.endless.then_some(OUTPUT_TOKENS);
        answers.saturating_mul(peek.max_tokens.max(unlimited).unwrap_or(OUTPUT_TOKENS))
    } else {
        0
    };
    Ask { tokens: prompt.saturating_add(output), cost: route.plan.price.cost(prompt, 0, output) }
}

/// Whether answers of this endpoint are generated token by token.
pub(crate) fn generates(endpoint: Endpoint) -> bool {
    use Endpoint::{ChatCompletions, Completions, Messages, Responses};
    matches!(endpoint, ChatCompletions | Completions | Messages | Responses)
}

/// The first source of the route's chain that gives a key.
fn session(
    (routes, route): (&Routes, &Route),
    endpoint: Endpoint,
    salt: u64,
    headers: &[Header<'_>],
    body: &[u8],
    peek: &Peek,
) -> Option<Session> {
    route.plan.session_keys.iter().find_map(|source| match source {
        SessionSource::Header(name) => headers
            .iter()
            .filter(|h| h.name.eq_ignore_ascii_case(name))
            .find_map(|h| session_key(h.value, salt))
            .map(Session::Explicit),
        SessionSource::BodyOfTalks(_) if !matches!(endpoint, Endpoint::Responses | Endpoint::Messages) => {
            None
        }
        SessionSource::Body(name) | SessionSource::BodyOfTalks(name) => {
            let wanted = routes.session_members().iter().position(|n| n == name)?;
            let (_, span) = peek.session.iter().find(|(i, _)| *i == wanted)?;
            let mut text = String::new();
            let value = if peek.form {
                let value = body.get(span.clone()).unwrap_or_default();
                value.get(..SESSION_READ).unwrap_or(value)
            } else {
                unescape(body, span, SESSION_READ, &mut text);
                text.as_bytes()
            };
            session_key(value, salt).map(Session::Explicit)
        }
        SessionSource::Conversation => {
            let hash = conversation_key(body, peek, route.plan.prefix_chars, salt)?;
            Some(Session::Conversation { hash, continued: peek.has_assistant_turn })
        }
    })
}
