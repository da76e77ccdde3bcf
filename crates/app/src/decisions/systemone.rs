//! The wire format of decision services (System One).

use std::collections::HashMap;

use serde::{Deserialize, Serialize, Serializer};
use sluicegate_proxy::{Criterion, Says};

use crate::config::DecisionServicePlan;

/// Where questions go, below the base URL.
pub(crate) const PATH: &str = "/v1/systemone";
/// How far a probability may lie beyond 1: sums of floats do.
const BEYOND: f64 = 1e-6;

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    state: &'a str,
    questions: Questions<'a>,
}

#[derive(Serialize)]
struct Questions<'a> {
    model_selection: Choice<'a>,
}

#[derive(Serialize)]
struct Choice<'a> {
    r#type: &'static str,
    instructions: &'a str,
    #[serde(serialize_with = "in_order")]
    criteria: &'a [Criterion],
}

/// An object whose members keep the order of the targets.
fn in_order<S: Serializer>(criteria: &&[Criterion], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(criteria.iter().map(|criterion| (&*criterion.model, criterion.text.as_deref())))
}

#[derive(Deserialize)]
struct Answered {
    answers: Answers,
}

#[derive(Deserialize)]
struct Answers {
    model_selection: Selection,
}

#[derive(Deserialize)]
struct Selection {
    probabilities: HashMap<String, f64>,
    confidence: Option<f64>,
}

/// The body of a question.
pub(super) fn question(plan: &DecisionServicePlan, state: &str, criteria: &[Criterion]) -> Vec<u8> {
    let choice = Choice { r#type: "choice", instructions: &plan.instructions, criteria };
    let asked = Asked { model: &plan.model, state, questions: Questions { model_selection: choice } };
    serde_json::to_vec(&asked).unwrap_or_default()
}

/// What an answer says of these models; others are ignored, and one that is not mentioned has the probability 0. None: it
/// is no answer to the question.
pub(super) fn answer(body: &[u8], criteria: &[Criterion]) -> Option<Says> {
    let Selection { probabilities, confidence } =
        serde_json::from_slice::<Answered>(body).ok()?.answers.model_selection;
    let of = |criterion: &Criterion| probabilities.get(&*criterion.model).copied().unwrap_or(0.0);
    let probabilities: Vec<f64> = criteria.iter().map(of).collect();
    let sound = probabilities.iter().all(|p| (0.0..=1.0 + BEYOND).contains(p));
    let says_something = probabilities.iter().sum::<f64>() > 0.0;
    (sound && says_something).then_some(Says { probabilities, confidence })
}

#[cfg(test)]
mod tests;
