//! Asks a decision service which model a request deserves, before a replica is chosen: mode `policy`. Who asks it over the
//! network is elsewhere, as nothing slow runs on a data-plane thread; here a request waits for the answer, for as long as
//! its client does.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use sluicegate_core::{Decision, Time};
use sluicegate_wire::{Endpoint, conversation_state};
use tokio::sync::oneshot;

use crate::attempt::NoAnswer;
use crate::client::Client;
use crate::clock;
use crate::gateway::Gateway;
use crate::refusal::Refusal;
use crate::resolve::Resolved;
use crate::route::Route;

/// Asks decision services. Called on data-plane threads: must not block.
pub trait Decisions: Send + Sync {
    /// Begins with a question. It goes on where the receiver is dropped; a dropped sender is an answer that does not come.
    fn ask(&self, question: Question, depth: Depth) -> Answers;
}

/// Where the answer to one question arrives.
pub type Answers = oneshot::Receiver<Result<Arc<Says>, Abstention>>;

/// How far one goes for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The service is asked.
    Service,
    /// Only an answer that is known already counts, and nobody is asked.
    Known,
}

/// What is asked about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The service's number, as the plan has it.
    pub service: usize,
    /// The request's text.
    pub state: String,
    /// The models, each once, in the order of the route's targets; two at least.
    pub criteria: Vec<Criterion>,
}

/// One of the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// Its name.
    pub model: Arc<str>,
    /// What it is good at.
    pub text: Option<Arc<str>>,
}

/// What the service says about one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Says {
    /// Of each model that was asked about, in that order.
    pub probabilities: Vec<f64>,
    /// How sure it is, 0 to 1; None: to be computed.
    pub confidence: Option<f64>,
}

/// Why there is no answer. The policy abstains then, and the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abstention {
    /// Nobody was asked, and no answer is known.
    NotAsked,
    /// As many questions are open as may.
    Busy,
    /// It did not answer in time.
    Timeout,
    /// There was no connection, or it broke.
    Unreachable,
    /// It refused every token.
    Refused,
    /// Another status than 200.
    Status,
    /// The answer is none to the question.
    Malformed,
    /// The answer is longer than any needs to be.
    TooLarge,
}

impl Abstention {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::NotAsked,
        Self::Busy,
        Self::Timeout,
        Self::Unreachable,
        Self::Refused,
        Self::Status,
        Self::Malformed,
        Self::TooLarge,
    ];

    /// The name in metrics and explanations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
        }
    }
}

/// What is to be asked about a request: nothing where its route has no service, where it is no talk, where only one
/// replica can serve it, or where there are not two models to choose from.
pub(crate) fn question(resolved: &Resolved, endpoint: Endpoint, body: &[u8]) -> Option<Question> {
    let plan = resolved.route.plan.decision?;
    if !is_talk(endpoint) || resolved.bound.is_some() {
        return None;
    }
    let criteria = criteria(&resolved.route);
    if criteria.len() < 2 {
        return None;
    }
    let state = conversation_state(body, resolved.peek()?, endpoint.shape(), plan.max_state_bytes);
    (!state.is_empty()).then_some(Question { service: plan.service, state, criteria })
}

/// Whether requests to this endpoint are conversations.
fn is_talk(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Responses | Endpoint::Messages)
}

/// The models of the candidates, each once.
fn criteria(route: &Route) -> Vec<Criterion> {
    let candidates = route.targets.with_candidates();
    let mut criteria: Vec<Criterion> = Vec::new();
    for (plan, _) in route.plan.targets.iter().zip(candidates).filter(|(_, candidate)| *candidate) {
        let model = plan.upstream_model.as_ref().unwrap_or(&route.plan.model);
        match criteria.iter_mut().find(|known| known.model == *model) {
            Some(known) => known.text = known.text.take().or_else(|| plan.description.clone()),
            None => criteria.push(Criterion { model: Arc::clone(model), text: plan.description.clone() }),
        }
    }
    criteria
}

/// The answer as the core takes it: by target.
pub(crate) fn decision(route: &Route, criteria: &[Criterion], says: &Says) -> Decision {
    let of = |model: &Arc<str>| {
        let at = criteria.iter().position(|criterion| criterion.model == *model);
        at.and_then(|at| says.probabilities.get(at)).copied().unwrap_or(0.0)
    };
    let models = route.plan.targets.iter().map(|plan| plan.upstream_model.as_ref());
    let probabilities = models.map(|model| of(model.unwrap_or(&route.plan.model))).collect();
    Decision::new(probabilities, says.confidence, criteria.len())
}

/// Asks about a request. None: the policy abstains.
pub(crate) async fn ask(
    gateway: &Gateway,
    client: &mut Client,
    route: &Route,
    question: Question,
    deadline: Time,
) -> Result<Option<Decision>, NoAnswer> {
    let criteria = question.criteria.clone();
    let mut answers = gateway.decisions.ask(question, Depth::Service);
    client.timer.set(Some(deadline));
    let answer = poll_fn(|cx| match Pin::new(&mut answers).poll(cx) {
        _ if client.is_stopping() => Poll::Ready(Err(Refusal::GatewayStopped.into())),
        Poll::Ready(answer) => Poll::Ready(Ok(answer)),
        Poll::Pending if client.poll_gone(cx) => Poll::Ready(Err(NoAnswer::ClientGone { queued: false })),
        Poll::Pending if clock::now() >= deadline => Poll::Ready(Err(Refusal::Timeout.into())),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    let says = answer.ok().and_then(Result::ok);
    Ok(says.map(|says| decision(route, &criteria, &says)))
}
