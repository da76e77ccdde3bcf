//! Runs side by side, a few at a time.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluicegate_lab::fleet::{Decider, Job, Settings};
use sluicegate_lab::replay::{Run, run_by_pool};

use super::Figures;

/// What is to be run.
pub(crate) struct Contestant<'a> {
    /// As in tables.
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) decider: Box<dyn Decider + Send>,
    pub(crate) jobs: Cow<'a, [Job]>,
    /// The replicas of each pool.
    pub(crate) pools: Vec<Range<usize>>,
}

/// What it came to.
pub(crate) struct PolicyRun {
    pub(crate) name: String,
    pub(crate) figures: Figures,
    pub(crate) run: Run,
}

impl PolicyRun {
    /// Of a run whose requests are all timed.
    pub(crate) fn of((name, run): (String, Run)) -> Self {
        let figures = Figures::of(run.records.iter(), &run.worst_imbalance(|_| true), |_| true);
        Self { name, figures, run }
    }
}

/// Runs all of them, in so many threads; the results are in the order given and do not depend on the threads.
pub(crate) fn run_all(contestants: Vec<Contestant<'_>>, threads: usize) -> Vec<(String, Run)> {
    let bar = bar(contestants.iter().map(|one| one.jobs.len()).sum());
    let threads = threads.clamp(1, contestants.len().max(1));
    let waiting = Mutex::new(contestants.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((place, contestant)) = next else { break };
            let result = run_one(contestant, &bar);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

fn run_one(contestant: Contestant<'_>, bar: &ProgressBar) -> (String, Run) {
    let Contestant { name, settings, decider, jobs, pools } = contestant;
    let mut told = 0;
    let run = run_by_pool(&settings, decider, &jobs, &pools, |ended| {
        bar.inc((ended - told) as u64);
        told = ended;
    });
    (name, run)
}

/// Counts requests that have ended, on standard error if that is a terminal.
fn bar(requests: usize) -> ProgressBar {
    const FORM: &str = "{wide_bar} {percent:>3} %  {human_pos} of {human_len} requests  {eta} left";
    let style = ProgressStyle::with_template(FORM).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(requests as u64), ProgressDrawTarget::stderr()).with_style(style)
}
