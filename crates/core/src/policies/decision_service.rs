//! The model that a service would take for this request.

use super::{Asked, Candidate};
use crate::ids::TargetIndex;

/// What a decision service has answered about one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    probabilities: Vec<f64>,
    confidence: f64,
}

impl Decision {
    /// `probabilities`: of the model of each target, in the order of the route's targets; 0 for one that was not asked
    /// about. `confidence`: 0 to 1; without one it is computed as (m - 1/n) / (1 - 1/n), m the largest of the `asked`
    /// = n probabilities. Values that are no numbers or below 0 count as 0, a confidence above 1 as 1.
    #[must_use]
    pub fn new(probabilities: Vec<f64>, confidence: Option<f64>, asked: usize) -> Self {
        let probabilities: Vec<f64> =
            probabilities.into_iter().map(|p| if p.is_finite() { p.max(0.0) } else { 0.0 }).collect();
        let computed = || {
            let most = probabilities.iter().copied().fold(0.0, f64::max);
            let even = 1.0 / asked.max(2) as f64;
            (most - even) / (1.0 - even)
        };
        let confidence = confidence.filter(|c| c.is_finite()).unwrap_or_else(computed).clamp(0.0, 1.0);
        Self { probabilities, confidence }
    }

    /// How sure the service is, 0 to 1: the policy's weight is multiplied by it.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    fn of(&self, target: TargetIndex) -> f64 {
        self.probabilities.get(target.index()).copied().unwrap_or(0.0)
    }
}

/// The probability of the target's model, for every candidate of it. Without an answer it abstains.
pub(super) fn score(asked: &Asked<'_>, candidates: &mut [Candidate]) {
    for candidate in candidates {
        candidate.score = asked.decision.map_or(0.0, |decision| decision.of(candidate.target));
    }
}
