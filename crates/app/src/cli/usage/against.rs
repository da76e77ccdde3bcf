//! `sluicegate usage --against`: the sums of the lines beside the engines' counters.

use super::{AgainstArgs, UsageArgs, read};
use crate::cli::{Failure, print, tell};
use crate::reconcile::{Baseline, Reading, Report, Since, Tokens};
use crate::usage_sums::{By, Grouped, plain};

/// Replicas named in a note.
const MOST_NAMED: usize = 8;

pub(super) fn run(args: &UsageArgs) -> Result<(), Failure> {
    let against = &args.against;
    let readings = ask(against).map_err(Failure::running)?;
    let engines = since(against, &readings).map_err(Failure::running)?;
    let judged = if args.files.is_empty() { Ok(()) } else { reconcile(args, &engines) };
    if let Some(path) = &against.save_baseline {
        // Written whatever the judgement: the next reconciliation starts here.
        Baseline::of(&readings).save(path).map_err(Failure::running)?;
        tell(format_args!(
            "note: the counters of {} are in {}\n",
            engines_of(readings.len()),
            path.display()
        ));
    }
    judged
}

fn ask(against: &AgainstArgs) -> anyhow::Result<Vec<Reading>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut readings: Vec<Reading> = Vec::new();
    for engine in &against.engines {
        let text = engine.text();
        anyhow::ensure!(readings.iter().all(|reading| reading.url != text), "{text} is given twice");
        readings.push(runtime.block_on(engine.read())?);
    }
    Ok(readings)
}

fn since(against: &AgainstArgs, readings: &[Reading]) -> anyhow::Result<Vec<Since>> {
    let Some(path) = &against.baseline else {
        let whole =
            |reading: &Reading| Since { url: reading.url.clone(), tokens: reading.tokens, restarted: false };
        return Ok(readings.iter().map(whole).collect());
    };
    let baseline = Baseline::load(path)?;
    for url in baseline.left_out(readings) {
        tell(format_args!("note: {url} is in the baseline and was not asked\n"));
    }
    readings.iter().map(|reading| baseline.since(reading)).collect()
}

fn reconcile(args: &UsageArgs, engines: &[Since]) -> Result<(), Failure> {
    let (grouped, counts) = read(args, vec![By::Replica])?;
    if args.against.baseline.is_none() {
        tell(format_args!("note: without --baseline the engines' counters are those since their start\n"));
    }
    for engine in engines.iter().filter(|engine| engine.restarted) {
        tell(format_args!(
            "note: {} restarted since the baseline; what it counted before is lost\n",
            engine.url
        ));
    }
    tell_other_replicas(&grouped, engines.len());
    let total = &grouped.total;
    let tokens = Tokens { prompt: total.prompt_tokens, completion: total.completion_tokens };
    let report = Report::new(tokens, total.estimated_tokens, engines, args.against.tolerance);
    let text = if args.json { report.json().map_err(Failure::running)? } else { report.text() };
    print(&text)?;
    args.judge(&counts)?;
    if report.within_tolerance() {
        return Ok(());
    }
    let tolerance = args.against.tolerance;
    Err(Failure::running(anyhow::anyhow!("lines and engines differ by more than {tolerance} %")))
}

fn engines_of(count: usize) -> String {
    format!("{count} engine{}", if count == 1 { "" } else { "s" })
}

/// Replicas cannot be matched with engines by their URLs, which need not be the same; but their number tells.
fn tell_other_replicas(grouped: &Grouped, engines: usize) {
    let worked = |tokens: u64| tokens > 0;
    let replicas: Vec<String> = grouped
        .groups
        .iter()
        .filter(|group| worked(group.sums.prompt_tokens.saturating_add(group.sums.completion_tokens)))
        .filter_map(|group| group.names.first()?.as_deref().map(plain))
        .collect();
    if replicas.len() == engines {
        return;
    }
    let named = replicas.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if replicas.len() > MOST_NAMED { ", ..." } else { "" };
    let asked = if engines == 1 { "was" } else { "were" };
    tell(format_args!(
        "note: the lines are of {} replica{} ({named}{more}), {} {asked} asked; --replica chooses lines\n",
        replicas.len(),
        if replicas.len() == 1 { "" } else { "s" },
        engines_of(engines),
    ));
}
