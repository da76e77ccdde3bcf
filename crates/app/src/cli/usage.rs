//! `sluicegate usage`: sums usage logs, and holds the sums against the engines' counters.

mod against;

use std::path::PathBuf;

use clap::Args;

use super::{Failure, print, tell};
use crate::reconcile::EngineUrl;
use crate::usage_sums::{self, By, Counts, Filter, Groups, MOST_GROUPS, Moment};

/// Options of `usage`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct UsageArgs {
    /// Usage logs; - is standard input, a name that ends in .gz is read as gzip
    #[arg(value_name = "FILE", required_unless_present = "save_baseline")]
    files: Vec<PathBuf>,
    /// Read the rotated files beside each FILE too: FILE.9 to FILE.1, also with .gz
    #[arg(long)]
    rotated: bool,
    /// Sum for each of these apart; may be repeated, then for each combination
    #[arg(long, value_name = "WHAT", value_enum)]
    by: Vec<By>,
    /// Only requests from this moment on, in UTC: 2026-02-03 or 2026-02-03T04:05:06
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only requests before this moment
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Only requests of this key, by name; may be repeated
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// Only requests of this route; may be repeated
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
    /// Only requests whose last attempt went to this replica (its base URL); may be repeated
    #[arg(long = "replica", value_name = "URL")]
    replicas: Vec<String>,
    /// Write CSV (RFC 4180) with a record for each group, without a total
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Fail if any line is no usage line
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    against: AgainstArgs,
}

/// What sums are held against.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reconciliation")]
struct AgainstArgs {
    /// Hold the sums against this engine's own token counters; may be repeated
    #[arg(long = "against", value_name = "URL", conflicts_with_all = ["by", "csv"])]
    engines: Vec<EngineUrl>,
    /// The engines' counters when the lines began, from --save-baseline; without it they count from the engines' start
    #[arg(long, value_name = "FILE", requires = "engines")]
    baseline: Option<PathBuf>,
    /// Write the engines' counters as they are now
    #[arg(long, value_name = "FILE", requires = "engines")]
    save_baseline: Option<PathBuf>,
    /// Fail if prompt or completion tokens differ by more than this
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent, requires = "engines")]
    tolerance: f64,
}

const HELP: &str = "\
Lines are read once, in bounded memory. 10,000 groups are kept apart; the lines of any further
group go into (other). Quantiles come from a histogram and are at most 1.6 % off. Lines that are no
usage lines are counted, and the first one is shown.

Examples:
  sluicegate usage usage.jsonl --rotated --by route
  sluicegate usage usage.jsonl* --by key --by day --since 2026-02-01 --until 2026-03-01 --csv
  kubectl logs gateway-0 | sluicegate usage - --json

Reconciliation: what the engines counted since a baseline must be what the lines say.
  sluicegate usage --against http://10.0.0.11:8000 --save-baseline before.json
  sluicegate usage usage.jsonl --since 2026-02-03T04:05 --against http://10.0.0.11:8000 \\
    --baseline before.json

Choose the lines (--since, --until, --replica) so that they cover the time since the baseline and
the engines that are asked. What can differ all the same:
  - Traffic that reached an engine past this gateway: the engine has more.
  - Cancelled and broken requests, and attempts that were retried: the engine counted what it did;
    the lines hold the last attempt, and an estimate where the engine reported nothing.
  - Running requests: engines count while they work (some only at the end), the line comes at the
    end, up to 100 ms later.
  - Restarted engines: counters below the baseline are named as a restart, and what was counted
    before it is lost. Once they have passed the baseline again, a restart cannot be seen.
  - Usage lines that were lost (sluicegate_usage_lines_lost_total).

Exit codes: 0 success; 1 failure, a difference above --tolerance, or bad lines with --strict;
2 error in the command line.";

pub(super) fn run(args: &UsageArgs) -> Result<(), Failure> {
    ordered(args)?;
    if args.against.engines.is_empty() { sum(args) } else { against::run(args) }
}

fn ordered(args: &UsageArgs) -> Result<(), Failure> {
    match (&args.since, &args.until) {
        (Some(since), Some(until)) if since.as_str() >= until.as_str() => {
            Err(Failure::Usage(anyhow::anyhow!(
                "no request is from {} on and before {}: --since is the earlier one",
                since.as_str(),
                until.as_str()
            )))
        }
        _ => Ok(()),
    }
}

fn sum(args: &UsageArgs) -> Result<(), Failure> {
    let (grouped, counts) = read(args, args.by.clone())?;
    if let Some(other) = &grouped.other {
        tell(format_args!(
            "note: more than {MOST_GROUPS} groups; {} requests of further ones stand under (other)\n",
            other.requests
        ));
    }
    let text = if args.json {
        usage_sums::json(&grouped, &counts, &args.filter()).map_err(Failure::running)?
    } else if args.csv {
        usage_sums::csv(&grouped).map_err(Failure::running)?
    } else {
        usage_sums::table(&grouped)
    };
    print(&text)?;
    args.judge(&counts)
}

fn read(args: &UsageArgs, by: Vec<By>) -> Result<(usage_sums::Grouped, Counts), Failure> {
    let files = usage_sums::in_order(&args.files, args.rotated).map_err(Failure::Usage)?;
    let (inputs, bar) = usage_sums::open(&files).map_err(Failure::running)?;
    let mut groups = Groups::new(by);
    let read = usage_sums::read(inputs, &args.filter(), &mut groups);
    bar.finish_and_clear();
    let counts = read.map_err(Failure::running)?;
    if let Some(first) = &counts.first_bad {
        // The message may quote the line, which may be anything.
        let first = usage_sums::plain(first);
        tell(format_args!(
            "note: {} of {} lines are no usage lines; the first: {first}\n",
            counts.bad, counts.lines
        ));
    }
    if counts.counted == 0 && counts.lines > counts.bad {
        tell(format_args!(
            "note: none of {} usage lines is among those asked for\n",
            counts.lines - counts.bad
        ));
    }
    Ok((groups.finish(), counts))
}

impl UsageArgs {
    fn filter(&self) -> Filter {
        Filter {
            since: self.since.clone(),
            until: self.until.clone(),
            keys: self.keys.clone(),
            routes: self.routes.clone(),
            replicas: self.replicas.clone(),
        }
    }

    fn judge(&self, counts: &Counts) -> Result<(), Failure> {
        if self.strict && counts.bad > 0 {
            return Err(Failure::running(anyhow::anyhow!("{} lines are no usage lines", counts.bad)));
        }
        Ok(())
    }
}

fn percent(text: &str) -> Result<f64, &'static str> {
    let expected = "expected a number of percent, 0 or more";
    let percent: f64 = text.trim_end_matches('%').trim_end().parse().map_err(|_| expected)?;
    if percent.is_finite() && percent >= 0.0 { Ok(percent) } else { Err(expected) }
}
