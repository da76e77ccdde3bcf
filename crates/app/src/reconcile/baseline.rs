//! The engines' counters at an earlier moment, in a file.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::engine::Reading;
use super::report::Tokens;
use crate::bounded_file;

/// Counters by engine. As a file: JSON.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    engines: Vec<Saved>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    url: String,
    prompt_tokens: u64,
    generation_tokens: u64,
}

/// What an engine has counted since the baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) url: String,
    pub(crate) tokens: Tokens,
    /// Its counters are below the baseline, so it has begun anew: what it had counted after the baseline is lost, and
    /// `tokens` are those since its start.
    pub(crate) restarted: bool,
}

impl Baseline {
    pub(crate) fn of(readings: &[Reading]) -> Self {
        let saved = |reading: &Reading| Saved {
            url: reading.url.clone(),
            prompt_tokens: reading.tokens.prompt,
            generation_tokens: reading.tokens.completion,
        };
        Self { engines: readings.iter().map(saved).collect() }
    }

    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let bytes = bounded_file::read(path, bounded_file::WRITTEN_BY_HAND)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is no baseline", path.display()))
    }

    /// Writes a new file beside `path` and puts it in its place: a failure leaves the old one whole.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// The difference between `reading` and this baseline.
    ///
    /// # Errors
    /// The baseline does not hold that engine.
    pub(crate) fn since(&self, reading: &Reading) -> anyhow::Result<Since> {
        let saved = self.engines.iter().find(|saved| saved.url == reading.url);
        let saved = saved.with_context(|| format!("the baseline does not hold {}", reading.url))?;
        let now = reading.tokens;
        let prompt = now.prompt.checked_sub(saved.prompt_tokens);
        let completion = now.completion.checked_sub(saved.generation_tokens);
        let (tokens, restarted) = match (prompt, completion) {
            (Some(prompt), Some(completion)) => (Tokens { prompt, completion }, false),
            _ => (now, true),
        };
        Ok(Since { url: reading.url.clone(), tokens, restarted })
    }

    /// Engines of the baseline that are not among `readings`.
    pub(crate) fn left_out<'a>(&'a self, readings: &'a [Reading]) -> impl Iterator<Item = &'a str> {
        let urls = self.engines.iter().map(|saved| saved.url.as_str());
        urls.filter(|url| readings.iter().all(|reading| reading.url != *url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(prompt: u64, completion: u64) -> Reading {
        Reading { url: "http://a/metrics".into(), tokens: Tokens { prompt, completion } }
    }

    #[test]
    fn counters_below_the_baseline_are_a_restart_and_count_from_zero() {
        let baseline = Baseline::of(&[reading(100, 50)]);
        for (now, expected, restarted) in [
            ((100, 50), (0, 0), false),
            ((130, 55), (30, 5), false),
            ((99, 60), (99, 60), true),
            ((200, 49), (200, 49), true),
        ] {
            let since = baseline.since(&reading(now.0, now.1)).unwrap();
            assert_eq!(
                ((since.tokens.prompt, since.tokens.completion), since.restarted),
                (expected, restarted)
            );
        }
    }

    #[test]
    fn engines_on_one_side_only_are_named() {
        let baseline = Baseline::of(&[reading(1, 1)]);
        let other = Reading { url: "http://b/metrics".into(), ..reading(1, 1) };
        let error = baseline.since(&other).unwrap_err().to_string();
        assert_eq!(error, "the baseline does not hold http://b/metrics");
        assert_eq!(baseline.left_out(&[other]).collect::<Vec<_>>(), ["http://a/metrics"]);
    }
}
