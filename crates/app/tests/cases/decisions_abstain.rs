//! A decision service that does not do its part: the policy abstains, and the request goes on.

use std::io::Write as _;

use serde_json::json;
use sluicegate_testkit::answers::{answer, error_answer, json_answer};
use sluicegate_testkit::{Received, Step, send};
use tempfile::NamedTempFile;

use crate::checks::assert_line;
use crate::decisions::{Decided, answers, count, request, says};

/// What each failure of the service is called.
fn failures() -> Vec<(&'static str, Vec<Step>)> {
    let huge = format!("{{\"answers\":\"{}\"}}", "x".repeat(100_000));
    let selection = |text: &str| format!("{{\"answers\":{{\"model_selection\":{text}}}}}");
    vec![
        ("status", vec![send(error_answer(500, "no"))]),
        ("status", vec![send(json_answer(404, "{}"))]),
        ("status", vec![send(answer(302, &[("location", "http://127.0.0.1:1/")], b""))]),
        ("refused", vec![send(json_answer(401, "{}"))]),
        ("refused", vec![send(json_answer(403, "{}"))]),
        ("refused", vec![send(json_answer(429, "{}"))]),
        ("malformed", vec![send(json_answer(200, "surely not JSON"))]),
        ("malformed", vec![send(json_answer(200, "{}"))]),
        ("malformed", vec![send(json_answer(200, &selection("{\"choice\":\"huge\"}")))]),
        ("malformed", answers(&json!({ "probabilities": { "somebody": 1.0 } }))),
        ("malformed", answers(&json!({ "probabilities": { "huge": -1.0, "tiny": 2.0 } }))),
        ("too_large", vec![send(json_answer(200, &huge))]),
        (
            "too_large",
            vec![send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"), send(&huge), Step::Hang],
        ),
        ("unreachable", vec![Step::Reset]),
        ("unreachable", vec![send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"ans"), Step::Close]),
        ("unreachable", vec![send("this is no HTTP\r\n\r\n"), Step::Close]),
    ]
}

#[tokio::test]
async fn each_failure_is_an_abstention_with_its_cause_and_the_request_is_served() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    let mut so_far = std::collections::BTreeMap::<&str, f64>::new();
    let failures = failures();
    for (n, (cause, script)) in failures.iter().enumerate() {
        decided.service.answer_with(script.clone());
        assert_eq!(bench.ask(&request(&format!("question {n}"))).await.status(), 200, "{cause}");
        *so_far.entry(cause).or_default() += 1.0;
        let counted = count(&bench, "abstentions", &format!("cause=\"{cause}\"")).await;
        assert_eq!(counted, so_far[cause], "{cause} of {n}");
    }
    for line in bench.assert_idle(failures.len()).await {
        assert_line(&line, &[("outcome", json!("ok")), ("reason", json!("policy")), ("attempts", json!(1))]);
    }
}

#[tokio::test]
async fn no_failure_is_kept_as_an_answer() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    decided.service.answer_with(vec![send(error_answer(500, "no"))]);
    bench.ask(&request("the same")).await;
    decided.service.answer_with(says(0.1, 0.9));
    bench.ask(&request("the same")).await;
    let line = bench.assert_idle(2).await.pop().expect("a line");
    assert_line(&line, &[("pool", json!("big"))]);
    assert_eq!(decided.questions(), 2);
}

#[tokio::test]
async fn a_silent_service_is_not_waited_for_longer_than_its_timeout() {
    let decided = Decided::start();
    let bench = decided.bench(", timeout = \"50ms\"").await;
    decided.service.answer_with(vec![Step::Hang]);
    assert_eq!(bench.ask(&request("silent")).await.status(), 200);
    assert_eq!(count(&bench, "abstentions", "cause=\"timeout\"").await, 1.0);
    // The question that was given up is not left open at the service.
    decided.service.counts().gone.reached(1).await;
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn a_service_that_is_gone_is_done_without_and_asked_again_when_it_is_back() {
    let decided = Decided::start();
    let bench = decided.bench("").await;
    decided.service.stop();
    assert_eq!(bench.ask(&request("gone")).await.status(), 200);
    assert_eq!(count(&bench, "abstentions", "cause=\"unreachable\"").await, 1.0);
    decided.service.start_again();
    assert_eq!(bench.ask(&request("gone")).await.status(), 200);
    let line = bench.assert_idle(2).await.pop().expect("a line");
    assert_line(&line, &[("pool", json!("big"))]);
}

fn token(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn sent(asked: &Received) -> String {
    asked.head.get("authorization").unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_refused_token_rests_and_the_next_one_is_used() {
    let files = ["one", "two", "three"].map(token);
    let names: Vec<_> = files.iter().map(|file| format!("file:{}", file.path().display())).collect();
    let decided = Decided::start();
    let bench = decided.bench(&format!(", tokens = {names:?}")).await;
    decided.service.on_request(|asked| match sent(asked).as_str() {
        "Bearer one" => vec![send(json_answer(401, "{}"))],
        "Bearer two" => vec![send(json_answer(429, "{}"))],
        _ => says(0.1, 0.9),
    });
    bench.ask(&request("first")).await;
    bench.ask(&request("second")).await;
    let tokens: Vec<_> = decided.service.received().iter().map(|asked| sent(asked)).collect();
    assert_eq!(tokens, ["Bearer one", "Bearer two", "Bearer three", "Bearer three"]);
    for line in bench.assert_idle(2).await {
        assert_line(&line, &[("pool", json!("big"))]);
    }
    // The last one is refused as well: all rest, and the service is not asked at all.
    decided.service.answer_with(vec![send(json_answer(403, "{}"))]);
    bench.ask(&request("third")).await;
    let asked = decided.questions();
    bench.ask(&request("fourth")).await;
    assert_eq!((asked, decided.questions()), (5, 5));
    assert_eq!(count(&bench, "abstentions", "cause=\"refused\"").await, 2.0);
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn any_other_failure_is_not_tried_with_another_token() {
    let files = ["one", "two"].map(token);
    let names: Vec<_> = files.iter().map(|file| format!("file:{}", file.path().display())).collect();
    let decided = Decided::start();
    let bench = decided.bench(&format!(", tokens = {names:?}")).await;
    decided.service.answer_with(vec![send(error_answer(503, "no"))]);
    bench.ask(&request("first")).await;
    assert_eq!(sent(&decided.service.only_request()), "Bearer one");
    bench.assert_idle(1).await;
}
