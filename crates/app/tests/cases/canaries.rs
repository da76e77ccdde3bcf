//! A-38, A-42: a stalled replica is asked for something that it can do.

use serde_json::json;
use sluicegate_testkit::answers::{chat_answer, error_answer, json_answer};
use sluicegate_testkit::requests::post;
use sluicegate_testkit::{Bench, Config, Health, Received, Step, Upstream, send};

/// A replica that can do one kind of call and answers 404 to any other.
fn only(path: &'static str, good: Vec<u8>) -> impl Fn(&Received) -> Vec<Step> {
    move |request| {
        let able = request.head.target() == path;
        vec![send(if able { good.clone() } else { error_answer(404, "Not Found") })]
    }
}

/// One good call, then silence until it is ejected, then its way back.
async fn stalls_and_returns(up: &Upstream, path: &'static str, body: &str, good: Vec<u8>) {
    let bench = Bench::live(&Config::new(&[up]).set("routes.timeouts", "total", "800ms"), 1).await;
    let request = post(path, body.as_bytes());
    up.on_request(only(path, good.clone()));
    assert_eq!(bench.ask(&request).await.status(), 200);
    up.answer_with(vec![Step::Hang]);
    let answers = tokio::join!(bench.ask(&request), bench.ask(&request), bench.ask(&request));
    assert_eq!([answers.0, answers.1, answers.2].map(|a| a.status()), [504; 3]);
    bench.wait_health(up, Health::Ejected).await;
    let before = up.counts().requests.get();
    // A canary that nobody answers changes nothing.
    up.counts().requests.reached(before + 2).await;
    assert_eq!(bench.replica(up).health, Health::Ejected);
    up.on_request(only(path, good));
    bench.wait_health(up, Health::Live).await;
    let received = up.received();
    for canary in received.iter().skip(usize::try_from(before).expect("a small number")) {
        assert_eq!(canary.head.target(), path);
        assert_eq!(canary.json()["model"], json!("m1"));
    }
    assert_eq!(bench.ask(&request).await.status(), 200);
    bench.assert_idle(5).await;
}

#[tokio::test]
async fn a_38_a_replica_of_embeddings_comes_back_by_an_embedding() {
    let up = Upstream::start("m1");
    let good = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"m1","usage":{"prompt_tokens":1,"total_tokens":1,"completion_tokens":0}}"#;
    stalls_and_returns(&up, "/v1/embeddings", r#"{"model":"m1","input":"hi"}"#, json_answer(200, good)).await;
}

#[tokio::test]
async fn a_38_a_replica_without_a_list_of_models_comes_back_by_its_last_good_call() {
    let up = Upstream::start("m1");
    up.set_models(vec![send(error_answer(404, "Not Found"))]);
    let good = chat_answer("a", 1, 1);
    stalls_and_returns(&up, "/v1/completions", r#"{"model":"m1","prompt":"hi"}"#, good).await;
}
