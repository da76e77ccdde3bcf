use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[test]
fn only_plain_http_urls_are_taken_with_or_without_their_version() {
    for url in ["https://host", "host:80", "http://", "/v1", ""] {
        assert_eq!(Endpoint::new(url, None).err(), Some(BadTarget::Url(url.to_owned())));
    }
    for url in ["http://host:1", "http://host:1/", "http://host:1/v1", "http://host:1/v1/"] {
        assert_eq!(Endpoint::new(url, None).unwrap().uri("/v1/models"), "http://host:1/v1/models");
    }
    assert_eq!(Endpoint::new("http://h", Some("a\nb")).err(), Some(BadTarget::Key));
}

/// A server whose connections answer so many requests each and break at the next one, after working on it for so long (on
/// a paused clock). Counts the requests.
async fn breaking_after(answers: u32, works: Duration) -> (Endpoint, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicU32::new(0));
    let seen = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            for _ in 0..answers {
                read_request(&mut stream, &seen).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                stream.write_all(answer).await.unwrap();
            }
            read_request(&mut stream, &seen).await;
            if !works.is_zero() {
                tokio::time::advance(works).await;
            }
        }
    });
    (Endpoint::new(&url, None).unwrap(), requests)
}

async fn read_request(stream: &mut TcpStream, seen: &AtomicU32) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    seen.fetch_add(1, Ordering::SeqCst);
}

#[tokio::test]
async fn a_request_on_a_connection_that_is_just_being_closed_is_sent_again_on_another() {
    let (endpoint, requests) = breaking_after(1, Duration::ZERO).await;
    for _ in 0..3 {
        assert_eq!(endpoint.get("/health").await.map(|whole| whole.status).unwrap(), 200);
    }
    assert_eq!(requests.load(Ordering::SeqCst), 5, "three answered, two on connections that broke");
}

#[tokio::test]
async fn a_new_connection_that_breaks_is_a_failure_and_nothing_is_sent_again() {
    let (endpoint, requests) = breaking_after(0, Duration::ZERO).await;
    assert_eq!(endpoint.get("/health").await.err(), Some(Outcome::NoAnswer));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_when_its_server_has_worked_on_the_request_is_a_failure() {
    let (endpoint, requests) = breaking_after(1, CLOSING_AT_MOST * 2).await;
    assert_eq!(endpoint.get("/health").await.map(|whole| whole.status).unwrap(), 200);
    assert_eq!(endpoint.get("/health").await.err(), Some(Outcome::NoAnswer));
    assert_eq!(requests.load(Ordering::SeqCst), 2, "nothing is sent again that may have been worked on");
}
