//! An explanation as text for people.

use std::fmt::Write as _;

use crate::inspect::{CandidateView, DecisionView, ExplainedView, OutcomeView, PredictedView};
use crate::usage_sums::plain;

const LEGEND: &str = "
In flight are this gateway's open requests. Load is no count: the larger of what the engine told last
and of their weights, where a heavy prompt weighs more than 1.
";

/// Route and keys, the verdict, a table of the replicas, the steps.
pub(super) fn render(explained: &ExplainedView) -> String {
    let mut text = String::new();
    let none = || "none".to_owned();
    let mut row = |name: &str, value: &str| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name:<8} {value}");
    };
    row("route", &plain(&explained.route));
    if let Some(key) = &explained.key {
        row("key", &plain(key));
    }
    for (nth, target) in explained.targets.iter().enumerate() {
        row(if nth == 0 { "target" } else { "" }, &plain(target));
    }
    row("prompt", &format!("about {} tokens", explained.estimated_prompt_tokens));
    if let Some(decision) = &explained.decision {
        row("decision", &plain(&decided(decision)));
    }
    row("session", &explained.session.clone().unwrap_or_else(none));
    row("prefix", &explained.prefix.clone().unwrap_or_else(none));
    row("result", &result(&explained.outcome));
    text.push('\n');
    text.push_str(&candidates(&explained.candidates, &explained.outcome));
    text.push('\n');
    for (index, step) in explained.steps.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", index + 1, plain(step));
    }
    text
}

/// What a decision service says, or why it does not.
fn decided(decision: &DecisionView) -> String {
    match decision.abstains.as_deref() {
        Some("not_asked") => "none known; --decide asks the service".into(),
        Some(why) => format!("none ({why}), the policy abstains"),
        None => {
            let each: Vec<String> =
                decision.models.iter().map(|(model, p)| format!("{model} {p:.3}")).collect();
            format!("{}; confidence {:.3}", each.join(", "), decision.confidence)
        }
    }
}

fn result(outcome: &OutcomeView) -> String {
    match outcome {
        OutcomeView::Replica { name, reason, spilled, .. } => {
            format!("{name} ({reason}{})", if *spilled { ", spilled" } else { "" })
        }
        OutcomeView::NoReplica { reason } => format!("no replica ({reason})"),
        OutcomeView::Waits { ahead: 0 } => "waits for a slot, first in line".into(),
        OutcomeView::Waits { ahead } => format!("waits for a slot, behind {ahead}"),
        OutcomeView::Held { ahead: 0 } => "held back, first in line".into(),
        OutcomeView::Held { ahead } => format!("held back, behind {ahead}"),
        OutcomeView::QueueFull { retry_after_seconds } => {
            format!("refused (queue_full), to be tried again after {retry_after_seconds} s")
        }
    }
}

fn candidates(candidates: &[CandidateView], outcome: &OutcomeView) -> String {
    let widest = |title: &str, cell: fn(&CandidateView) -> usize| {
        candidates.iter().map(cell).max().unwrap_or(0).max(title.len())
    };
    let width = widest("replica", |candidate| candidate.name.len());
    // One target needs no column: it stands above.
    let several = candidates.iter().any(|candidate| candidate.target != candidates[0].target);
    let target = if several { widest("target", |candidate| candidate.target.len()) + 2 } else { 0 };
    let mut text = format!(
        "  {:width$}  {:target$}{:9} {:>9} {:>8} {:>8}  out because\n",
        "replica",
        if several { "target" } else { "" },
        "state",
        "in flight",
        "load",
        "waiting"
    );
    for candidate in candidates {
        let mark = if is_chosen(candidate, outcome) { '>' } else { ' ' };
        let line = format!(
            "{mark} {:width$}  {:target$}{:9} {:>9} {:>8.1} {:>8.1}  {}{}",
            candidate.name,
            if several { candidate.target.as_str() } else { "" },
            candidate.state,
            candidate.inflight,
            candidate.effective_running,
            candidate.effective_waiting,
            candidate.excluded.as_deref().unwrap_or_default(),
            parts(candidate),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(LEGEND);
    text
}

fn is_chosen(candidate: &CandidateView, outcome: &OutcomeView) -> bool {
    let OutcomeView::Replica { name, target, .. } = outcome else { return false };
    *name == candidate.name && target.as_ref().is_none_or(|target| *target == candidate.target)
}

/// What a candidate costs, or the total of its scores; and what that is made of.
fn parts(candidate: &CandidateView) -> String {
    if let Some(PredictedView { cost, wait, prefill, delays, slowed, known_blocks, .. }) = candidate.predicted
    {
        return format!(
            "cost {cost:.3} s: wait {wait:.3}, prefill {prefill:.3} of all but {known_blocks} blocks, delays {delays:.2}, slowed {slowed:.2}"
        );
    }
    if candidate.policies.is_empty() {
        return String::new();
    }
    let total: f64 = candidate.policies.iter().map(|part| part.part).sum();
    let each: Vec<String> =
        candidate.policies.iter().map(|part| format!("{} {:.3}", part.policy, part.part)).collect();
    format!("total {total:.3}: {}", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, state: &str, running: f64, excluded: Option<&str>) -> CandidateView {
        CandidateView {
            name: name.into(),
            target: "big/Qwen".into(),
            state: state.into(),
            effective_running: running,
            effective_waiting: 0.0,
            inflight: 1,
            excluded: excluded.map(Into::into),
            policies: Vec::new(),
            predicted: None,
        }
    }

    #[test]
    fn an_explanation_shows_verdict_numbers_and_steps() {
        let explained = ExplainedView {
            route: "qwen3".into(),
            key: Some("team-a".into()),
            targets: vec!["big/Qwen".into()],
            decision: Some(DecisionView {
                models: vec![("small".into(), 0.8), ("large".into(), 0.2)],
                confidence: 0.6,
                abstains: None,
            }),
            session: Some("00000000000000ff".into()),
            prefix: None,
            estimated_prompt_tokens: 120,
            outcome: OutcomeView::Replica {
                name: "http://a:8000".into(),
                target: Some("big/Qwen".into()),
                reason: "affinity_session".into(),
                spilled: false,
            },
            candidates: vec![
                candidate("http://a:8000", "live", 2.5, None),
                candidate("http://bb:8000", "ejected", 0.0, Some("ejected")),
            ],
            steps: vec!["pool: 1 of 2".into(), "no-wait: 1".into()],
        };
        let expected = "\
route    qwen3
key      team-a
target   big/Qwen
prompt   about 120 tokens
decision small 0.800, large 0.200; confidence 0.600
session  00000000000000ff
prefix   none
result   http://a:8000 (affinity_session)

  replica         state     in flight     load  waiting  out because
> http://a:8000   live              1      2.5      0.0
  http://bb:8000  ejected           1      0.0      0.0  ejected

In flight are this gateway's open requests. Load is no count: the larger of what the engine told last
and of their weights, where a heavy prompt weighs more than 1.

1. pool: 1 of 2
2. no-wait: 1
";
        assert_eq!(render(&explained), expected);
    }

    #[test]
    fn a_spill_and_why_there_is_no_replica_are_said_in_the_result() {
        assert_eq!(result(&OutcomeView::NoReplica { reason: "not_ready".into() }), "no replica (not_ready)");
        let spilled = OutcomeView::Replica {
            name: "http://a".into(),
            target: None,
            reason: "load".into(),
            spilled: true,
        };
        assert_eq!(result(&spilled), "http://a (load, spilled)");
        for (outcome, text) in [
            (OutcomeView::Waits { ahead: 0 }, "waits for a slot, first in line"),
            (OutcomeView::Waits { ahead: 3 }, "waits for a slot, behind 3"),
            (OutcomeView::Held { ahead: 0 }, "held back, first in line"),
            (OutcomeView::Held { ahead: 2 }, "held back, behind 2"),
            (
                OutcomeView::QueueFull { retry_after_seconds: 7 },
                "refused (queue_full), to be tried again after 7 s",
            ),
        ] {
            assert_eq!(result(&outcome), text);
        }
    }
}
