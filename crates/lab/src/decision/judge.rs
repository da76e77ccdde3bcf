//! How hard a request looks, and which of some models is just large enough for it. A rule of thumb that is the same every
//! time, no measure of anything.

/// Words of requests that take some thought.
const HARD: [&str; 24] = [
    "prove",
    "proof",
    "derive",
    "theorem",
    "integral",
    "equation",
    "algorithm",
    "complexity",
    "refactor",
    "debug",
    "deadlock",
    "race",
    "concurrency",
    "architecture",
    "design",
    "optimize",
    "optimise",
    "analyse",
    "analyze",
    "strategy",
    "trade-offs",
    "contract",
    "diagnose",
    "step",
];
/// What one of them adds to the difficulty, and at how many words a text is as hard as a text can be by its length.
const PER_HARD_WORD: f64 = 0.7;
const LONG: f64 = 400.0;
/// What code adds.
const CODE: f64 = 0.4;
/// How much likelier the nearest model is than others.
const SHARPNESS: f64 = 6.0;

/// Words of names and descriptions that tell a model's size.
const SMALL: [&str; 10] =
    ["small", "mini", "tiny", "nano", "fast", "cheap", "easy", "simple", "quick", "short"];
const LARGE: [&str; 9] =
    ["large", "big", "huge", "max", "hard", "reasoning", "strong", "difficult", "complex"];

/// What the judge says about one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Of the request, 0 to 1.
    pub difficulty: f64,
    /// Of each model, in their order; they add up to 1.
    pub probabilities: Vec<f64>,
    /// 0: all models are alike to it; 1: it is sure.
    pub confidence: f64,
}

/// Judges the last turn of `state` (`user: ...`) and compares it with `models`: names and descriptions.
#[must_use]
pub fn judge(state: &str, models: &[(&str, Option<&str>)]) -> Judgement {
    let turn = state.rsplit("\n\nuser: ").next().unwrap_or(state);
    let difficulty = difficulty(turn.strip_prefix("user: ").unwrap_or(turn));
    let scores: Vec<f64> =
        strengths(models).into_iter().map(|own| (-SHARPNESS * (own - difficulty).abs()).exp()).collect();
    let sum: f64 = scores.iter().sum();
    let probabilities: Vec<f64> = scores.iter().map(|score| score / sum).collect();
    let even = 1.0 / models.len().max(2) as f64;
    let most = probabilities.iter().copied().fold(even, f64::max);
    Judgement { difficulty, probabilities, confidence: (most - even) / (1.0 - even) }
}

fn difficulty(text: &str) -> f64 {
    let text = text.to_lowercase();
    let words = || text.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| !word.is_empty());
    let hard = words().filter(|word| HARD.contains(word)).count() as f64;
    let long = words().count() as f64 / LONG;
    let code = if text.contains("```") { CODE } else { 0.0 };
    (PER_HARD_WORD * hard + long + code).min(1.0)
}

/// From the smallest model, 0, to the largest, 1, in equal steps.
fn strengths(models: &[(&str, Option<&str>)]) -> Vec<f64> {
    let sizes: Vec<f64> = models.iter().map(|(name, text)| size(name, text.unwrap_or_default())).collect();
    let smaller = |nth: usize| {
        let own = sizes.get(nth).copied().unwrap_or(0.0);
        let before = |(other, size): (usize, &f64)| *size < own || (*size == own && other < nth);
        sizes.iter().enumerate().filter(|each| before(*each)).count()
    };
    let steps = models.len().saturating_sub(1).max(1) as f64;
    (0..models.len()).map(|nth| smaller(nth) as f64 / steps).collect()
}

/// In billions of parameters: as the name has it, or else what the words suggest.
fn size(name: &str, text: &str) -> f64 {
    let name = name.to_lowercase();
    let parts = || name.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|part| !part.is_empty());
    let stated = parts().find_map(|part| part.strip_suffix('b')?.parse::<f64>().ok());
    let text = text.to_lowercase();
    let said = |words: &[&str]| {
        parts().chain(text.split(|c: char| !c.is_alphanumeric())).filter(|word| words.contains(word)).count()
    };
    stated.unwrap_or_else(|| match said(&LARGE).cmp(&said(&SMALL)) {
        std::cmp::Ordering::Less => 4.0,
        std::cmp::Ordering::Equal => 20.0,
        std::cmp::Ordering::Greater => 100.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(state: &str, models: &[(&str, Option<&str>)]) -> String {
        let Judgement { probabilities, .. } = judge(state, models);
        let largest = probabilities.iter().copied().fold(0.0, f64::max);
        let at = probabilities.iter().position(|p| *p == largest).expect("a model");
        models[at].0.to_owned()
    }

    #[test]
    fn easy_requests_are_for_small_models_and_hard_ones_for_large_ones() {
        let named = [("qwen3-4b", None), ("qwen3-32b", None)];
        let described = [("b", Some("Reasoning and hard questions")), ("a", Some("Short, easy answers"))];
        for (turn, [expected, by_words]) in [
            ("Hi", ["qwen3-4b", "a"]),
            ("What is the capital of Peru?", ["qwen3-4b", "a"]),
            ("Prove the theorem.", ["qwen3-32b", "b"]),
            ("Why does this deadlock?\n```rust\nlock(a)\n```", ["qwen3-32b", "b"]),
            (&"and so on ".repeat(150), ["qwen3-32b", "b"]),
        ] {
            assert_eq!(best(&format!("user: {turn}"), &named), expected, "{turn}");
            assert_eq!(best(&format!("user: {turn}"), &described), by_words, "{turn}");
        }
    }

    #[test]
    fn the_last_turn_alone_is_judged() {
        let models = [("small", None), ("large", None)];
        let state =
            "system: Prove everything.\n\nuser: Derive the proof.\n\nassistant: Done.\n\nuser: Thanks";
        assert_eq!(best(state, &models), "small");
    }

    #[test]
    fn probabilities_add_up_and_confidence_is_what_the_format_computes() {
        let models = [("a-4b", None), ("b-14b", None), ("c-70b", None)];
        for state in ["", "user: Hi", "user: Prove it", "user: Prove the theorem by an algorithm"] {
            let Judgement { probabilities, confidence, .. } = judge(state, &models);
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let most = probabilities.iter().copied().fold(0.0, f64::max);
            assert!((confidence - (most - 1.0 / 3.0) / (2.0 / 3.0)).abs() < 1e-12, "{state}");
        }
        assert_eq!(best("user: Prove it", &models), "b-14b");
    }
}
