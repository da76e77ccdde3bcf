//! What would be done with a request now, without doing it.

use std::sync::Arc;

use httparse::Header;
use sluicegate_core::{Explanation, KeyIndex, Session};
use sluicegate_wire::{Endpoint, endpoint};

use crate::buffers::Body;
use crate::coding::{self, Codings};
use crate::decide::{self, Abstention, Depth, Question};
use crate::gateway::{Gateway, TargetName};
use crate::keys::Key;
use crate::refusal::Refusal;
use crate::resolve::{Resolved, Sources, resolve};

/// What would be done with a request now.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Public model name of the route.
    pub route: Arc<str>,
    /// What would be done at its targets, and, where it has one, at its fallback after them. At least one.
    pub ways: Vec<ExplainedWay>,
    /// What a decision service is asked about it, where it is, and what is known of the answer.
    pub decision: Option<ExplainedDecision>,
    /// Hash of the session key, if one was found.
    pub session: Option<u64>,
    /// Hash of the prefix key, if there is a system prompt and the route follows prefixes.
    pub prefix: Option<u64>,
    /// Estimated prompt tokens.
    pub estimated_prompt_tokens: u64,
}

/// A choice among some of a route's targets.
#[derive(Debug, Clone)]
pub struct ExplainedWay {
    /// The targets, as the explanation numbers them.
    pub targets: Vec<TargetName>,
    /// The choice, the candidates and the numbers seen.
    pub explanation: Explanation,
}

/// A question to a decision service and its answer.
#[derive(Debug, Clone)]
pub struct ExplainedDecision {
    /// The models that it is asked about.
    pub models: Vec<Arc<str>>,
    /// The probability of each, or why there is no answer.
    pub answer: Result<Vec<f64>, Abstention>,
    /// How sure the service is, stated or computed; 0 without an answer.
    pub confidence: f64,
}

/// A request as it would be sent.
#[derive(Debug, Clone, Copy)]
pub struct ToExplain<'a> {
    /// Of HTTP.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Names and values.
    pub headers: &'a [(String, String)],
    /// The body as it is sent.
    pub body: &'a [u8],
    /// Who sends it.
    pub key: Option<&'a Key>,
    /// How far a decision service is asked about it.
    pub depth: Depth,
}

impl Gateway {
    /// What the gateway would do with this request now. Nothing is reserved, nothing recorded. Without a key every route may
    /// be used; where there are keys, no pin is found then, as each belongs to some key's project.
    ///
    /// # Errors
    /// The refusal that the request would get before a replica is chosen, its key's limits and a suspicion of poison apart.
    pub async fn explain(&self, asked: ToExplain<'_>) -> Result<Explained, Refusal> {
        let (endpoint, mut resolved, question) = self.read(asked)?;
        let decision = match question {
            Some(question) => Some(self.decide(&mut resolved, question, asked.depth).await),
            None => None,
        };
        let mut waiting = resolved.waiting(asked.key);
        if asked.key.is_none() && !self.keys().is_empty() {
            // Whoever asks is none of those who wait.
            waiting.key = KeyIndex(u32::MAX);
        }
        let waiting = (!endpoint.is_stored_response()).then_some(waiting);
        let route = &resolved.route;
        let ways = route.ways().filter(|(way, _)| resolved.bound.is_none_or(|bound| bound.way == *way));
        let ways = ways.map(|(_, targets)| ExplainedWay {
            targets: targets.all().iter().map(|target| target.name()).collect(),
            explanation: targets.explain(&resolved.asked(&[]), waiting),
        });
        Ok(Explained {
            route: route.plan.model.clone(),
            ways: ways.collect(),
            decision,
            session: resolved.session.map(|s| match s {
                Session::Explicit(hash) | Session::Conversation { hash, .. } => hash,
            }),
            prefix: resolved.prefix,
            estimated_prompt_tokens: resolved.tokens,
        })
    }

    fn read(&self, asked: ToExplain<'_>) -> Result<(Endpoint, Resolved, Option<Question>), Refusal> {
        let ToExplain { method, target, headers, body, key, .. } = asked;
        let (endpoint, path) = endpoint(method, target).map_err(|e| Refusal::at_path(e, target))?;
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        let codings = Codings::of(&headers)?;
        let decoded = match codings.is_empty() {
            true => Body::default(),
            false => coding::decode_now(&codings, body, self.plan.listen.max_body)?,
        };
        let body = if codings.is_empty() { body } else { &decoded };
        let routes = self.routes.load();
        let resolved = if endpoint.is_stored_response() {
            self.responses.resolve(&routes, &path, key)?
        } else {
            let sources = Sources { routes: &routes, responses: &self.responses };
            resolve(sources, endpoint, &headers, body, key, None)?
        };
        let question = decide::question(&resolved, endpoint, body);
        Ok((endpoint, resolved, question))
    }

    async fn decide(&self, resolved: &mut Resolved, question: Question, depth: Depth) -> ExplainedDecision {
        let criteria = question.criteria.clone();
        let models = criteria.iter().map(|criterion| Arc::clone(&criterion.model)).collect();
        let answer = self.decisions.ask(question, depth).await.unwrap_or(Err(Abstention::Unreachable));
        let decision = answer.as_ref().ok().map(|says| decide::decision(&resolved.route, &criteria, says));
        let confidence = decision.as_ref().map_or(0.0, sluicegate_core::Decision::confidence);
        resolved.decision = decision;
        ExplainedDecision { models, answer: answer.map(|says| says.probabilities.clone()), confidence }
    }
}
