//! The steps of a choice in words.

use super::{Candidate, requests};
use crate::choose::{Branch, Choice, Scope, Survey};
use crate::ids::ReplicaId;
use crate::modes::Mode;
use crate::pick::{NoReplica, Reason};

pub(super) fn steps(
    asked: &[Branch<'_>],
    scope: Scope,
    survey: &Survey,
    candidates: &[Candidate],
    choice: Result<&Choice, &NoReplica>,
) -> Vec<String> {
    let name = |branch: usize, id: ReplicaId| {
        let at = |branch: &Branch<'_>| branch.view.place(id);
        let found = asked.get(branch).and_then(|branch| branch.view.replicas.get(at(branch)?));
        found.map_or("?", |replica| replica.name.as_str())
    };
    let mode = asked.first().map_or(Mode::Adaptive, |branch| branch.request.mode);
    let mut steps = Vec::new();
    if let (Mode::Weighted(shares), [Branch { targets: [due], .. }]) = (mode, asked) {
        let (weight, number) = (shares.of(*due), due.0 + 1);
        steps.push(format!("share: target {number} of the route has its turn, its weight is {weight}"));
    }
    steps.push(format!(
        "pool: {} of {} replicas serve the model, {} of them tried, {} LIVE or PROBING",
        survey.known,
        asked.iter().map(|branch| branch.view.replicas.len()).sum::<usize>(),
        survey.tried,
        survey.in_service
    ));
    let open = candidates.iter().filter(|candidate| candidate.excluded.is_none()).count();
    if mode.takes_five_steps() {
        let room = match scope {
            Scope::Anywhere => "without a queue",
            Scope::WithSlot | Scope::WithRoom => "without a queue and with a free slot",
        };
        steps.push(if survey.no_wait.is_some() {
            format!("no-wait: {open} LIVE {room}, only they are candidates")
        } else {
            format!("no-wait: no LIVE replica is {room}, {open} candidates")
        });
        if let Some(least) = survey.least_loaded() {
            let at = name(least.branch, least.id);
            steps.push(format!("least loaded: {at} with {:.3} running", requests(least.running)));
        }
    } else if let (0, Some(hold)) = (open, asked.first().and_then(|branch| branch.hold(scope))) {
        steps.push(format!("candidates: none with at most {} s of prefill queued", hold.as_secs_f64()));
    } else if matches!(mode, Mode::Predictive) {
        steps.push(format!("candidates: {open}, whatever their load"));
    } else {
        steps.push(format!("candidates: {open}, LIVE ones or, without any, PROBING ones"));
    }
    steps.push(match choice {
        Err(none) => format!("fallback: {none}"),
        Ok(choice) => last_step(choice, name(choice.branch, choice.replica)),
    });
    steps
}

fn last_step(choice: &Choice, name: &str) -> String {
    match choice.reason {
        Reason::LastResort => format!("fallback: a random EJECTED replica, {name}"),
        Reason::Policy => format!("policies: the largest total, goes to {name}"),
        Reason::RoundRobin => format!("turn: goes to {name}"),
        Reason::Predicted if choice.stays() => {
            format!("cost: the lowest, goes to {name}, where the session's last turn was answered")
        }
        Reason::Predicted => format!("cost: the lowest, goes to {name}"),
        _ => format!("pin: {}, goes to {name}", pin_words(choice)),
    }
}

fn pin_words(choice: &Choice) -> &'static str {
    match (choice.reason, choice.spilled) {
        (Reason::AffinitySession, false) => "the session's replica is usable",
        (Reason::AffinityPrefix, false) => "the prefix's replica is usable",
        (Reason::AffinitySession | Reason::AffinityPrefix, true) => {
            "the owner is not usable, the next one is"
        }
        (Reason::Pinned, _) => "bound to the only replica that can serve it",
        (Reason::Rebind, _) => "not usable, moves to the least loaded",
        (_, true) => "not usable, spilled to the least loaded",
        (_, false) => "none to follow",
    }
}
