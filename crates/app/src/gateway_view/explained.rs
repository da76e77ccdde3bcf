//! An explanation with names in the place of numbers, and what would be done at the fallback put behind the rest.

use std::sync::Arc;

use sluicegate_core::{Candidate, NoPlace, Predicted, Reason};
use sluicegate_proxy::{Explained, ExplainedDecision, ExplainedWay, Key, Refusal, TargetName};

use crate::inspect::{
    CandidateView, DecisionView, ExplainedView, OutcomeView, PartView, PredictedView, health_name,
    no_replica_name,
};

pub(super) fn view(explained: Explained, key: Option<&Key>) -> ExplainedView {
    let hash = |hash: u64| format!("{hash:016x}");
    let mut view = ExplainedView {
        route: String::from(&*explained.route),
        key: key.map(|key| String::from(&**key.name())),
        targets: Vec::new(),
        decision: explained.decision.map(decision_view),
        session: explained.session.map(hash),
        prefix: explained.prefix.map(hash),
        estimated_prompt_tokens: explained.estimated_prompt_tokens,
        outcome: OutcomeView::NoReplica { reason: "none_known".into() },
        candidates: Vec::new(),
        steps: Vec::new(),
    };
    for (nth, way) in explained.ways.into_iter().enumerate() {
        add(&mut view, way, nth > 0);
    }
    view
}

/// What would be done one way. `fallback`: it is asked only where the targets could not serve.
fn add(view: &mut ExplainedView, way: ExplainedWay, fallback: bool) {
    let ExplainedWay { targets, explanation } = way;
    let names: Vec<String> = targets.iter().map(name).collect();
    let asked =
        !fallback || matches!(view.outcome, OutcomeView::NoReplica { .. } | OutcomeView::QueueFull { .. });
    let found = explanation.candidates.iter().map(|candidate| {
        let target = names.get(candidate.target.0 as usize).cloned().unwrap_or_default();
        let excluded = (!asked).then_some("the fallback, asked when no target can serve");
        candidate_view(candidate, target, excluded)
    });
    view.candidates.extend(found);
    view.targets.extend(names.iter().cloned());
    if !asked {
        return;
    }
    if fallback {
        view.steps.push("no target can serve: the fallback is asked".into());
    }
    view.steps.extend(explanation.steps);
    let outcome = match explanation.outcome {
        Ok(chosen) => {
            let same = |c: &&Candidate| (c.lane, c.replica) == (chosen.lane, chosen.replica);
            let replica = explanation.candidates.iter().find(same);
            let reason = if fallback { Reason::Fallback } else { chosen.reason };
            OutcomeView::Replica {
                name: replica.map(|candidate| candidate.name.clone()).unwrap_or_default(),
                target: chosen.target.and_then(|target| names.get(target.0 as usize).cloned()),
                reason: reason.as_str().to_owned(),
                spilled: chosen.spilled,
            }
        }
        // What the targets said is worth more than that the fallback cannot serve either.
        Err(_) if fallback => return,
        Err(why) => nowhere(why),
    };
    view.outcome = outcome;
}

fn nowhere(why: NoPlace) -> OutcomeView {
    match why {
        NoPlace::NoReplica(cause) => OutcomeView::NoReplica { reason: no_replica_name(cause).to_owned() },
        NoPlace::Waits { ahead } => OutcomeView::Waits { ahead: ahead as u64 },
        NoPlace::Held { ahead } => OutcomeView::Held { ahead: ahead as u64 },
        NoPlace::Full { retry_after } => {
            let refusal = Refusal::QueueFull { retry_after };
            OutcomeView::QueueFull { retry_after_seconds: refusal.retry_after().unwrap_or_default() }
        }
    }
}

/// A target as usage lines name it; without a model where it is asked for whatever the client asks for.
pub(super) fn name(target: &TargetName) -> String {
    match &target.upstream_model {
        Some(model) => format!("{}/{model}", target.pool),
        None => String::from(&*target.pool),
    }
}

fn decision_view(decision: ExplainedDecision) -> DecisionView {
    let ExplainedDecision { models, answer, confidence } = decision;
    let probability = |nth: usize| answer.as_ref().ok().and_then(|all| all.get(nth)).copied();
    let model = |(nth, model): (usize, Arc<str>)| (String::from(&*model), probability(nth).unwrap_or(0.0));
    DecisionView {
        models: models.into_iter().enumerate().map(model).collect(),
        confidence,
        abstains: answer.as_ref().err().map(|why| why.as_str().to_owned()),
    }
}

fn predicted_view(predicted: Predicted) -> PredictedView {
    let Predicted { known_blocks, wait, prefill, forgiven, delays, slowed, cost } = predicted;
    PredictedView { cost, wait, prefill, forgiven, delays, slowed, known_blocks }
}

fn candidate_view(candidate: &Candidate, target: String, excluded: Option<&str>) -> CandidateView {
    let part = |(policy, part): &(sluicegate_core::Policy, f64)| PartView {
        policy: policy.as_str().to_owned(),
        part: *part,
    };
    CandidateView {
        name: candidate.name.clone(),
        target,
        state: health_name(candidate.health).to_owned(),
        effective_running: candidate.effective_running,
        effective_waiting: candidate.effective_waiting,
        inflight: candidate.inflight,
        excluded: excluded.or(candidate.excluded).map(str::to_owned),
        policies: candidate.parts.iter().map(part).collect(),
        predicted: candidate.predicted.map(predicted_view),
    }
}
