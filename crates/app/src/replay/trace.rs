//! A trace: requests in order of arrival, from any of the forms that are known.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use sluicegate_lab::fleet::Job;

use super::{azure, mooncake, usage_lines};
use crate::usage_sums::{Found, LONGEST_LINE, Lines, open};

/// Bad lines above which a file is none of these traces.
const MOST_BAD: usize = 100;
/// The longest that is played, in virtual time. Every replica is scraped all through it: one line with a wrong moment, or
/// a trace read in the wrong unit, would be played for as good as ever.
const MOST_SPAN: Duration = Duration::from_secs(32 * 86_400);

/// Recorded requests.
pub(crate) struct Trace {
    /// In order of arrival, the first at or after the origin.
    pub(crate) requests: Vec<Recorded>,
    /// What kind of trace it is, for people.
    pub(crate) form: &'static str,
    /// Lines that are none of it, and the first of them.
    pub(crate) bad: Vec<String>,
    /// Requests whose length was not recorded, as no engine worked on them, by how they ended.
    pub(crate) without_prompt: BTreeMap<String, usize>,
}

/// One recorded request.
pub(crate) struct Recorded {
    pub(crate) job: Job,
    /// The model as it was asked for, where that was recorded.
    pub(crate) model: Option<Arc<str>>,
    /// The route that it went by, where that was recorded.
    pub(crate) route: Option<Arc<str>>,
    /// The name of the key that asked, where that was recorded.
    pub(crate) key: Option<Arc<str>>,
}

impl Recorded {
    /// A request of which nothing else was recorded.
    pub(super) fn nameless(job: Job) -> Self {
        Self { job, model: None, route: None, key: None }
    }

    /// The name that selects its route.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.model.as_ref().or(self.route.as_ref())
    }
}

impl Trace {
    /// Whether it can be played at this speed.
    ///
    /// # Errors
    /// From its first request to its last it takes too long.
    pub(crate) fn fits(&self, speed: f64) -> anyhow::Result<()> {
        let times = || self.requests.iter().map(|recorded| recorded.job.arrives);
        let span = times().max().unwrap_or_default().since(times().min().unwrap_or_default());
        let days = span.as_secs_f64() / speed / 86_400.0;
        if days <= MOST_SPAN.as_secs_f64() / 86_400.0 {
            return Ok(());
        }
        bail!(
            "the {} requests come within {days:.0} days at {speed} times the recorded speed, and at most 32 days are \
             played: look for a line with a wrong time, or for times in another unit (Mooncake's are milliseconds); \
             --limit reads only so many requests, a higher --speed or --load plays them faster",
            self.requests.len()
        )
    }

    /// The requests alone.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.requests.iter().map(|recorded| recorded.job.clone()).collect()
    }
}

/// What reads one form, line by line.
pub(super) trait Reader {
    /// One line that is not blank.
    ///
    /// # Errors
    /// What is wrong with it.
    fn line(&mut self, line: &[u8]) -> Result<(), String>;

    /// Everything read, in any order, and what is left out for want of a length, by how it ended.
    fn requests(self: Box<Self>) -> (Vec<Recorded>, BTreeMap<String, usize>);
}

/// Reads a file, gzip where its name ends in `.gz`, at most `limit` requests, prompts cut into blocks of
/// `block_tokens`.
///
/// # Errors
/// The file cannot be read, or is no trace.
pub(crate) fn read(path: &Path, limit: usize, block_tokens: u32) -> anyhow::Result<Trace> {
    let (inputs, bar) = open(&[path.to_owned()])?;
    let input = inputs.into_iter().next().context("nothing to read")?;
    let mut lines = Lines::new(input.source);
    let mut form: Option<(&'static str, Box<dyn Reader>)> = None;
    let (mut number, mut taken, mut bad) = (0_u64, 0, Vec::new());
    while taken < limit {
        let found = lines.next().with_context(|| format!("cannot read {}", path.display()))?;
        let Some(found) = found else { break };
        number += 1;
        let line = match found {
            Found::Line(line) if line.trim_ascii().is_empty() => continue,
            Found::Line(line) => line,
            Found::TooLong if form.is_none() => {
                bail!("{} is no trace: its first line is longer than {LONGEST_LINE} bytes", path.display())
            }
            Found::TooLong => {
                bad.push(format!("{}:{number}: it is longer than {LONGEST_LINE} bytes", path.display()));
                continue;
            }
        };
        let Some((_, reader)) = &mut form else {
            // Spreadsheets put a byte order mark before a CSV.
            let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
            let begun = begin(line, block_tokens).with_context(|| {
                format!(
                    "{} is no trace: its first line is neither of Mooncake nor of Azure nor a usage line",
                    path.display()
                )
            })?;
            form = Some(begun.form);
            taken += usize::from(begun.took_line);
            continue;
        };
        match reader.line(line) {
            Ok(()) => taken += 1,
            Err(wrong) => bad.push(format!("{}:{number}: {wrong}", path.display())),
        }
        if bad.len() > MOST_BAD && bad.len() > taken {
            bail!("{} is no trace: {}", path.display(), bad.swap_remove(0));
        }
    }
    bar.finish_and_clear();
    let (name, reader) = form.with_context(|| format!("{} is empty", path.display()))?;
    let (mut requests, without_prompt) = reader.requests();
    requests.sort_by_key(|recorded| recorded.job.arrives);
    if requests.is_empty() {
        bail!("{} holds no request", path.display());
    }
    Ok(Trace { requests, form: name, bad, without_prompt })
}

struct Begun {
    form: (&'static str, Box<dyn Reader>),
    took_line: bool,
}

/// Finds out the form from the first line.
fn begin(line: &[u8], block_tokens: u32) -> Option<Begun> {
    if azure::is_heading(line) {
        let form = ("Azure LLM inference trace", Box::new(azure::Azure::default()) as Box<dyn Reader>);
        return Some(Begun { form, took_line: false });
    }
    let mut mooncake = mooncake::Mooncake::new(block_tokens);
    if mooncake.line(line).is_ok() {
        return Some(Begun { form: ("Mooncake trace", Box::new(mooncake)), took_line: true });
    }
    let mut usage = usage_lines::UsageLines::new(block_tokens);
    usage.line(line).ok()?;
    Some(Begun { form: ("usage log", Box::new(usage)), took_line: true })
}
