//! Answers that come before the request was taken, answers that never end, and what is left on their connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use sluicegate_testkit::answers::{error_answer, polite};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, OnHead, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_nobody_blamed};

/// More than the sockets between gateway and replica can hold.
const HUGE: usize = 16 << 20;

async fn one_thread(up: &Upstream) -> Bench {
    Bench::live(&Config::new(&[up]).set("listen", "threads", 1), 1).await
}

#[tokio::test]
async fn an_early_refusal_reaches_the_client_while_the_replica_reads_no_more() {
    for status in [401, 413] {
        let up = Upstream::start("m1");
        let bench = one_thread(&up).await;
        let refusal = vec![send(error_answer(status, "no")), Step::Deaf(Gate::new())];
        up.on_head(move |_| OnHead::Play(refusal.clone()));
        let body = chat("m1", &format!(r#","user":"{}""#, "u".repeat(HUGE)));
        let mut client = bench.client().await;
        let answer = client.exchange(&post(CHAT, &body)).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
        assert!(answer.text().contains(r#""message":"no""#), "{}", answer.text());
        // The client has sent all it had to, so its own connection goes on. The replica's is out of step, and deaf:
        // used again it would never be answered.
        up.on_head(|_| OnHead::ReadBody);
        assert_eq!(client.exchange(&post(CHAT, &chat("m1", ""))).await.status(), 200);
        assert_eq!((up.counts().heads.get(), up.counts().requests.get()), (2, 1));
        let lines = bench.assert_idle(2).await;
        assert_line(
            &lines[0],
            &[("outcome", json!("client_error")), ("status", json!(status)), ("attempts", json!(1))],
        );
        assert_nobody_blamed(&bench, &[&up]);
    }
}

/// The first request of all gets `failure`, whoever is asked; every other one a good answer.
fn first_fails(ups: &[Upstream], failure: &[Step]) {
    let asked = Arc::new(AtomicU64::new(0));
    for up in ups {
        let (asked, failure) = (Arc::clone(&asked), failure.to_vec());
        up.on_request(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => failure.clone(),
            _ => polite(request),
        });
    }
}

#[tokio::test]
async fn a_failure_whose_body_never_ends_does_not_hold_up_the_retry() {
    let heads = ["content-length: 100\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"];
    for head in heads {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
        let head = format!("HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\n{head}");
        first_fails(&ups, &[send(head), Step::Hang]);
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
        assert_eq!(ups.each_ref().map(|u| u.counts().requests.get()), [1, 1]);
        let lines = bench.assert_idle(1).await;
        assert_line(&lines[0], &[("outcome", json!("ok")), ("attempts", json!(2))]);
        // The answer that hung did not end by itself: the gateway closed its connection.
        until(|| ups.iter().map(|u| u.counts().gone.get()).sum::<u64>() == 1).await;
    }
}

#[tokio::test]
async fn what_comes_behind_an_empty_failure_is_nobodys_answer() {
    let foreign = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nforeign";
    for head in
        ["HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 429 Full\r\ncontent-length: 0\r\n\r\n"]
    {
        let up = Upstream::start("m1");
        let bench = one_thread(&up).await;
        up.answer_with(vec![send([head, foreign].concat())]);
        let request = post(CHAT, &chat("m1", ""));
        let failed = bench.ask(&request).await;
        assert!([500, 429].contains(&failed.status()), "{}", failed.text());
        up.on_request(polite);
        let answer = bench.ask(&request).await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], json!("hello"), "{}", answer.text());
        let connections: Vec<_> = up.received().iter().map(|r| r.connection).collect();
        assert_eq!(connections.len(), 2);
        assert_ne!(connections[0], connections[1], "a connection out of step was used again");
        bench.assert_idle(2).await;
    }
}
