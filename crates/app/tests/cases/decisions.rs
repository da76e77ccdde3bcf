//! The decision service: when it is asked, what it is asked, and what its answers do.

use std::io::Write as _;

use serde_json::{Value, json};
use sluicegate_testkit::answers::json_answer;
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, Received, Step, Upstream, send, until};
use tempfile::NamedTempFile;

use crate::checks::assert_line;

/// A small and a large model behind one name, and the service that decides between them.
pub(crate) struct Decided {
    pub(crate) small: Upstream,
    pub(crate) large: Upstream,
    pub(crate) service: Upstream,
}

impl Decided {
    /// The service says `large` unless told otherwise.
    pub(crate) fn start() -> Self {
        let decided = Self {
            small: Upstream::start("tiny"),
            large: Upstream::start("huge"),
            service: Upstream::start("jev"),
        };
        decided.service.answer_with(says(0.1, 0.9));
        decided
    }

    /// `more`: further keys of the policy. A slow machine is no reason for a timeout unless one is asked for.
    pub(crate) fn config(&self, more: &str) -> Config {
        let timeout = if more.contains("timeout") { "" } else { ", timeout = \"1000s\"" };
        let route = format!(
            "targets = [{{ pool = \"pool\", upstream_model = \"tiny\" }}, {{ pool = \"big\", upstream_model = \"huge\", \
             description = \"Hard questions\" }}]\npolicies = [{{ kind = \"least_inflight\" }}, {{ kind = \
             \"decision_service\", base_url = \"{}\", instructions = \"Choose.\"{timeout}{more} }}]",
            self.service.url()
        );
        Config::new(&[&self.small]).pool("big", &[&self.large]).whole_route("all", &route)
    }

    pub(crate) async fn bench(&self, more: &str) -> Bench {
        Bench::live(&self.config(more), 2).await
    }

    /// Questions that have come in.
    pub(crate) fn questions(&self) -> u64 {
        self.service.counts().requests.get()
    }
}

/// The answer of a service that is sure of its probabilities.
pub(crate) fn says(small: f64, large: f64) -> Vec<Step> {
    answers(&json!({ "type": "choice", "choice": "huge", "probabilities": { "tiny": small, "huge": large },
        "confidence": 1.0 }))
}

pub(crate) fn answers(selection: &Value) -> Vec<Step> {
    let body = json!({ "model": "jev-1", "answers": { "model_selection": selection }, "usage": {} });
    vec![send(json_answer(200, &body.to_string()))]
}

pub(crate) fn request(text: &str) -> Vec<u8> {
    let body = json!({ "model": "all", "messages": [{ "role": "user", "content": text }] });
    post(CHAT, body.to_string().as_bytes())
}

pub(crate) async fn count(bench: &Bench, name: &str, label: &str) -> f64 {
    bench.metric(&format!("sluicegate_decision_{name}_total{{route=\"all\",{label}}}")).await
}

#[tokio::test]
async fn its_answer_chooses_the_model_and_the_usage_line_says_policy() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    for (n, (small, large, pool, model)) in
        [(0.1, 0.9, "big", "huge"), (0.9, 0.1, "pool", "tiny")].into_iter().enumerate()
    {
        decided.service.answer_with(says(small, large));
        assert_eq!(bench.ask(&request(&format!("question {n}"))).await.status(), 200);
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        assert_line(
            &line,
            &[
                ("reason", json!("policy")),
                ("pool", json!(pool)),
                ("model", json!("all")),
                ("upstream_model", json!(model)),
            ],
        );
    }
    assert!(decided.large.only_request().text().contains(r#""model":"huge""#));
    assert!(decided.small.only_request().text().contains(r#""model":"tiny""#));
}

#[tokio::test]
async fn the_question_is_what_the_wire_format_says() {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(b"s3cret\n").expect("written");
    let decided = Decided::start();
    let tokens = format!(", model = \"jev-9\", tokens = [\"file:{}\"]", file.path().display());
    let bench = decided.bench(&tokens).await;
    let body = json!({ "model": "all", "messages": [{ "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Hi" }] });
    bench.ask(&post(CHAT, body.to_string().as_bytes())).await;
    let asked = decided.service.only_request();
    assert_eq!((asked.head.method(), asked.head.target()), ("POST", "/v1/systemone"));
    assert_eq!(asked.head.get("authorization"), Some("Bearer s3cret"));
    assert_eq!(asked.head.get("content-type"), Some("application/json"));
    let expected = json!({ "model": "jev-9", "state": "system: Be brief.\n\nuser: Hi", "questions": {
        "model_selection": { "type": "choice", "instructions": "Choose.",
            "criteria": { "tiny": null, "huge": "Hard questions" } } } });
    assert_eq!(asked.json(), expected);
}

#[tokio::test]
async fn only_talks_are_asked_about() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    for (path, body) in [
        ("/v1/completions", r#"{"model":"all","prompt":"hi"}"#),
        ("/v1/embeddings", r#"{"model":"all","input":"hi"}"#),
        ("/tokenize", r#"{"model":"all","prompt":"hi"}"#),
        ("/v1/messages/count_tokens", r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#),
        ("/v1/chat/completions", r#"{"model":"all","messages":[]}"#),
    ] {
        bench.ask(&post(path, body.as_bytes())).await;
        assert_eq!(decided.questions(), 0, "{path}");
    }
    for (nth, (path, body)) in [
        ("/v1/chat/completions", r#"{"model":"all","messages":[{"role":"user","content":"a"}]}"#),
        ("/v1/messages", r#"{"model":"all","messages":[{"role":"user","content":"b"}]}"#),
        ("/v1/responses", r#"{"model":"all","input":"c"}"#),
    ]
    .into_iter()
    .enumerate()
    {
        bench.ask(&post(path, body.as_bytes())).await;
        assert_eq!(decided.questions(), nth as u64 + 1, "{path}");
    }
    bench.assert_idle(8).await;
}

#[tokio::test]
async fn nobody_is_asked_where_one_model_is_left_or_a_route_has_no_service() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    // The route of the pool's own model has no policies.
    bench.ask(&post(CHAT, &chat("tiny", ""))).await;
    decided.large.stop();
    bench.wait_health(&decided.large, sluicegate_testkit::Health::Ejected).await;
    let answer = bench.ask(&request("hi")).await;
    assert_eq!((answer.status(), decided.questions()), (200, 0));
    bench.assert_idle(2).await;
}

#[tokio::test]
async fn a_second_equal_request_takes_the_answer_that_is_known() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    for _ in 0..3 {
        bench.ask(&request("the same")).await;
    }
    bench.ask(&request("another")).await;
    assert_eq!(decided.questions(), 2);
    assert_eq!(count(&bench, "requests", "from=\"service\"").await, 2.0);
    assert_eq!(count(&bench, "requests", "from=\"cache\"").await, 2.0);
    assert_eq!(bench.metric("sluicegate_decision_seconds_count{route=\"all\"}").await, 2.0);
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn without_a_cache_each_request_asks() {
    let decided = Decided::start();
    let bench = decided.bench(", cache_ttl = \"0s\"").await;
    for n in 1..=3 {
        bench.ask(&request("the same")).await;
        assert_eq!(decided.questions(), n);
    }
}

/// The service answers when the gate opens.
fn slowly(decided: &Decided) -> Gate {
    let gate = Gate::new();
    let waits = gate.clone();
    decided
        .service
        .on_request(move |_: &Received| [vec![Step::Wait(waits.clone())], says(0.1, 0.9)].concat());
    gate
}

#[tokio::test]
async fn equal_requests_at_the_same_time_ask_once_and_one_that_leaves_cancels_nobody() {
    let decided = Decided::start();
    let gate = slowly(&decided);
    let bench = decided.bench("").await;
    let mut first = bench.client().await;
    first.send(&request("the same")).await;
    decided.service.counts().requests.reached(1).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        let mut client = bench.client().await;
        client.send(&request("the same")).await;
        others.push(client);
    }
    until(|| bench.open_requests() == 5).await;
    first.close().await;
    until(|| bench.open_requests() == 4).await;
    gate.open();
    for client in &mut others {
        assert_eq!(client.answer().await.status(), 200);
    }
    let lines = bench.assert_idle(5).await;
    let ends = |outcome: &str| lines.iter().filter(|line| line["outcome"] == outcome).count();
    assert_eq!((ends("client_gone"), ends("ok"), decided.questions()), (1, 4, 1));
    let gone = lines.iter().find(|line| line["outcome"] == "client_gone").expect("the one that left");
    assert_line(gone, &[("attempts", json!(0)), ("pool", Value::Null)]);
    assert_eq!(decided.large.counts().requests.get(), 4, "all of them go where the answer says");
}

#[tokio::test]
async fn a_missing_confidence_is_computed_and_scales_the_weight() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    // (0.75 - 1/2) / (1 - 1/2) = 0.5, so the policy's 10 weigh 5.
    let selection =
        json!({ "type": "choice", "choice": "huge", "probabilities": { "tiny": 0.25, "huge": 0.75 } });
    decided.service.answer_with(answers(&selection));
    let told = explain(&bench, true).await;
    assert_eq!(
        told["decision"],
        json!({ "models": [["tiny", 0.25], ["huge", 0.75]], "confidence": 0.5, "abstains": null })
    );
    let part = |nth: usize| {
        let parts = told["candidates"][nth]["policies"].as_array().expect("parts").clone();
        parts.iter().find(|part| part["policy"] == "decision_service").expect("its part")["part"].as_f64()
    };
    assert_eq!((part(0), part(1)), (Some(1.25), Some(3.75)));
}

async fn explain(bench: &Bench, decide: bool) -> Value {
    let asked = json!({ "path": CHAT, "decide": decide, "body": { "model": "all", "messages": [
        { "role": "user", "content": "hi" }] } });
    let body = asked.to_string();
    let address = bench.admin_address();
    let request = format!(
        "POST /api/explain HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = sluicegate_testkit::RawClient::connect(address).await;
    let answer = client.exchange(request.as_bytes()).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn an_explanation_asks_nobody_unless_it_is_to_and_knows_what_requests_learned() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    assert_eq!(explain(&bench, false).await["decision"]["abstains"], json!("not_asked"));
    assert_eq!(decided.questions(), 0);
    bench.ask(&request("hi")).await;
    let told = explain(&bench, false).await;
    assert_eq!(told["decision"]["models"], json!([["tiny", 0.1], ["huge", 0.9]]));
    assert_eq!(told["outcome"]["replica"]["reason"], json!("policy"));
    assert_eq!(decided.questions(), 1);
    bench.assert_idle(1).await;
}
