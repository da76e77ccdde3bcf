//! The kit proves itself first: a raw client against a scripted replica, with nothing in between.

use sluicegate_testkit::answers::{self, LAST_CHUNK, STREAM_HEAD, Stream, chunk};
use sluicegate_testkit::requests::{CHAT, chat, get, post, post_chunked};
use sluicegate_testkit::{Config, End, Feed, Gate, Load, OnHead, RawClient, Step, Upstream, send};

#[tokio::test]
async fn a_request_is_kept_byte_for_byte_and_the_connection_with_it() {
    let up = Upstream::start("m1");
    let mut client = RawClient::connect(up.address()).await;
    let body = chat("m1", "");
    let first = client.exchange(&post(CHAT, &body)).await;
    let second = client.exchange(&post_chunked(CHAT, body.chunks(7))).await;
    assert_eq!((first.status(), first.end, second.status()), (200, End::Whole, 200));
    assert_eq!(first.json()["usage"]["completion_tokens"], 4);
    let received = up.received();
    assert_eq!(received.len(), 2);
    for (i, request) in received.iter().enumerate() {
        assert_eq!((request.connection, request.index), (0, i as u64));
        assert_eq!((request.head.method(), request.head.target()), ("POST", CHAT));
        assert_eq!(request.body, body);
    }
    assert_eq!(received[0].head.get("content-length"), Some(body.len().to_string().as_str()));
    assert_eq!(received[1].head.get("transfer-encoding"), Some("chunked"));
}

#[tokio::test]
async fn probes_are_answered_like_an_idle_engine_and_counted_apart() {
    let up = Upstream::start("m1");
    up.set_load(Load { running: 7, waiting: 2, ..Load::default() });
    let mut client = RawClient::connect(up.address()).await;
    assert_eq!(client.exchange(&get("/health")).await.status(), 200);
    let metrics = client.exchange(&get("/metrics")).await.text();
    assert!(metrics.contains("vllm:num_requests_running{engine=\"0\",model_name=\"m1\"} 7.0\n"), "{metrics}");
    assert_eq!(client.exchange(&get("/v1/models")).await.json()["data"][0]["id"], "m1");
    let counts = up.counts();
    let probes = [&counts.health_probes, &counts.metrics_probes, &counts.models_probes].map(|c| c.get());
    assert_eq!((probes, counts.requests.get()), ([1, 1, 1], 0));
}

#[tokio::test]
async fn a_gate_holds_a_stream_between_two_events() {
    let up = Upstream::start("m1");
    let stream = Stream::chat(&["a", "b"]);
    let gate = Gate::new();
    let mut steps = stream.steps();
    steps.insert(3, Step::Wait(gate.clone()));
    up.answer_with(steps);
    let mut client = RawClient::connect(up.address()).await;
    client.send(&post(CHAT, &chat("m1", ""))).await;
    client.head().await;
    assert_eq!(client.event().await, stream.events[0]);
    assert_eq!(client.event().await, stream.events[1]);
    assert!(client.nothing_came());
    gate.open();
    assert_eq!(client.rest().await, (stream.events[2..].concat(), End::Whole));
    up.counts().played.reached(1).await;
}

#[tokio::test]
async fn every_way_an_answer_can_break_off_is_told_apart() {
    let up = Upstream::start("m1");
    let tell = Gate::new;
    let cases = [
        (vec![send(STREAM_HEAD), send(chunk(b"abc")), send(LAST_CHUNK)], End::Whole),
        (vec![send(STREAM_HEAD), send(chunk(b"abc")), Step::Close], End::Cut),
        (vec![send(STREAM_HEAD), send(b"6\r\nabc"), Step::Close], End::Cut),
        (vec![send(answers::answer(200, &[], b"abc"))], End::Whole),
        (vec![send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"), Step::Close], End::Cut),
        (vec![send(b"HTTP/1.1 200 OK\r\n\r\nabc"), Step::Close], End::Whole),
    ];
    for (steps, end) in cases {
        up.answer_with(steps.clone());
        let mut client = RawClient::connect(up.address()).await;
        let answer = client.exchange(&post(CHAT, b"{}")).await;
        assert_eq!((answer.body.as_slice(), answer.end), (b"abc".as_slice(), end), "{steps:?}");
    }
    let (read, gate) = (tell(), tell());
    up.answer_with(vec![
        send(STREAM_HEAD),
        send(chunk(b"abc")),
        Step::Tell(read),
        Step::Wait(gate.clone()),
        Step::Reset,
    ]);
    let mut client = RawClient::connect(up.address()).await;
    client.send(&post(CHAT, b"{}")).await;
    client.head().await;
    assert_eq!(client.at_least(3).await, b"abc");
    gate.open();
    assert_eq!(client.rest().await, (Vec::new(), End::Reset));
}

#[tokio::test]
async fn a_peer_that_leaves_is_seen_at_once() {
    let up = Upstream::start("m1");
    up.answer_with(vec![Step::Hang]);
    for leave in [|c: RawClient| c.reset(), |c: RawClient| drop(c)] {
        let mut client = RawClient::connect(up.address()).await;
        let before = up.counts().gone.get();
        client.send(&post(CHAT, b"{}")).await;
        up.counts().requests.reached(before + 1).await;
        leave(client);
        up.counts().gone.reached(before + 1).await;
    }
    let mut client = RawClient::connect(up.address()).await;
    client.send(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{").await;
    drop(client);
    up.counts().partial.reached(1).await;
    assert_eq!(up.counts().requests.get(), 2);
    up.counts().open_connections.becomes(|n| n == 0).await;
}

#[tokio::test]
async fn a_stopped_replica_refuses_and_comes_back_on_its_port() {
    let up = Upstream::stopped("m1");
    let refused = |up: &Upstream| tokio::net::TcpStream::connect(up.address());
    assert_eq!(refused(&up).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    up.start_again();
    let mut client = RawClient::connect(up.address()).await;
    assert_eq!(client.exchange(&get("/health")).await.status(), 200);
    up.stop();
    client.closed().await;
    up.counts().open_connections.becomes(|n| n == 0).await;
    assert_eq!(refused(&up).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    up.start_again();
    assert_eq!(RawClient::connect(up.address()).await.exchange(&get("/health")).await.status(), 200);
}

#[tokio::test]
async fn a_head_can_be_answered_before_its_body_and_a_reset_waits_for_the_next_bytes() {
    let up = Upstream::start("m1");
    up.on_head(|head| match head.target() {
        "/refused" => OnHead::Play(vec![send(answers::error_answer(413, "too large")), Step::Close]),
        _ => OnHead::ReadBody,
    });
    let mut client = RawClient::connect(up.address()).await;
    client.send(b"POST /refused HTTP/1.1\r\nContent-Length: 9\r\n\r\n").await;
    assert_eq!(client.answer().await.status(), 413);
    up.answer_with(vec![send(answers::chat_answer("a", 1, 1)), Step::NextBytes, Step::Reset]);
    let mut client = RawClient::connect(up.address()).await;
    assert_eq!(client.exchange(&post(CHAT, b"{}")).await.status(), 200);
    client.send(b"P").await;
    assert_eq!(client.closed().await, End::Reset);
    assert_eq!(up.counts().requests.get(), 1);
}

#[test]
fn a_configuration_names_pools_and_routes_with_their_shared_settings() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let (a, b) = (Upstream::stopped("m1"), Upstream::stopped("m2"));
    let config = Config::new(&[&a])
        .pool("other", &[&b])
        .route_to("m2", "other", "org/m2")
        .set("routes.timeouts", "total", "1s")
        .set("listen", "threads", 1);
    let text = config.text();
    for part in [
        format!("name = \"pool\"\nreplicas = [\"{}\"]\n[pools.health]\n", a.url()),
        format!("name = \"other\"\nreplicas = [\"{}\"]\n[pools.health]\n", b.url()),
        "[[routes]]\nmodel = \"m1\"\n[[routes.targets]]\npool = \"pool\"\n[routes.timeouts]\ntotal = \"1s\"\n".to_owned(),
        "[[routes.targets]]\npool = \"other\"\nupstream_model = \"org/m2\"\n[routes.timeouts]\n".to_owned(),
        "threads = 1\n".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} is not in {text}");
    }
}

#[tokio::test]
async fn a_feed_is_sent_as_it_grows_and_whole_to_everyone() {
    let up = Upstream::start("m1");
    let feed = Feed::new();
    up.answer_with(vec![send(STREAM_HEAD), Step::Feed(feed.clone()), send(LAST_CHUNK)]);
    let mut clients = Vec::new();
    for i in 0..3 {
        let event = answers::text_event(&i.to_string());
        feed.push(chunk(&event));
        let mut client = RawClient::connect(up.address()).await;
        client.send(&post(CHAT, b"{}")).await;
        client.head().await;
        clients.push(client);
        // The newest client reads all so far, the others only what is new.
        for past in 0..i {
            assert_eq!(clients[i].event().await, answers::text_event(&past.to_string()));
        }
        for client in &mut clients {
            assert_eq!(client.event().await, event);
            assert!(client.nothing_came());
        }
    }
    feed.end();
    for client in &mut clients {
        assert_eq!(client.rest().await, (Vec::new(), End::Whole));
    }
}
