//! Replicas that come and go under traffic: nothing of a request is left, wherever it was, and nothing of a replica but
//! its history.

use std::sync::Arc;

use sluicegate_testkit::discovery::{config, has, names};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Health, ReplicaSnapshot, Upstream, until};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::discovery::{list, start_with};
use crate::leaks::{Dice, Traffic, script};

/// Lists of one run; the traffic ends with the last.
const LISTS: usize = 5;
/// Requests under way at once.
const AT_ONCE: usize = 16;

fn settings(discover: &str) -> String {
    // Failures must not take replicas away here: this is about what is left of requests.
    let health = "[pools.health]\neject_after_5xx = 1000000\n";
    config(discover).replace("[pools.health]\n", health) + "[routes.timeouts]\nstream_silence = \"500ms\"\n"
}

/// Some of all, one at least, in an order of its own.
fn some(dice: &mut Dice, all: &[String]) -> Vec<String> {
    let mut chosen = all.to_vec();
    let turn = usize::try_from(dice.roll(4)).unwrap_or(0) % all.len();
    chosen.rotate_left(turn);
    chosen.truncate(1 + usize::try_from(dice.roll(4)).unwrap_or(0) % all.len());
    chosen
}

/// One list after the other, each as soon as the one before holds.
async fn change(bench: Arc<Bench>, folder: Arc<TempDir>, urls: [String; 4], mut dice: Dice) {
    for _ in 0..LISTS {
        let wanted = some(&mut dice, &urls);
        list(&folder, &wanted);
        until(|| {
            let now = bench.pools().remove(0).replicas;
            let there = |url: &String| now.iter().any(|replica| replica.name == *url);
            let goes = |replica: &ReplicaSnapshot| replica.outgoing || replica.health == Health::Draining;
            wanted.iter().all(there) && now.iter().all(|r| wanted.contains(&r.name) || goes(r))
        })
        .await;
    }
}

async fn run(seed: u64) {
    let ups = ["m1"; 4].map(Upstream::start);
    let folder = Arc::new(TempDir::new().expect("a folder"));
    let urls = ups.each_ref().map(Upstream::url);
    list(&folder, &urls);
    let bench = Arc::new(start_with(&folder, settings));
    bench.wait_live(4).await;
    ups.iter().for_each(|up| up.on_request(script));
    let mut changes = JoinSet::new();
    changes.spawn(change(Arc::clone(&bench), Arc::clone(&folder), urls, Dice(seed)));
    let mut traffic = Traffic::new(&bench, seed, AT_ONCE);
    while changes.try_join_next().map(|ended| ended.expect("the lists were taken")).is_none() {
        traffic.one_more().await;
    }
    let expected = traffic.end().await;
    let last = [ups[1].url(), ups[3].url()];
    list(&folder, &last);
    has(&bench, &last.each_ref().map(String::as_str)).await;
    bench.assert_idle(expected).await;
    until(|| bench.open_connections() == 0).await;
    until(|| ups.iter().all(|up| up.counts().open.get() == 0)).await;
    // The removed ones' idle connections are closed, and nothing asks for them any more.
    for gone in [&ups[0], &ups[2]] {
        gone.counts().open_connections.becomes(|open| open == 0).await;
    }
}

#[tokio::test]
async fn g13_replicas_that_come_and_go_under_traffic_leave_nothing_of_a_request_behind() {
    for seed in [1, 2] {
        run(seed).await;
    }
}

#[tokio::test]
async fn a_replica_that_comes_back_has_the_health_that_it_went_with() {
    let [one, two] = ["m1"; 2].map(Upstream::start);
    let folder = TempDir::new().expect("a folder");
    let both = [one.url(), two.url()];
    list(&folder, &both);
    let bench = start_with(&folder, settings);
    bench.wait_live(2).await;
    one.stop();
    bench.wait_health(&one, Health::Ejected).await;
    list(&folder, &[two.url()]);
    has(&bench, &[&two.url()]).await;
    one.start_again();
    list(&folder, &both);
    has(&bench, &both.each_ref().map(String::as_str)).await;
    let back = bench.replica(&one);
    assert_eq!((back.streak, back.ejections), (1, 1), "{back:?}");
    // It answers well by now, and its cooldown runs all the same.
    let probes = one.counts().health_probes.get();
    one.counts().health_probes.reached(probes + 3).await;
    assert_eq!(bench.replica(&one).health, Health::Starting);
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    assert_eq!((one.received().len(), names(&bench).len()), (0, 2), "the other one served it");
    bench.assert_idle(1).await;
}
