use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream as StdStream};
use std::pin::pin;
use std::sync::Arc;

use sluicegate_core::{PickRequest, ReplicaId, Scrape, Serves};
use sluicegate_wire::{Endpoint, Observer, ResponseFraming};
use tokio::net::TcpStream;

use super::*;
use crate::answer::{Answer, Watcher};
use crate::attempt::Exchange;
use crate::pool::{Control, Pool, WakeEpoch};
use crate::server::Running;
use crate::test_plan::{gateway, pool_plan};
use crate::upstream::Upstream;

/// A stream on its way from `replica` to a client that takes nothing: its socket is full.
struct Slow {
    pool: Arc<Pool>,
    shown: Option<Box<Shown>>,
    client: Client,
    _far_client: StdStream,
    replica: StdStream,
    running: Running,
}

fn pair() -> (StdStream, StdStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let near = StdStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    near.set_nonblocking(true).expect("a socket can be non-blocking");
    (near, listener.accept().expect("a connection").0)
}

async fn slow() -> Slow {
    let running = gateway();
    let pool = Pool::new(&pool_plan(), &Serves::All, 1, Arc::new(WakeEpoch::default()));
    pool.with_core(Control::Always, |core, now| {
        core.tick(now);
        core.scraped(now, ReplicaId(0), Scrape::Healthy { load: None }, None);
    });
    let lease = pool.with_core(Control::Always, |core, now| {
        let picked = core.pick(now, &PickRequest::default()).expect("it is LIVE");
        pool.guard(picked.replica, picked.lease).expect("it is known")
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let upstream = Upstream::connect(&lease.replica().url, address).await.expect("it listens");
    let replica = listener.accept().expect("a connection").0;
    let (near, far_client) = pair();
    let mut full = near.try_clone().expect("a second handle");
    while full.write(&[0; 4096]).is_ok() {}
    let stream = TcpStream::from_std(near).expect("a socket of this runtime");
    let client = Client::new(stream, Arc::clone(running.gateway())).await;
    let observer = Observer::new(Endpoint::ChatCompletions.stream_kind(), false);
    let exchange = Exchange {
        upstream: Some(upstream),
        answer: Answer::new(ResponseFraming::Chunked, Watcher::Stream(observer)),
        endpoint: Endpoint::ChatCompletions,
        framing: ClientFraming::Chunked,
        first: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        first_len: 0,
        first_content: false,
        done: false,
        reusable: true,
        status: 200,
        event_stream: true,
    };
    let shown = Some(Box::new(Shown { exchange: Box::new(exchange), lease }));
    Slow { pool, shown, client, _far_client: far_client, replica, running }
}

impl Slow {
    fn inflight(&self) -> u32 {
        self.pool.snapshot().replicas[0].inflight
    }
}

fn limits() -> Limits {
    let long = Duration::from_secs(600);
    Limits { deadline: clock::now() + long, silence: long, write_idle: long }
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn a_place_is_free_when_the_replica_is_done_and_not_when_a_slow_client_is() {
    for ending in [&b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"[..], b""] {
        block_on(async {
            let mut slow = slow().await;
            let mut record = Record::new(slow.running.gateway());
            // More than one read, and less than is kept for a client.
            let event = [b"data: ".as_slice(), &vec![b'x'; 1000], b"\n\n"].concat();
            let chunk = [format!("{:x}\r\n", event.len()).as_bytes(), &event, b"\r\n"].concat();
            let wire = [chunk.repeat(150), ending.to_vec()].concat();
            let mut replica = slow.replica.try_clone().expect("a second handle");
            let sender = std::thread::spawn(move || {
                let sent = replica.write_all(&wire);
                sent.and_then(|()| replica.shutdown(std::net::Shutdown::Write))
            });
            let shown = slow.shown.take().expect("once");
            let pool = Arc::clone(&slow.pool);
            assert_eq!(slow.inflight(), 1);
            let mut relay = pin!(run(&mut slow.client, shown, &mut record, limits()));
            let freed = async {
                while pool.snapshot().replicas[0].inflight > 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                _ = &mut relay => panic!("its client has taken nothing"),
                freed = tokio::time::timeout(Duration::from_secs(60), freed) => {
                    assert!(freed.is_ok(), "the place is held by the client");
                }
            }
            assert!(sender.join().expect("no panic").is_ok());
        });
    }
}

#[test]
fn the_engine_is_stopped_before_a_slow_client_is_told_why() {
    for stop in [Stop::Silence, Stop::Total, Stop::GatewayStopped] {
        block_on(async {
            let mut slow = slow().await;
            let mut record = Record::new(slow.running.gateway());
            let shown = slow.shown.take().expect("once");
            let mut relay = Relay {
                client: &mut slow.client,
                shown,
                record: &mut record,
                limits: limits(),
                last_byte: clock::now(),
                rest: Vec::new(),
                over: None,
                counted: false,
                concluded: false,
            };
            let mut conclude = pin!(relay.conclude(stop));
            poll_fn(|cx| {
                assert!(conclude.as_mut().poll(cx).is_pending(), "{stop:?}: its client takes nothing");
                Poll::Ready(())
            })
            .await;
            slow.replica.set_nonblocking(true).expect("a socket can be non-blocking");
            let seen = slow.replica.read(&mut [0; 1]).map_err(|e| e.kind());
            assert!(matches!(seen, Ok(0) | Err(ErrorKind::ConnectionReset)), "{stop:?}: {seen:?}");
        });
    }
}
