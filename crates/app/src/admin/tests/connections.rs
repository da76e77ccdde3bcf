//! Connections that stall or flood, in paused time: the clock runs only while nobody has anything to do.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::admin::connections::{MOST, serve};

/// More bytes than the kernel's buffers of a connection hold.
const LONG: usize = 64 * 1024 * 1024;

/// Runs `client` beside a served router.
async fn beside_a_server<F: Future>(client: impl FnOnce(SocketAddr) -> F) -> F::Output {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/long", get(|| async { vec![b'x'; LONG] }))
        .route("/", post(|body: Bytes| async move { body }));
    tokio::select! {
        output = client(address) => output,
        never = serve(listener, router) => match never {},
    }
}

async fn sent(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Reads to the end, however it ends; None where an hour is not enough.
async fn rest(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    timeout(Duration::from_secs(3600), stream.read_to_end(&mut bytes)).await.ok()?.ok();
    Some(String::from_utf8(bytes).unwrap())
}

const GET: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HALF_A_HEAD: &str = "GET / HTTP/1.1\r\nHost: loc";
const HALF_A_BODY: &str = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345";

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_and_its_connection_closed() {
    let answer = beside_a_server(async |address| rest(&mut sent(address, GET).await).await.unwrap()).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("here"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_connection_is_closed() {
    for (text, seconds) in [("", 10), (HALF_A_HEAD, 10), (HALF_A_BODY, 30)] {
        let begun = Instant::now();
        let answer = beside_a_server(async |address| rest(&mut sent(address, text).await).await).await;
        let answer = answer.unwrap_or_else(|| panic!("{text:?} is still open"));
        assert!(!answer.contains("200"), "{text:?}: {answer}");
        assert_eq!(begun.elapsed().as_secs(), seconds, "{text:?}, in the runtime's own time");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_broken_off() {
    let read = beside_a_server(async |address| {
        let mut stream = sent(address, "GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        stream.readable().await.unwrap();
        // Nothing is read until the server has had all its time.
        let _ = timeout(Duration::from_secs(60), std::future::pending::<()>()).await;
        rest(&mut stream).await.unwrap().len()
    });
    assert!(read.await < LONG);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_64_connections_are_served_and_the_next_ones_wait() {
    beside_a_server(async |address| {
        let mut stalled = Vec::new();
        for _ in 0..MOST {
            stalled.push(sent(address, HALF_A_BODY).await);
        }
        let mut next = sent(address, GET).await;
        let mut byte = [0; 1];
        let early = timeout(Duration::from_secs(5), next.read(&mut byte)).await;
        assert!(early.is_err(), "it was served beside {MOST} others");
        drop(stalled.pop());
        let answer = rest(&mut next).await.unwrap();
        assert!(answer.ends_with("here"), "{answer}");
    })
    .await;
}
