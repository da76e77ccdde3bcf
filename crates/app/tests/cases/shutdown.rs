//! The end of a gateway: whoever still waits is told so, and nobody who has connected is reset.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use sluicegate_testkit::answers::polite;
use sluicegate_testkit::requests::{CHAT, chat, get, post};
use sluicegate_testkit::{Bench, Config, End, Step, Upstream, until};

use crate::checks::{assert_line, assert_own_error};
use crate::slots_queue::sent;

/// Longer than any of these tests: what ends before has not waited for it.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn whoever_still_waits_at_the_end_of_a_drain_is_told_at_once() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).set("pools", "slots", 1).set("listen", "threads", 2);
    let bench = Bench::live(&config, 1).await;
    up.answer_with(vec![Step::Hang]);
    let request = post(CHAT, &chat("m1", ""));
    let mut waiting = sent(&bench, [request.clone()]).await;
    up.counts().requests.reached(1).await;
    waiting.extend(sent(&bench, [request.clone(), request.clone()]).await);
    until(|| bench.waiting() == 2).await;
    // A head and two bodies that are not whole.
    let chunked =
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    let parts = [request[..40].to_vec(), request[..request.len() - 5].to_vec(), chunked.to_vec()];
    waiting.extend(sent(&bench, parts).await);
    until(|| bench.open_requests() == 5).await;
    let (cut, lines) = bench.finish(Duration::ZERO);
    for (i, client) in waiting.iter_mut().enumerate() {
        let answer = client.answer().await;
        assert_eq!(assert_own_error(&answer, 503)["code"], json!("gateway_stopped"), "client {i}");
        assert!(answer.head.has("retry-after"));
        assert_ne!(client.closed().await, End::Reset, "client {i}");
    }
    assert_eq!((cut, lines.len()), (5, 6), "{lines:#?}");
    for line in &lines {
        assert_line(
            line,
            &[
                ("outcome", json!("gateway_stopped")),
                ("error_type", json!("gateway_stopped")),
                ("status", json!(503)),
            ],
        );
    }
    // Only the one that a replica worked on has used anything.
    let used = |l: &&serde_json::Value| l["usage_source"] == json!("estimated");
    assert_eq!(lines.iter().filter(used).count(), 1, "{lines:#?}");
}

/// The kernel has accepted it, and an idle gateway is asked to stop in the same moment.
#[tokio::test]
async fn a_connection_that_the_gateway_has_not_looked_at_yet_is_answered() {
    let (to_read, connected) = mpsc::channel::<TcpStream>();
    let reader = std::thread::spawn(move || connected.iter().map(read).collect::<Vec<_>>());
    for round in 0..10 {
        let bench = Bench::start(&Config::new(&[&Upstream::stopped("m1")]).text());
        let mut client = TcpStream::connect(bench.address()).expect("the gateway listens");
        client.write_all(&get("/v1/models")).expect("the kernel takes it");
        to_read.send(client).expect("there is a reader");
        let (cut, lines) = bench.finish(LONG);
        assert_eq!((cut, lines.len()), (0, 1), "round {round}");
    }
    drop(to_read);
    for (round, answer) in reader.join().expect("no panic").into_iter().enumerate() {
        assert!(answer.as_ref().is_ok_and(|a| a.starts_with(b"HTTP/1.1 200")), "round {round}: {answer:?}");
    }
}

fn read(mut client: TcpStream) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).map(|_| answer)
}

/// A connection that has brought nothing yet has its moment; one that is kept is closed so that a request that crosses
/// the close is not answered with a reset.
#[tokio::test]
async fn idle_connections_are_closed_in_good_order() {
    let up = Upstream::start("m1");
    up.on_request(polite);
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "threads", 1), 1).await;
    let request = post(CHAT, &chat("m1", ""));
    let (mut kept, mut new) = (bench.client().await, bench.client().await);
    assert_eq!(kept.exchange(&request).await.status(), 200);
    until(|| bench.open_connections() == 2).await;
    let address = bench.address();
    let finished = tokio::task::spawn_blocking(move || bench.finish(LONG));
    // The listener is closed: the drain has begun.
    until(|| TcpStream::connect(address).is_err()).await;
    assert_eq!(kept.closed().await, End::Cut);
    assert_eq!(new.exchange(&request).await.status(), 200);
    // Sent across the close, as a client does that has not read it yet.
    assert!(kept.try_send(&request).await.is_ok() && kept.try_send(&request).await.is_ok());
    assert_eq!(kept.closed().await, End::Cut);
    drop((kept, new));
    let (cut, lines) = finished.await.expect("no panic");
    assert_eq!((cut, lines.len()), (0, 2));
}
