//! `demo --routes`: a small and a large model behind one name, and a decision service that says which one a question
//! deserves.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};
use sluicegate_lab::decision::DecisionSim;
use sluicegate_lab::sim::{Sim, SimConfig};

use super::Stage;
use crate::app::App;
use crate::cli::{Failure, write_out};
use crate::inspect::{DecisionView, ExplainRequest};
use crate::one_call::{Answer, call};

/// The public name.
pub(super) const MODEL: &str = "demo";
pub(super) const WHAT: &str = "a small and a large simulated model, 2 replicas each, and a decision service";
/// The engines' names, what they are good at, and the longest answers of each.
const MODELS: [(&str, &str, u32); 2] =
    [("demo-4b", "Short and easy questions", 48), ("demo-32b", "Hard questions, proofs, code", 192)];
const CHAT: &str = "/v1/chat/completions";
/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(400);
/// What is asked, over and over.
const QUESTIONS: [&str; 10] = [
    "Hello!",
    "What is the capital of Peru?",
    "Prove that the square root of 2 is irrational.",
    "Translate 'good morning' to Finnish.",
    "Why does this deadlock? ```lock(a); lock(b);```",
    "Name three colours.",
    "Derive the complexity of this algorithm.",
    "Thanks!",
    "Refactor this design for concurrency.",
    "How do I boil an egg?",
];

/// The replicas of both models, and the service.
pub(super) fn stage() -> io::Result<Stage> {
    let sim = |(model, _, most): (&str, _, u32)| {
        let config = SimConfig {
            replicas: 2,
            model: model.to_owned(),
            output_tokens: (most / 8, most),
            ..SimConfig::default()
        };
        Sim::start(config)
    };
    let sims = MODELS.into_iter().map(sim).collect::<io::Result<_>>()?;
    Ok(Stage { sims, judge: Some(DecisionSim::start(([127, 0, 0, 1], 0).into())?) })
}

/// The file that such a gateway would have.
pub(super) fn configuration(stage: &Stage) -> String {
    let mut pools = String::new();
    let mut route = format!("[[routes]]\nmodel = \"{MODEL}\"\n");
    for (sim, (model, about, _)) in stage.sims.iter().zip(MODELS) {
        let replicas: Vec<String> = sim.addrs().iter().map(|address| format!("http://{address}")).collect();
        // Writing into a String cannot fail.
        let _ = writeln!(pools, "[[pools]]\nname = {model:?}\nreplicas = {replicas:?}");
        let _ = writeln!(
            route,
            "[[routes.targets]]\npool = {model:?}\nupstream_model = {model:?}\ndescription = {about:?}"
        );
    }
    route.push_str("[[routes.policies]]\nkind = \"least_inflight\"\n");
    if let Some(judge) = &stage.judge {
        let _ = writeln!(
            route,
            "[[routes.policies]]\nkind = \"decision_service\"\nbase_url = \"http://{}\"",
            judge.addr()
        );
    }
    pools + &route
}

/// Asks one question after the other and says where each went and why. Ends by an error, or when nobody reads it any more.
pub(super) async fn ask(app: &App) -> Result<(), Failure> {
    if write_out(&line("question", "model", "what the service says")).is_err() {
        return Ok(());
    }
    for question in QUESTIONS.iter().cycle() {
        let why = why(app, question).await;
        let model = answered_by(app, question).await.map_err(Failure::running)?;
        if write_out(&line(question, &model, &why)).is_err() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

fn line(question: &str, model: &str, why: &str) -> String {
    format!("{question:<50} {model:<9} {why}\n")
}

fn body(question: &str) -> Vec<u8> {
    json!({ "model": MODEL, "messages": [{ "role": "user", "content": question }] }).to_string().into_bytes()
}

/// What the decision service says to the gateway, which knows it when the question comes.
async fn why(app: &App, question: &str) -> String {
    let request = ExplainRequest {
        method: "POST".into(),
        target: CHAT.into(),
        headers: vec![("content-type".into(), "application/json".into())],
        body: body(question),
        key: None,
        decide: true,
    };
    match app.inspect().explain(&request).await.map(|explained| explained.decision) {
        Ok(Some(decision)) => told(&decision),
        Ok(None) => "is not asked: one model is left".into(),
        Err(refused) => refused.message,
    }
}

fn told(decision: &DecisionView) -> String {
    if let Some(why) = &decision.abstains {
        return format!("nothing ({why}): the load decides");
    }
    let each: Vec<String> = decision.models.iter().map(|(model, p)| format!("{model} {p:.2}")).collect();
    format!("{}; sure {:.2}", each.join(", "), decision.confidence)
}

/// The model that answers, by the answer itself.
async fn answered_by(app: &App, question: &str) -> anyhow::Result<String> {
    let address = app.address().to_string();
    let request = Request::post(CHAT)
        .header("host", &address)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body(question))))?;
    let Answer { status, body } = call(&address, request, "gateway").await?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    Ok(match answer.get("model").and_then(Value::as_str) {
        Some(model) => model.to_owned(),
        None => format!("none, {status}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_model_and_why_and_fits_a_terminal_for_most_questions() {
        let decision = DecisionView {
            models: vec![("demo-4b".into(), 0.998), ("demo-32b".into(), 0.002)],
            confidence: 0.996,
            abstains: None,
        };
        let line = line("Hello!", "demo-4b", &told(&decision));
        let expected = "demo-4b   demo-4b 1.00, demo-32b 0.00; sure 1.00\n";
        assert_eq!(line, format!("{:<50} {expected}", "Hello!"));
        let silent = DecisionView { abstains: Some("timeout".into()), ..decision };
        assert_eq!(told(&silent), "nothing (timeout): the load decides");
    }
}
