//! A thousand streams at once, through one thread.

use serde_json::json;
use sluicegate_testkit::answers::{DONE, LAST_CHUNK, chunk, open_stream, role_event, text_event};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, End, Gate, Received, Step, Upstream, send};

const STREAMS: usize = 1000;

/// What a request was asked to say, from its `user` member.
fn said(request: &Received) -> String {
    request.json()["user"].as_str().expect("a user").to_owned()
}

fn tail(user: &str) -> Vec<Vec<u8>> {
    (0..5)
        .map(|i| text_event(&format!("{user} says {i} {}", "\u{6c49}".repeat(20))))
        .chain([DONE.to_vec()])
        .collect()
}

#[tokio::test]
async fn a_thousand_concurrent_streams_through_one_thread() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "threads", 1), 1).await;
    let finish = Gate::new();
    let gate = finish.clone();
    up.on_request(move |request| {
        let user = said(request);
        let mut steps = open_stream(&[role_event(), text_event(&user)]);
        steps.push(Step::Wait(gate.clone()));
        steps.extend(tail(&user).iter().map(|e| send(chunk(e))));
        steps.push(send(LAST_CHUNK));
        steps
    });
    let mut clients = Vec::new();
    for i in 0..STREAMS {
        let user = format!("stream {i}");
        let mut client = bench.client().await;
        let members = format!(r#","stream":true,"stream_options":{{"include_usage":true}},"user":"{user}""#);
        client.send(&post(CHAT, &chat("m1", &members))).await;
        clients.push((user, client));
    }
    for (user, client) in &mut clients {
        assert_eq!(client.head().await.status(), 200);
        assert_eq!(client.event().await, role_event());
        assert_eq!(client.event().await, text_event(user));
    }
    // All of them open at the same moment, on both sides.
    assert_eq!(up.counts().open.get(), STREAMS as u64);
    assert_eq!(bench.open_requests(), STREAMS as u64);
    assert_eq!(bench.replica(&up).inflight as usize, STREAMS);
    finish.open();
    for (user, client) in &mut clients {
        let (rest, end) = client.rest().await;
        assert!(
            rest == tail(user).concat() && end == End::Whole,
            "{user}: {}",
            String::from_utf8_lossy(&rest)
        );
    }
    for line in bench.assert_idle(STREAMS).await {
        assert!(line["outcome"] == json!("ok") && line["events"] == json!(7), "{line:#}");
    }
    drop(clients);
    sluicegate_testkit::until(|| bench.open_connections() == 0).await;
}
