//! GPUStack's instances behind their worker: one address for all of them, and a field that names the one that is meant.

use std::net::{Ipv4Addr, SocketAddr};

use sluicegate_testkit::answers::{json_answer, polite};
use sluicegate_testkit::discovery::{config, has};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Feed, Step, Upstream, send};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Where workers listen.
const PORT: u16 = 10_150;
const FIELD: &str = "x-gpustack-model-instance";

/// `to` at a worker's port, on a loopback address of its own.
async fn worker(to: SocketAddr) -> (Ipv4Addr, JoinSet<()>) {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let ip = Ipv4Addr::new(127, high, low, 150);
    let listener = TcpListener::bind((ip, PORT)).await.expect("an address that nobody else has");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut outside, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut inside = TcpStream::connect(to).await.expect("it listens");
                let _ = copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    (ip, tasks)
}

fn instance(id: u64, worker: Ipv4Addr) -> String {
    format!(
        r#"{{"id": {id}, "model_id": 2, "state": "running", "worker_ip": "10.0.0.9", "port": 40001,
            "worker_advertise_address": "{worker}", "draining_since": null, "role": ""}}"#
    )
}

#[tokio::test]
async fn instances_behind_a_worker_are_told_apart_by_their_field_alone() {
    let [engines, api] = [Upstream::start("m1"), Upstream::start("api")];
    let (ip, _worker) = worker(engines.address()).await;
    engines.on_request(polite);
    let watch = Feed::new();
    let (fed, items) = (watch.clone(), [instance(4, ip), instance(7, ip)].join(","));
    api.on_request(move |request| {
        if request.head.target().contains("watch=true") {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            return vec![send(head), Step::Feed(fed.clone())];
        }
        vec![send(json_answer(200, &format!(r#"{{"items": [{items}], "pagination": {{"totalPage": 1}}}}"#)))]
    });
    let bench = Bench::start(&config(&format!(
        "{{ source = \"gpustack\", url = \"{}\", model_id = 2, via = \"worker\" }}",
        api.url()
    )));
    let names = [4, 7].map(|id| format!("http://{ip}:{PORT}#model-2-{id}.static"));
    has(&bench, &names.each_ref().map(String::as_str)).await;
    bench.wait_live(2).await;
    for _ in 0..4 {
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    }
    let meant = |id: u64| {
        let name = format!("model-2-{id}.static");
        engines.received().iter().filter(|request| request.head.get(FIELD) == Some(&*name)).count()
    };
    assert_eq!((meant(4), meant(7)), (2, 2), "each in its turn");
    let host = format!("{ip}:{PORT}");
    assert!(engines.received().iter().all(|request| request.head.get("host") == Some(&*host)));
    let probes = engines.probes();
    assert!(probes.iter().all(|head| head.get(FIELD).is_some()), "scrapes say whom they mean: {probes:?}");
    watch.push(b"{\"type\": 3, \"data\": {\"id\": 4}}\n\n");
    has(&bench, &[&names[1]]).await;
    for _ in 0..3 {
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    }
    assert_eq!((meant(4), meant(7)), (2, 5));
    bench.assert_idle(7).await;
}
