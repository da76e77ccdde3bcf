//! One connection of a replica: reads requests, plays scripts.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::script::{OnHead, Step};
use super::{Received, Shared, lock};
use crate::connection::Connection;
use crate::gate::{Count, Feed};
use crate::message::Head;

/// How a script ended.
enum Played {
    Kept,
    Closed,
    PeerGone,
}

/// Counts something that is going on for as long as it lives, also when its task is dropped.
struct Ongoing(Count);

impl Ongoing {
    fn new(count: &Count) -> Self {
        count.add();
        Self(count.clone())
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.0.take();
    }
}

pub(super) async fn serve(stream: TcpStream, number: u64, shared: Arc<Shared>) {
    let _open = Ongoing::new(&shared.counts.open_connections);
    let mut connection = Connection::new(stream);
    // A peer that leaves between requests, or in mid-head, ends the connection without a word.
    while let Ok(Some(head)) = connection.head().await {
        let kept = match probe(&head, &shared) {
            Some(steps) => matches!(play(&mut connection, &steps).await, Played::Kept),
            None => request(&mut connection, number, head, &shared).await,
        };
        if !kept {
            return;
        }
    }
}

/// The script of a probe; None for a request of a user.
fn probe(head: &Head, shared: &Shared) -> Option<Vec<Step>> {
    if head.method() != "GET" {
        return None;
    }
    let scripts = lock(&shared.scripts);
    let (count, steps) = match head.target() {
        "/health" => (&shared.counts.health_probes, &scripts.health),
        "/metrics" => (&shared.counts.metrics_probes, &scripts.metrics),
        "/v1/models" => (&shared.counts.models_probes, &scripts.models),
        _ => return None,
    };
    lock(&shared.probes).insert(head.target().to_owned(), head.clone());
    count.add();
    Some((scripts.probe)(head).unwrap_or_else(|| steps.clone()))
}

/// True where the connection can take another request.
async fn request(connection: &mut Connection, number: u64, head: Head, shared: &Arc<Shared>) -> bool {
    shared.counts.heads.add();
    let decide = Arc::clone(&lock(&shared.scripts).head);
    let steps = match decide(&head) {
        OnHead::Play(steps) => steps,
        OnHead::ReadBody => {
            let Ok(body) = read_body(connection, &head).await else {
                shared.counts.partial.add();
                return false;
            };
            let received = keep(shared, number, head, body);
            let script = Arc::clone(&lock(&shared.scripts).request);
            script(&received)
        }
    };
    let open = Ongoing::new(&shared.counts.open);
    let played = play(connection, &steps).await;
    drop(open);
    match played {
        Played::PeerGone => shared.counts.gone.add(),
        Played::Kept | Played::Closed => shared.counts.played.add(),
    }
    matches!(played, Played::Kept)
}

async fn read_body(connection: &mut Connection, head: &Head) -> io::Result<Vec<u8>> {
    match (head.get("transfer-encoding"), head.get("content-length")) {
        (Some(_), Some(_)) => panic!("the gateway sent both framings: {head:?}"),
        (Some(_), None) => connection.chunked().await,
        (None, Some(length)) => connection.exactly(length.parse().expect("a length in digits")).await,
        (None, None) => Ok(Vec::new()),
    }
}

fn keep(shared: &Shared, connection: u64, head: Head, body: Vec<u8>) -> Arc<Received> {
    let received = {
        let mut all = lock(&shared.received);
        let received = Arc::new(Received { connection, index: shared.counts.requests.get(), head, body });
        all.push(Arc::clone(&received));
        received
    };
    shared.counts.requests.add();
    received
}

async fn play(connection: &mut Connection, steps: &[Step]) -> Played {
    for step in steps {
        let peer_there = match step {
            Step::Send(bytes) => {
                let sent = connection.write(bytes).await.is_ok();
                tokio::task::yield_now().await;
                sent
            }
            Step::Feed(feed) => pass_on(connection, feed).await,
            Step::Wait(gate) => tokio::select! {
                biased;
                () = gate.opened() => true,
                () = gone(connection) => false,
            },
            Step::Deaf(gate) => {
                gate.opened().await;
                true
            }
            Step::Tell(gate) => {
                gate.open();
                true
            }
            Step::NextBytes => connection.unread() > 0 || matches!(connection.fill().await, Ok(1..)),
            Step::Hang => {
                gone(connection).await;
                false
            }
            Step::Close => return Played::Closed,
            Step::Reset => {
                let _ = connection.reset_on_drop();
                return Played::Closed;
            }
        };
        if !peer_there {
            return Played::PeerGone;
        }
    }
    Played::Kept
}

/// Sends what is fed until the feed ends; false where the peer left before.
async fn pass_on(connection: &mut Connection, feed: &Feed) -> bool {
    for number in 0.. {
        let piece = tokio::select! {
            biased;
            piece = feed.piece(number) => piece,
            () = gone(connection) => return false,
        };
        match piece {
            Some(bytes) if connection.write(&bytes).await.is_err() => return false,
            Some(_) => {}
            None => break,
        }
    }
    true
}

/// Returns when the peer has left. What it sends meanwhile is kept for the next request.
async fn gone(connection: &mut Connection) {
    while matches!(connection.fill().await, Ok(1..)) {}
}
