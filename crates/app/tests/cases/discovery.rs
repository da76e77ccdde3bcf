//! Replicas that come and go while the gateway runs: the file source, and what holds for all of them.

use std::path::Path;

use sluicegate_testkit::answers::{DONE, LAST_CHUNK, STREAM_HEAD, answer, chunk, text_event};
use sluicegate_testkit::discovery::{config, has, names, source};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, End, Feed, Health, Step, Upstream, send, until};
use tempfile::TempDir;

pub(crate) fn list(folder: &TempDir, lines: &[String]) {
    let (next, file) = (folder.path().join("next"), file(folder));
    std::fs::write(&next, lines.join("\n")).expect("a file can be written");
    std::fs::rename(next, file).expect("and moved");
}

fn file(folder: &TempDir) -> impl AsRef<Path> + use<> {
    folder.path().join("replicas")
}

fn start(folder: &TempDir) -> Bench {
    start_with(folder, config)
}

/// In front of the replicas of the folder's list. `config` makes the configuration from the source.
pub(crate) fn start_with(folder: &TempDir, config: impl Fn(&str) -> String) -> Bench {
    let path = file(folder);
    Bench::start(&config(&format!("{{ source = \"file\", path = {:?} }}", path.as_ref())))
}

fn request() -> Vec<u8> {
    post(CHAT, &chat("m1", ""))
}

#[tokio::test]
async fn a_file_changes_and_traffic_moves_without_an_error() {
    let (old, new) = (Upstream::start("m1"), Upstream::start("m1"));
    let folder = TempDir::new().expect("a folder");
    list(&folder, &["# one".into(), old.url()]);
    let bench = start(&folder);
    bench.wait_live(1).await;
    assert_eq!(bench.ask(&request()).await.status(), 200);
    // Both for a while, as a deployment does: the new one proves itself next to the old one.
    list(&folder, &[old.url(), new.url()]);
    let mut asked = 1;
    while bench.pools()[0].replicas.iter().filter(|r| r.health == Health::Live).count() < 2 {
        assert_eq!(bench.ask(&request()).await.status(), 200, "request {asked}");
        asked += 1;
    }
    list(&folder, &[new.url()]);
    while names(&bench).len() > 1 {
        assert_eq!(bench.ask(&request()).await.status(), 200, "request {asked}");
        asked += 1;
    }
    has(&bench, &[&new.url()]).await;
    let before = old.counts().requests.get();
    for _ in 0..5 {
        assert_eq!(bench.ask(&request()).await.status(), 200);
        asked += 1;
    }
    assert_eq!(old.counts().requests.get(), before, "the old one gets nothing more");
    old.counts().open_connections.becomes(|open| open == 0).await;
    let page = bench.admin("/metrics").await.text();
    assert!(!page.contains(&old.url()), "its series have ended:\n{page}");
    bench.assert_idle(asked).await;
}

#[tokio::test]
async fn a_list_that_replaces_every_replica_costs_no_request() {
    let (old, new, later) = (Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1"));
    let folder = TempDir::new().expect("a folder");
    list(&folder, &[old.url()]);
    let bench = start(&folder);
    bench.wait_live(1).await;
    // As an engine that loads its model, for as long as the test wants.
    new.set_health(vec![send(answer(503, &[], b""))]);
    list(&folder, &[new.url()]);
    has(&bench, &[&old.url(), &new.url()]).await;
    new.counts().health_probes.reached(3).await;
    for _ in 0..5 {
        assert_eq!(bench.ask(&request()).await.status(), 200);
    }
    assert_eq!(old.counts().requests.get(), 5, "the old one serves on");
    let state = bench.admin("/api/state").await.json();
    let outgoing = |n: usize| state["pools"][0]["replicas"][n]["outgoing"].clone();
    assert_eq!((outgoing(0), outgoing(1)), (true.into(), false.into()), "{state}");
    new.set_healthy();
    let mut asked = 5;
    while names(&bench).len() > 1 {
        assert_eq!(bench.ask(&request()).await.status(), 200, "request {asked}");
        asked += 1;
    }
    has(&bench, &[&new.url()]).await;
    // Nobody waits for ever: the one that is not listed any more dies before the next one is LIVE.
    later.set_health(vec![send(answer(503, &[], b""))]);
    list(&folder, &[later.url()]);
    has(&bench, &[&new.url(), &later.url()]).await;
    new.stop();
    has(&bench, &[&later.url()]).await;
    later.set_healthy();
    bench.wait_live(1).await;
    assert_eq!(bench.ask(&request()).await.status(), 200);
    bench.assert_idle(asked + 1).await;
}

#[tokio::test]
async fn a_removed_replicas_running_stream_finishes() {
    let (old, new) = (Upstream::start("m1"), Upstream::start("m1"));
    let feed = Feed::new();
    old.answer_with(vec![send(STREAM_HEAD), Step::Feed(feed.clone())]);
    let folder = TempDir::new().expect("a folder");
    list(&folder, &[old.url()]);
    let bench = start(&folder);
    bench.wait_live(1).await;
    let mut client = bench.client().await;
    client.send(&post(CHAT, &chat("m1", r#","stream":true"#))).await;
    feed.push(chunk(&text_event("one")));
    client.head().await;
    client.event().await;
    list(&folder, &[new.url()]);
    until(|| names(&bench).contains(&new.url())).await;
    assert!(names(&bench).contains(&old.url()), "its stream runs");
    feed.push(chunk(&text_event("two")));
    client.event().await;
    feed.push(chunk(DONE));
    feed.push(LAST_CHUNK);
    let (rest, end) = client.rest().await;
    assert!(end != End::Reset && String::from_utf8_lossy(&rest).contains("[DONE]"), "{end:?}");
    has(&bench, &[&new.url()]).await;
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn a_source_that_fails_or_is_suddenly_empty_keeps_serving_and_says_so() {
    let one = Upstream::start("m1");
    let folder = TempDir::new().expect("a folder");
    list(&folder, &[one.url()]);
    let bench = start(&folder);
    bench.wait_live(1).await;
    source(&bench, false).await;
    let broken = ["# nothing left", "http://10.0.0.1:8000\nnonsense"];
    for text in broken {
        list(&folder, &[text.to_owned()]);
        let said = source(&bench, true).await;
        assert_eq!((&said["source"], &said["replicas"]), (&"file".into(), &1.into()), "{said}");
        assert_eq!(bench.ask(&request()).await.status(), 200);
        list(&folder, &[one.url()]);
        source(&bench, false).await;
    }
    std::fs::remove_file(file(&folder)).expect("it was there");
    let said = source(&bench, true).await;
    assert!(said["failing"].as_str().is_some_and(|why| why.contains("cannot be read")), "{said}");
    assert_eq!(bench.metric("sluicegate_discovery_up{pool=\"pool\",source=\"file\"}").await, 0.0);
    assert_eq!(bench.ask(&request()).await.status(), 200);
    has(&bench, &[&one.url()]).await;
    bench.assert_idle(3).await;
}
