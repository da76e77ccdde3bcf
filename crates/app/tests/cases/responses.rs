//! Stored responses: what follows on one, or asks for it, goes to the replica that made it, or nowhere.

use serde_json::json;
use sluicegate_testkit::answers::{LAST_CHUNK, STREAM_HEAD, chunk, json_answer};
use sluicegate_testkit::requests::{get, get_as, post, post_as};
use sluicegate_testkit::{Answer, Bench, Config, Gate, Received, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_own_error, requests_at};
use crate::slots_queue::sent;

const RESPONSES: &str = "/v1/responses";

fn body(members: &str) -> Vec<u8> {
    format!(r#"{{"model":"m1","input":"hi"{members}}}"#).into_bytes()
}

fn following(id: &str) -> Vec<u8> {
    body(&format!(r#","previous_response_id":"{id}""#))
}

fn response(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"response","status":"completed","model":"m1","output":[{{"id":"msg_9","type":"message"}}],"usage":{{"input_tokens":11,"output_tokens":4}}}}"#
    )
}

/// The events of a streamed response: the first and the rest.
fn events(id: &str) -> [Vec<u8>; 2] {
    let created = format!(
        "event: response.created\ndata: {{\"type\":\"response.created\",\"response\":{{\"id\":\"{id}\",\"status\":\"in_progress\"}}}}\n\n"
    );
    let completed = format!(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",\"response\":{}}}\n\n",
        response(id)
    );
    [created, completed].map(|event| chunk(event.as_bytes()))
}

/// Answers as an engine that stores responses does; its n-th request makes `resp_{name}_n`.
fn answers(name: &str, request: &Received) -> Vec<Step> {
    let id = format!("resp_{name}_{}", request.index);
    if request.text().contains(r#""stream":true"#) {
        let [created, completed] = events(&id);
        return vec![send(STREAM_HEAD), send(created), send(completed), send(LAST_CHUNK)];
    }
    vec![send(json_answer(200, &response(&id)))]
}

/// Replicas named `a`, `b` and so on.
fn replicas<const N: usize>() -> [Upstream; N] {
    std::array::from_fn(|i| {
        let up = Upstream::start("m1");
        let name = ["a", "b", "c"][i];
        up.on_request(move |request| answers(name, request));
        up
    })
}

fn id_of(answer: &Answer) -> String {
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let text = answer.text();
    let at = text.find("resp_").expect("an id");
    text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// Which of them made the response.
fn home<'a>(ups: &'a [Upstream], id: &str) -> (&'a Upstream, Vec<&'a Upstream>) {
    let at = ["resp_a", "resp_b", "resp_c"].iter().position(|name| id.starts_with(name)).expect("a name");
    let others = ups.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, up)| up).collect();
    (&ups[at], others)
}

#[track_caller]
fn assert_unknown(answer: &Answer) {
    assert_eq!(assert_own_error(answer, 404)["code"], json!("response_not_found"));
}

#[tokio::test]
async fn what_follows_on_a_response_goes_to_its_replica_however_busy() {
    for stream in ["", r#","stream":true"#] {
        let ups = replicas::<3>();
        let bench = Bench::with_replicas(&[&ups[0], &ups[1], &ups[2]]).await;
        let id = id_of(&bench.ask(&post(RESPONSES, &body(stream))).await);
        let (home, others) = home(&ups, &id);
        // What runs at its replica now would send any other request elsewhere.
        let gate = Gate::new();
        let (busy, name) = (gate.clone(), id[5..6].to_owned());
        home.on_request(move |request| {
            let mut steps = vec![Step::Wait(busy.clone())];
            steps.extend(answers(&name, request));
            steps
        });
        let before = home.counts().requests.get();
        let mut clients = sent(&bench, (0..5).map(|_| post(RESPONSES, &following(&id)))).await;
        home.counts().requests.reached(before + 5).await;
        assert_eq!(requests_at(&others), 0);
        assert_eq!(bench.ask(&post(RESPONSES, &body(""))).await.status(), 200);
        assert_eq!(requests_at(&others), 1, "one that follows on nothing goes elsewhere");
        gate.open();
        for client in &mut clients {
            let next = id_of(&client.answer().await);
            assert_eq!(next[..6], id[..6], "made at the same replica");
        }
        let lines = bench.assert_idle(7).await;
        let pinned = lines.iter().filter(|line| line["reason"] == json!("pinned")).count();
        assert_eq!(pinned, 5, "{lines:#?}");
    }
}

#[tokio::test]
async fn a_stored_response_is_asked_for_ended_and_removed_at_its_replica() {
    let ups = replicas::<2>();
    let bench = Bench::live(&Config::new(&[&ups[0], &ups[1]]).set("pools", "slots", 1), 2).await;
    let gate = Gate::new();
    for (up, name) in ups.iter().zip(["a", "b"]) {
        let gate = gate.clone();
        up.on_request(move |request| {
            let id = format!("resp_{name}_{}", request.index);
            if !request.head.first_line.starts_with("POST /v1/responses HTTP") {
                return vec![send(json_answer(200, &response(&id)))];
            }
            let [created, completed] = events(&id);
            let rest = [completed, LAST_CHUNK.to_vec()].concat();
            vec![send(STREAM_HEAD), send(created), Step::Wait(gate.clone()), send(rest)]
        });
    }
    let mut client = sent(&bench, [post(RESPONSES, &body(r#","stream":true"#))]).await.remove(0);
    client.head().await;
    let running = client.event().await;
    let id = if format!("{running:?}").contains("resp_a") { "resp_a_0" } else { "resp_b_0" };
    let (home, others) = home(&ups, id);
    let path = format!("{RESPONSES}/{id}");
    let delete = format!("DELETE {path} HTTP/1.1\r\nHost: gateway\r\n\r\n").into_bytes();
    // While it is still being made, and holds the replica's one slot.
    let asked = [post(&format!("{path}/cancel"), b""), get(&format!("{path}?stream=false")), delete];
    for request in &asked {
        assert_eq!(bench.ask(request).await.status(), 200);
    }
    let seen: Vec<String> = home.received().iter().map(|r| r.head.first_line.clone()).collect();
    let line = |method: &str, tail: &str| format!("{method} {path}{tail} HTTP/1.1");
    assert_eq!(seen[1..], [line("POST", "/cancel"), line("GET", "?stream=false"), line("DELETE", "")]);
    assert!(!home.received()[2].head.has("content-length"), "a GET has no body");
    assert_eq!(requests_at(&others), 0);
    gate.open();
    client.rest().await;
    let lines = bench.assert_idle(4).await;
    let stored: Vec<_> = lines.iter().filter(|line| line["endpoint"] != json!(RESPONSES)).collect();
    assert_eq!(stored.len(), 3);
    for line in stored {
        assert_line(line, &[("route", json!("m1")), ("outcome", json!("ok")), ("reason", json!("pinned"))]);
        assert_line(line, &[("usage_source", json!("none")), ("model", json!(null))]);
    }
}

#[tokio::test]
async fn another_keys_response_is_no_response() {
    for count in [1, 2] {
        let ups = replicas::<2>();
        let both = [&ups[0], &ups[1]];
        let config = Config::new(&both[..count]).key("ann").key("bob");
        let bench = Bench::live(&config, count).await;
        let id = id_of(&bench.ask(&post_as("ann", RESPONSES, &body(""))).await);
        let path = format!("{RESPONSES}/{id}");
        assert_unknown(&bench.ask(&get_as("bob", &path)).await);
        assert_unknown(&bench.ask(&post_as("bob", &format!("{path}/cancel"), b"")).await);
        assert_unknown(&bench.ask(&post_as("bob", RESPONSES, &following(&id))).await);
        assert_eq!(requests_at(&both), 1, "nothing of it has reached a replica");
        assert_eq!(bench.ask(&get_as("ann", &path)).await.status(), 200);
        assert_eq!(bench.ask(&post_as("ann", RESPONSES, &following(&id))).await.status(), 200);
        bench.assert_idle(6).await;
    }
}

#[tokio::test]
async fn an_unknown_id_goes_to_the_only_replica_and_nowhere_if_there_are_more() {
    for count in [1, 2] {
        let ups = replicas::<2>();
        let both = [&ups[0], &ups[1]];
        let bench = Bench::with_replicas(&both[..count]).await;
        for request in [get("/v1/responses/resp_x"), post(RESPONSES, &following("resp_x"))] {
            let answer = bench.ask(&request).await;
            match count {
                1 => assert_eq!(answer.status(), 200, "{}", answer.text()),
                _ => assert_unknown(&answer),
            }
        }
        assert_eq!(requests_at(&both), if count == 1 { 2 } else { 0 });
        bench.assert_idle(2).await;
    }
}

#[tokio::test]
async fn a_response_whose_replica_is_gone_is_nowhere_else() {
    let ups = replicas::<2>();
    let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
    let id = id_of(&bench.ask(&post(RESPONSES, &body(""))).await);
    let (home, others) = home(&ups, &id);
    home.stop();
    until(|| bench.replica(home).health != sluicegate_testkit::Health::Live).await;
    for request in [post(RESPONSES, &following(&id)), get(&format!("{RESPONSES}/{id}"))] {
        let error = assert_own_error(&bench.ask(&request).await, 503);
        assert_eq!(error["code"], json!("no_healthy_instances"));
    }
    assert_eq!(requests_at(&others), 0);
    assert_eq!(bench.ask(&post(RESPONSES, &body(""))).await.status(), 200, "others go on");
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn a_response_with_a_long_id_is_found_again_at_its_replica() {
    for (stream, members) in [(false, ""), (true, r#","stream":true"#)] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
        let id = format!("resp_{}", "x".repeat(195));
        for up in &ups {
            let id = id.clone();
            up.on_request(move |request| {
                if !(stream && request.text().contains(r#""stream":true"#)) {
                    return vec![send(json_answer(200, &response(&id)))];
                }
                // In reads of its own: the id comes in pieces.
                let [created, completed] = events(&id);
                vec![
                    send(STREAM_HEAD),
                    send(&created[..90]),
                    send(&created[90..]),
                    send(completed),
                    send(LAST_CHUNK),
                ]
            });
        }
        assert_eq!(bench.ask(&post(RESPONSES, &body(members))).await.status(), 200);
        let path = format!("{RESPONSES}/{id}");
        for request in [get(&path), post(RESPONSES, &following(&id)), post(&format!("{path}/cancel"), b"")] {
            let answer = bench.ask(&request).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
        }
        let at: Vec<u64> = ups.iter().map(|up| requests_at(&[up])).collect();
        assert!(at == [4, 0] || at == [0, 4], "{at:?}");
        bench.assert_idle(4).await;
    }
}
