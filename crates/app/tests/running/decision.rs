//! A gateway with a decision service, as a process: what its logs hold, and what `explain` shows.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use sluicegate_lab::decision::DecisionSim;
use sluicegate_testkit::answers::json_answer;
use sluicegate_testkit::{Upstream, patiently, send};
use tempfile::NamedTempFile;

use crate::hosted_tls::Provider;
use crate::http::{CHAT, get, post};
use crate::process::{BINARY, Process};

/// A route `chat` to two models that `service` decides between.
fn file(small: &Upstream, large: &Upstream, service: &str) -> NamedTempFile {
    let mut text = String::from("[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n");
    for (name, replica) in [("small", small), ("large", large)] {
        let _ = writeln!(text, "[[pools]]\nname = {name:?}\nreplicas = [{:?}]", replica.url());
    }
    let _ = writeln!(
        text,
        "[[routes]]\nmodel = \"chat\"\ntargets = [{{ pool = \"small\", upstream_model = \"tiny-4b\" }}, {{ pool = \
         \"large\", upstream_model = \"huge-70b\" }}]\n[[routes.policies]]\nkind = \
         \"least_inflight\"\n[[routes.policies]]\nkind = \"decision_service\"\nbase_url = \"{service}\"\ntokens = \
         [\"env:DECISION_TOKEN\"]"
    );
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// With a log as talkative as it can be.
fn gateway(file: &NamedTempFile) -> Process {
    start(Command::new(BINARY), file)
}

fn start(mut command: Command, file: &NamedTempFile) -> Process {
    command.args(["serve", "--config", file.path().to_str().unwrap()]);
    Process::spawn_with(command.env("DECISION_TOKEN", "t0ps3cret").stdout(Stdio::piped()), "trace")
}

/// Until then there is nothing to decide.
async fn both_live(admin: SocketAddr) {
    let live = |body: &str| body.matches(r#""state":"live""#).count() == 2;
    patiently(async { while !live(&get(admin, "/api/state").await.body) {} }).await;
}

fn chat(text: &str) -> String {
    format!(r#"{{"model":"chat","messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

#[tokio::test]
async fn neither_tokens_nor_conversations_reach_the_log() {
    let (small, large) = (Upstream::start("tiny-4b"), Upstream::start("huge-70b"));
    let service = Upstream::start("jev");
    let file = file(&small, &large, &service.url());
    let mut process = gateway(&file);
    let (address, admin) = process.addresses();
    both_live(admin).await;
    for (nth, answer) in [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nno!".to_vec(), json_answer(401, "{}")]
        .into_iter()
        .enumerate()
    {
        service.answer_with(vec![send(answer)]);
        assert_eq!(post(address, CHAT, &chat(&format!("pr1vate question {nth}"))).await.status, 200);
        assert_eq!(service.counts().requests.get(), nth as u64 + 1);
    }
    process.terminate();
    let ended = process.ended().await;
    assert!(ended.stderr.contains("the decision service refuses token 1"), "{}", ended.stderr);
    for secret in ["t0ps3cret", "pr1vate"] {
        assert!(!ended.stderr.contains(secret), "{secret} in {}", ended.stderr);
        assert!(!ended.stdout.contains(secret), "{secret} in {}", ended.stdout);
    }
}

#[tokio::test]
async fn explain_shows_what_the_service_says_when_it_is_told_to_ask() {
    let (small, large) = (Upstream::start("tiny-4b"), Upstream::start("huge-70b"));
    let service = DecisionSim::start(([127, 0, 0, 1], 0).into()).unwrap();
    let file = file(&small, &large, &format!("http://{}", service.addr()));
    let mut process = gateway(&file);
    let (_, admin) = process.addresses();
    both_live(admin).await;
    let admin = format!("http://{admin}");
    let explain = |more: &'static [&'static str]| {
        let words = ["explain", "--admin", &admin, "--model", "chat", "--text", "Prove the theorem."];
        Process::start(&[&words, more].concat()).ended()
    };
    let unasked = explain(&[]).await.stdout;
    assert!(unasked.contains("decision none known; --decide asks the service"), "{unasked}");
    let asked = explain(&["--decide"]).await.stdout;
    assert!(asked.contains("decision tiny-4b 0.") && asked.contains("huge-70b 0."), "{asked}");
    assert!(asked.contains(&format!("result   {} (policy)", large.url())), "{asked}");
    let known = explain(&[]).await.stdout;
    assert!(known.contains("decision tiny-4b 0."), "{known}");
}

#[tokio::test]
async fn a_service_is_asked_over_tls_and_one_that_is_not_who_it_should_be_is_told_nothing() {
    let (small, large) = (Upstream::start("tiny-4b"), Upstream::start("huge-70b"));
    let body = r#"{"answers":{"model_selection":{"probabilities":{"huge-70b":1},"confidence":1}}}"#;
    for (name, trusted) in [("localhost", true), ("elsewhere.internal", false)] {
        let service = Provider::start(name).await;
        service.upstream.answer_with(vec![send(json_answer(200, body))]);
        let file = file(&small, &large, &format!("https://localhost:{}", service.address.port()));
        let mut certificates = NamedTempFile::new().unwrap();
        certificates.write_all(service.pem.as_bytes()).unwrap();
        let mut command = Command::new(BINARY);
        command.env("SSL_CERT_FILE", certificates.path());
        let mut process = start(command, &file);
        let (address, admin) = process.addresses();
        both_live(admin).await;
        assert_eq!(post(address, CHAT, &chat("hi")).await.status, 200);
        let page = get(admin, "/metrics").await.body;
        let failed = r#"sluicegate_decision_abstentions_total{route="chat",cause="unreachable"} 1"#;
        assert_eq!(page.contains(failed), !trusted, "{name}: {page}");
        assert_eq!(service.upstream.counts().requests.get(), u64::from(trusted), "{name}");
    }
    assert!(large.counts().requests.get() >= 1, "the answer that came was followed");
}
