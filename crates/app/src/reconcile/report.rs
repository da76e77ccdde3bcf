//! Both sums, and how far they are apart.

use std::fmt::Write as _;

use serde::Serialize;

use super::baseline::Since;
use crate::usage_sums::with_commas;

/// Prompt and completion tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tokens {
    #[serde(rename = "prompt_tokens")]
    pub(crate) prompt: u64,
    #[serde(rename = "completion_tokens")]
    pub(crate) completion: u64,
}

/// The reconciliation of usage lines and engines.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    gateway: Tokens,
    estimated_tokens: u64,
    engines: Vec<EngineRow>,
    engines_total: Tokens,
    prompt: Difference,
    completion: Difference,
    tolerance_percent: f64,
    within_tolerance: bool,
}

#[derive(Clone, Debug, Serialize)]
struct EngineRow {
    url: String,
    #[serde(flatten)]
    tokens: Tokens,
    restarted: bool,
}

/// Gateway minus engines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Difference {
    tokens: i128,
    /// Of the engines' count; None where that is 0 and the gateway's is not.
    percent: Option<f64>,
}

impl Difference {
    fn of(gateway: u64, engines: u64) -> Self {
        let tokens = i128::from(gateway) - i128::from(engines);
        let percent = match (tokens, engines) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            _ => Some(tokens as f64 / engines as f64 * 100.0),
        };
        Self { tokens, percent }
    }

    fn within(self, tolerance: f64) -> bool {
        self.percent.is_some_and(|percent| percent.abs() <= tolerance)
    }
}

impl Report {
    /// `estimated_tokens`: the part of `gateway` that was estimated. `tolerance` in percent, for prompt and completion
    /// tokens each.
    pub(crate) fn new(gateway: Tokens, estimated_tokens: u64, engines: &[Since], tolerance: f64) -> Self {
        let mut total = Tokens::default();
        for engine in engines {
            total.prompt = total.prompt.saturating_add(engine.tokens.prompt);
            total.completion = total.completion.saturating_add(engine.tokens.completion);
        }
        let prompt = Difference::of(gateway.prompt, total.prompt);
        let completion = Difference::of(gateway.completion, total.completion);
        let row = |since: &Since| EngineRow {
            url: since.url.clone(),
            tokens: since.tokens,
            restarted: since.restarted,
        };
        Self {
            gateway,
            estimated_tokens,
            engines: engines.iter().map(row).collect(),
            engines_total: total,
            prompt,
            completion,
            tolerance_percent: tolerance,
            within_tolerance: prompt.within(tolerance) && completion.within(tolerance),
        }
    }

    pub(crate) const fn within_tolerance(&self) -> bool {
        self.within_tolerance
    }

    /// As one JSON object and a line feed.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As a table for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let width = self.engines.iter().map(|engine| engine.url.chars().count()).max().unwrap_or(0).max(16);
        let mut row = |name: &str, prompt: &str, completion: &str, note: &str| {
            let line = format!("{name:<width$}  {prompt:>16}  {completion:>16}{note}");
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
        };
        let counts = |tokens: Tokens| (with_commas(tokens.prompt), with_commas(tokens.completion));
        row("tokens", "prompt", "completion", "");
        for engine in &self.engines {
            let (prompt, completion) = counts(engine.tokens);
            let note = if engine.restarted { "  restarted since the baseline" } else { "" };
            row(&engine.url, &prompt, &completion, note);
        }
        let (prompt, completion) = counts(self.engines_total);
        row("engines together", &prompt, &completion, "");
        let (prompt, completion) = counts(self.gateway);
        let estimated = match self.estimated_tokens {
            0 => String::new(),
            tokens => format!("  {} of them estimated", with_commas(tokens)),
        };
        row("usage lines", &prompt, &completion, &estimated);
        row("difference", &signed(self.prompt.tokens), &signed(self.completion.tokens), "");
        row("in percent", &percent(self.prompt), &percent(self.completion), "");
        text
    }
}

fn signed(tokens: i128) -> String {
    let size = with_commas(u64::try_from(tokens.unsigned_abs()).unwrap_or(u64::MAX));
    match tokens {
        0 => size,
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

fn percent(difference: Difference) -> String {
    difference.percent.map_or("no engine tokens".into(), |percent| format!("{percent:+.2} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_judged_against_the_engines_count() {
        for (gateway, engines, percent, within) in [
            (0, 0, Some(0.0), true),
            (100, 100, Some(0.0), true),
            (101, 100, Some(1.0), true),
            (99, 100, Some(-1.0), true),
            (102, 100, Some(2.0), false),
            (98, 100, Some(-2.0), false),
            (1, 0, None, false),
            (0, 5, Some(-100.0), false),
        ] {
            let difference = Difference::of(gateway, engines);
            assert_eq!(
                (difference.percent, difference.within(1.0)),
                (percent, within),
                "{gateway} {engines}"
            );
        }
    }

    #[test]
    fn either_kind_of_tokens_alone_is_enough_to_fail() {
        let engine = |prompt, completion| Since {
            url: "http://a/metrics".into(),
            tokens: Tokens { prompt, completion },
            restarted: false,
        };
        let report = |prompt, completion| {
            Report::new(Tokens { prompt: 100, completion: 100 }, 0, &[engine(prompt, completion)], 1.0)
        };
        assert!(report(100, 100).within_tolerance());
        assert!(!report(100, 90).within_tolerance());
        assert!(!report(90, 100).within_tolerance());
    }
}
