//! Every scenario in every mode, two at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluicegate_lab::scenario::{Chooser, Finding, Rule, Scenario, Stage, judge, play};

use super::rows::{Row, Task, merged};
use super::shares;

/// What is to be run.
pub(crate) struct Plan<'a> {
    pub(crate) scenarios: &'a [Scenario],
    /// Only in this mode.
    pub(crate) mode: Option<Chooser>,
    /// Without this rule.
    pub(crate) off: Option<Rule>,
    pub(crate) seed: u64,
}

const THREADS: usize = 2;

/// Runs all; the rows are in the scenarios' order and do not depend on the threads.
pub(crate) fn run_all(plan: &Plan<'_>) -> Vec<Row> {
    let tasks = Task::all(plan.scenarios, plan.mode);
    let bar = bar(tasks.len());
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Row>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((index, task)) = take(&next, &tasks) {
            bar.set_message(task.scenario.id.clone());
            let row = task.row(run(task, plan));
            if let Some(Ok(mut place)) = done.get(index).map(Mutex::lock) {
                *place = Some(row);
            }
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    merged(done.into_iter().filter_map(|place| place.into_inner().ok().flatten()).collect())
}

fn run(task: &Task<'_>, plan: &Plan<'_>) -> Vec<Finding> {
    match (task.chooser, task.scenario.stage) {
        (Some(chooser), _) => {
            judge(task.scenario, chooser, &play(task.scenario, chooser, plan.off, plan.seed))
        }
        (None, Stage::InProcess) => shares::run(),
        (None, _) => Vec::new(),
    }
}

fn take<'a>(next: &AtomicUsize, tasks: &'a [Task<'a>]) -> Option<(usize, &'a Task<'a>)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    tasks.get(index).map(|task| (index, task))
}

/// On standard error, if that is a terminal.
pub(super) fn bar(tasks: usize) -> ProgressBar {
    const FORM: &str = "{wide_bar} {pos} of {len}  {msg}";
    let style = ProgressStyle::with_template(FORM).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(tasks as u64), ProgressDrawTarget::stderr()).with_style(style)
}
