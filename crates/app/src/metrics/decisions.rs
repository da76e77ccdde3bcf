//! What decision services were asked, and what came of it.

use sluicegate_proxy::Abstention;

use super::family::{Family, Labels};
use crate::decisions::DecisionsView;

pub(super) fn families(views: &[DecisionsView]) -> Vec<Family> {
    let labels = |view: &DecisionsView| -> Labels { vec![("route", view.route.clone())] };
    let with = |view: &DecisionsView, name, value: &str| {
        let mut labels = labels(view);
        labels.push((name, value.to_owned()));
        labels
    };
    let requests = views.iter().flat_map(|view| {
        view.requests.iter().map(move |(from, count)| (with(view, "from", from.as_str()), *count))
    });
    let abstentions = views.iter().flat_map(|view| {
        // Nobody but an explanation leaves a service unasked, and explanations are not counted then.
        let told = view.abstentions.iter().filter(|(cause, _)| *cause != Abstention::NotAsked);
        told.map(move |(cause, count)| (with(view, "cause", cause.as_str()), *count))
    });
    vec![
        Family::counts(
            "sluicegate_decision_requests",
            "Requests that a decision was wanted for, by where it came from",
            requests.collect(),
        ),
        Family::counts(
            "sluicegate_decision_abstentions",
            "Requests that went on without a decision, by cause",
            abstentions.collect(),
        ),
        Family::histograms(
            "sluicegate_decision_seconds",
            "How long the decision service took",
            views.iter().map(|view| (labels(view), view.seconds.clone())).collect(),
        ),
    ]
}
