//! Our own usage log as a trace.
//!
//! A line tells when a request came, how long prompt and answer were, and how much of the prompt the replica had cached. It
//! tells nothing of the prompt itself. What was cached is taken for the beginning of the newest earlier request of the
//! same key and route that is long enough, prompt and answer together: a next turn, most likely. What was *not* cached
//! because it lay at another replica is lost, so that a replay finds at most as much to hit as the gateway did.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use sluicegate_core::{KeyIndex, Session, Time};
use sluicegate_lab::fleet::Job;
use sluicegate_lab::rng::mix;

use super::azure::days;
use super::trace::{Reader, Recorded};

/// Earlier requests of a key and route that are looked at.
const REMEMBERED: usize = 1000;

pub(super) struct UsageLines {
    block_tokens: u32,
    lines: Vec<UsageLine>,
}

/// What of a usage line matters here.
#[derive(Clone, Debug, Deserialize)]
struct UsageLine {
    time: String,
    /// With `time` it is what makes an object a usage line.
    outcome: String,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    route: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    prompt_tokens: Option<u32>,
    #[serde(default)]
    cached_tokens: Option<u32>,
    #[serde(default)]
    completion_tokens: Option<u32>,
}

impl UsageLines {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self { block_tokens: block_tokens.max(1), lines: Vec::new() }
    }
}

impl Reader for UsageLines {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line: UsageLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if moment(&line.time).is_none() {
            return Err("`time` is not RFC 3339 in UTC with milliseconds".into());
        }
        self.lines.push(line);
        Ok(())
    }

    /// Requests that no engine worked on have no tokens, and are left out.
    fn requests(self: Box<Self>) -> (Vec<Recorded>, BTreeMap<String, usize>) {
        let (mut lines, without): (Vec<_>, Vec<_>) =
            self.lines.into_iter().partition(|line| line.prompt_tokens.is_some_and(|tokens| tokens > 0));
        let mut without_prompt = BTreeMap::new();
        for line in without {
            *without_prompt.entry(line.outcome).or_default() += 1;
        }
        lines.sort_by(|one, other| one.time.cmp(&other.time));
        let first = lines.first().and_then(|line| moment(&line.time)).unwrap_or_default();
        let mut talks = Talks::default();
        let mut names = Names::default();
        let request = |line: UsageLine| Recorded {
            job: talks.job(&line, first, self.block_tokens),
            model: names.shared(line.model),
            route: names.shared(line.route),
            key: names.shared(line.key),
        };
        (lines.into_iter().map(request).collect(), without_prompt)
    }
}

/// Each name once, however many lines have it.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn shared(&mut self, name: Option<String>) -> Option<Arc<str>> {
        let name: Arc<str> = name?.into();
        let known = self.0.get(&name).cloned();
        known.or_else(|| {
            self.0.insert(Arc::clone(&name));
            Some(name)
        })
    }
}

/// Who may have said what before.
#[derive(Default)]
struct Talks {
    keys: HashMap<Option<String>, u32>,
    /// By key and route: tokens, blocks and session of requests so far.
    said: HashMap<(Option<String>, Option<String>), Vec<Said>>,
    serial: u64,
}

struct Said {
    tokens: u32,
    blocks: Vec<u64>,
    session: u64,
}

impl Talks {
    fn job(&mut self, line: &UsageLine, first: Duration, block_tokens: u32) -> Job {
        self.serial += 1;
        let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let key = KeyIndex(*self.keys.entry(line.key.clone()).or_insert(next));
        let prompt = line.prompt_tokens.unwrap_or(1);
        let output = line.completion_tokens.unwrap_or(1);
        let cached = line.cached_tokens.unwrap_or(0).min(prompt);
        let said = self.said.entry((line.key.clone(), line.route.clone())).or_default();
        let shared = (cached / block_tokens) as usize;
        let earlier = (shared > 0)
            .then(|| said.iter().rev().find(|said| said.tokens >= cached && said.blocks.len() >= shared))
            .flatten();
        let session = earlier.map_or(mix(self.serial), |earlier| earlier.session);
        let known = earlier.and_then(|earlier| earlier.blocks.get(..shared)).unwrap_or_default();
        let whole = (prompt.saturating_add(output) / block_tokens) as usize;
        let own = (known.len()..whole).map(|block| mix(mix(self.serial).wrapping_add(block as u64)));
        let blocks: Vec<u64> = known.iter().copied().chain(own).collect();
        let continued = earlier.is_some();
        said.push(Said { tokens: prompt.saturating_add(output), blocks: blocks.clone(), session });
        if said.len() > REMEMBERED {
            said.remove(0);
        }
        let arrives = Time::ZERO + moment(&line.time).unwrap_or_default().saturating_sub(first);
        Job {
            blocks: blocks.into(),
            session: Some(Session::Conversation { hash: session, continued }),
            key,
            stream: line.stream.unwrap_or(true),
            ..Job::unique(arrives, prompt, output)
        }
    }
}

/// `2026-02-03T04:05:06.789Z` as time since the year 0.
fn moment(text: &str) -> Option<Duration> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
    let separators = [(4, '-'), (7, '-'), (10, 'T'), (13, ':'), (16, ':'), (19, '.'), (23, 'Z')];
    let fits = text.len() == 24
        && separators.iter().all(|(at, c)| text.as_bytes().get(*at).is_some_and(|b| char::from(*b) == *c));
    let date = days(number(0, 4)?.into(), number(5, 7)?.into(), number(8, 10)?.into());
    let seconds = number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?;
    let millis = number(20, 23)?;
    let date = u64::try_from(date).ok()?;
    fits.then(|| {
        Duration::from_secs(date * 86_400 + u64::from(seconds)) + Duration::from_millis(millis.into())
    })
}
