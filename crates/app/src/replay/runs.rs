//! One run for each policy, two at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluicegate_lab::fleet::{Job, Settings};
use sluicegate_lab::replay::{Policy, Run, Summary, run};

/// What is to be run.
pub(crate) struct Plan<'a> {
    pub(crate) settings: Settings,
    pub(crate) policies: &'a [Policy],
    pub(crate) jobs: &'a [Job],
    /// What the policies with slots take for known.
    pub(crate) slots: u32,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

/// One policy's run.
pub(crate) struct PolicyRun {
    pub(crate) name: String,
    pub(crate) summary: Summary,
    pub(crate) run: Run,
}

/// Runs all policies, in threads of their own; the results are in the policies' order and do not depend on the threads.
pub(crate) fn run_all(plan: &Plan<'_>) -> Vec<PolicyRun> {
    let bar = bar(plan.policies.len() * plan.jobs.len());
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<PolicyRun>>> = plan.policies.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((index, policy)) = take(&next, plan.policies) {
            let decider = policy.decider(&plan.settings, plan.slots, plan.seed);
            let mut told = 0;
            let run = run(&plan.settings, decider, plan.jobs, |ended| {
                bar.inc((ended - told) as u64);
                told = ended;
            });
            let summary = Summary::of(&run);
            let result = PolicyRun { name: policy.name().into(), summary, run };
            if let Some(Ok(mut place)) = done.get(index).map(Mutex::lock) {
                *place = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..plan.threads.clamp(1, plan.policies.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    done.into_iter().filter_map(|place| place.into_inner().ok().flatten()).collect()
}

fn take(next: &AtomicUsize, policies: &[Policy]) -> Option<(usize, Policy)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    policies.get(index).map(|policy| (index, *policy))
}

/// Counts requests that have ended, on standard error if that is a terminal.
fn bar(requests: usize) -> ProgressBar {
    const FORM: &str = "{wide_bar} {percent:>3} %  {human_pos} of {human_len} requests  {eta} left";
    let style = ProgressStyle::with_template(FORM).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(requests as u64), ProgressDrawTarget::stderr()).with_style(style)
}
