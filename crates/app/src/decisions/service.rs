//! One decision service: what it has said lately, what it is being asked, and what that came to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use moka::future::Cache;
use sha2::{Digest as _, Sha256};
use sluicegate_proxy::{Abstention, Depth, Question, Says};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::call::Caller;
use super::counts::{Counts, DecisionsView, From};
use super::systemone;
use crate::config::DecisionServicePlan;

/// Answers that are kept at most.
const MOST_ANSWERS: u64 = 10_000;
/// Questions that are open at the same time: each holds its text. A further one is not asked.
const MOST_QUESTIONS: usize = 256;

/// What tells questions apart. Of a conversation nothing else is kept.
type Asked = [u8; 32];

/// One service.
pub(super) struct Service {
    plan: DecisionServicePlan,
    caller: Caller,
    /// Asks once for all who want to know the same at the same time.
    known: Cache<Asked, Arc<Says>>,
    open: Semaphore,
    counts: Counts,
    /// The last question was not answered: the log is told of changes alone.
    failing: AtomicBool,
}

impl Service {
    pub(super) fn new(plan: DecisionServicePlan) -> Self {
        let known = Cache::builder().max_capacity(MOST_ANSWERS).time_to_live(plan.cache_ttl).build();
        Self {
            caller: Caller::new(&plan),
            known,
            open: Semaphore::new(MOST_QUESTIONS),
            counts: Counts::default(),
            failing: AtomicBool::new(false),
            plan,
        }
    }

    /// The answer to a question, from wherever it is had.
    pub(super) async fn answer(&self, question: &Question, depth: Depth) -> Result<Arc<Says>, Abstention> {
        let asked = asked(question);
        let known = self.known.get(&asked).await;
        if depth == Depth::Known {
            return known.ok_or(Abstention::NotAsked);
        }
        if let Some(says) = known {
            self.counts.request(From::Cache, None);
            return Ok(says);
        }
        let mut from = From::Shared;
        let ask = async {
            from = From::Service;
            self.ask(question).await
        };
        let answer = self.known.entry(asked).or_try_insert_with(ask).await;
        let answer = answer.map(moka::Entry::into_value).map_err(|why| *why);
        self.counts.request(from, answer.as_ref().err().copied());
        answer
    }

    async fn ask(&self, question: &Question) -> Result<Arc<Says>, Abstention> {
        let _place = self.open.try_acquire().map_err(|_| Abstention::Busy)?;
        let begun = Instant::now();
        let body = systemone::question(&self.plan, &question.state, &question.criteria);
        let answer = self.caller.call(body).await.and_then(|body| {
            systemone::answer(&body, &question.criteria).map(Arc::new).ok_or(Abstention::Malformed)
        });
        self.counts.took(begun.elapsed().as_secs_f64());
        self.tell(answer.as_ref().err().copied());
        answer
    }

    /// Logs a change for the worse or the better.
    fn tell(&self, abstention: Option<Abstention>) {
        let (route, url) = (&*self.plan.route, &*self.plan.url.text);
        let before = self.failing.swap(abstention.is_some(), Ordering::Relaxed);
        match abstention {
            Some(cause) if !before => {
                tracing::warn!(
                    route,
                    service = url,
                    cause = cause.as_str(),
                    "requests go on without a decision"
                );
            }
            None if before => tracing::info!(route, service = url, "the decision service answers again"),
            _ => {}
        }
    }

    pub(super) fn view(&self) -> DecisionsView {
        self.counts.view(&self.plan.route)
    }
}

/// Length before text, so that no two questions read the same.
fn asked(question: &Question) -> Asked {
    let mut hash = Sha256::new();
    let mut add = |text: Option<&str>| {
        hash.update([u8::from(text.is_some())]);
        hash.update(text.map_or(0, str::len).to_le_bytes());
        hash.update(text.unwrap_or_default());
    };
    add(Some(&question.state));
    for criterion in &question.criteria {
        add(Some(&criterion.model));
        add(criterion.text.as_deref());
    }
    hash.finalize().into()
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("plan", &self.plan).finish_non_exhaustive()
    }
}
