//! Asks decision services which model a request deserves, on a thread of its own: the data plane hands a question over and
//! waits for the answer as it waits for anything else.

mod call;
mod counts;
mod service;
mod systemone;
mod tokens;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use sluicegate_proxy::{Answers, Decisions, Depth, Question};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::config::DecisionServicePlan;
pub(crate) use counts::DecisionsView;
#[cfg(test)]
pub(crate) use counts::From;
use service::Service;
pub(crate) use systemone::PATH;

/// Every decision service of the gateway.
#[derive(Debug, Default)]
pub(crate) struct DecisionServices {
    services: Vec<Arc<Service>>,
    /// Of the thread that asks; None where there are no services.
    runtime: Option<Handle>,
}

/// The thread that asks; it ends when this is dropped, and every question that is open with it.
#[derive(Debug)]
pub(crate) struct Asking {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DecisionServices {
    /// Starts the thread where there is any service.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
    pub(crate) fn start(plans: Vec<DecisionServicePlan>) -> io::Result<(Arc<Self>, Asking)> {
        if plans.is_empty() {
            return Ok((Arc::default(), Asking { stop: None, thread: None }));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let services = plans.into_iter().map(|plan| Arc::new(Service::new(plan))).collect();
        let all = Arc::new(Self { services, runtime: Some(runtime.handle().clone()) });
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("decisions".into()).spawn(move || {
            // An error says that the sender is gone: that is its sign.
            let _ended = runtime.block_on(stopped);
            // A name that is still being looked up must not hold up the end.
            runtime.shutdown_background();
        })?;
        Ok((all, Asking { stop: Some(stop), thread: Some(thread) }))
    }

    /// What each has been asked so far.
    pub(crate) fn views(&self) -> Vec<DecisionsView> {
        self.services.iter().map(|service| service.view()).collect()
    }
}

impl Decisions for DecisionServices {
    fn ask(&self, question: Question, depth: Depth) -> Answers {
        let (told, answers) = oneshot::channel();
        if let (Some(runtime), Some(service)) = (&self.runtime, self.services.get(question.service)) {
            let service = Arc::clone(service);
            runtime.spawn(async move {
                // Where nobody waits any more, the answer is known to the next who asks.
                let _unheard = told.send(service.answer(&question, depth).await);
            });
        }
        answers
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the decision services panicked");
        }
    }
}
