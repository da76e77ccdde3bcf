//! Several gateways before the same simulated replicas, which do not talk to each other.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluicegate_core::Time;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::sim::{Sim, SimConfig};
use sluicegate_testkit::requests::{CHAT, post, post_with};
use sluicegate_testkit::{Bench, Health, RawClient, until};

/// One more gateway, with the replicas in an order of its own.
async fn gateway(sim: &Sim, nth: usize, pool: &str) -> Bench {
    let mut replicas: Vec<String> = sim.addrs().iter().map(|address| format!("http://{address}")).collect();
    replicas.rotate_left(nth % sim.addrs().len());
    let bench = Bench::start(&format!(
        "[listen]\naddress = \"127.0.0.1:0\"\nthreads = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[usage]\noutput = \
         \"off\"\n[[pools]]\nname = \"pool\"\nreplicas = {replicas:?}\n{pool}\n[pools.health]\nscrape_interval = \
         \"20ms\"\nscrape_timeout = \"20s\"\n[[routes]]\nmodel = \"sim\"\ntargets = [{{ pool = \"pool\" }}]\n"
    ));
    bench.wait_live(replicas.len()).await;
    bench
}

async fn gateways(sim: &Sim, n: usize, pool: &str) -> Vec<Bench> {
    let mut all = Vec::new();
    for nth in 0..n {
        all.push(gateway(sim, nth, pool).await);
    }
    all
}

fn replicas(n: usize, profile: Profile) -> Sim {
    Sim::start(SimConfig { replicas: n, profile, ..SimConfig::default() }).expect("free ports")
}

/// The sum of requests that the engines run, as this gateway knows it.
fn running(bench: &Bench) -> u32 {
    bench.pools()[0].replicas.iter().filter_map(|replica| replica.scraped).map(|load| load.running).sum()
}

/// When each replica was last scraped well; None for one that is out of service.
fn scrapes(bench: &Bench) -> Vec<Option<Time>> {
    let replicas = &bench.pools()[0].replicas;
    replicas.iter().map(|r| r.last_good_scrape.filter(|_| r.health != Health::Ejected)).collect()
}

/// A turn of this talk: with an id, or with what was said before as all there is to know it by.
fn turn(talk: usize, turn: usize) -> Vec<u8> {
    let mut messages = format!(r#"{{"role":"user","content":"talk {talk}"}}"#);
    for n in 0..turn {
        messages +=
            &format!(r#",{{"role":"assistant","content":"{n}"}},{{"role":"user","content":"go on"}}"#);
    }
    let body = format!(r#"{{"model":"sim","max_tokens":2,"messages":[{messages}]}}"#);
    let id = format!("talk-{talk}");
    let fields = [("x-session-id", id.as_str())];
    post_with(CHAT, if talk.is_multiple_of(2) { &fields } else { &[] }, body.as_bytes())
}

/// Where this gateway sends it, once no engine is busy with the turn before.
async fn sent(bench: &Bench, request: &[u8], before: usize) -> String {
    // A scrape that is under way may have seen that turn, and would be taken for load once it has come.
    let seen = scrapes(bench);
    until(|| scrapes(bench).iter().zip(&seen).all(|(now, then)| now.is_none() || now != then)).await;
    until(|| running(bench) == 0).await;
    assert_eq!(bench.ask(request).await.status(), 200);
    let line = bench.assert_idle(before + 1).await.pop().expect("a usage line");
    assert_eq!(line["reason"], json!("affinity_session"), "{line}");
    line["replica"].as_str().expect("a replica").to_owned()
}

#[tokio::test]
async fn a_session_goes_to_the_same_place_through_every_gateway() {
    const TALKS: usize = 16;
    for n in [2, 3] {
        let sim = replicas(4, Profile::named("fast").expect("a profile"));
        let gateways = gateways(&sim, n, "[pools.affinity]\nmode = \"consistent\"").await;
        let (mut asked, mut homes) = (vec![0; n], BTreeMap::new());
        for (turns, talk) in (0..4).flat_map(|turns| (0..TALKS).map(move |talk| (turns, talk))) {
            let through = (talk + turns) % n;
            let at = sent(&gateways[through], &turn(talk, turns), asked[through]).await;
            asked[through] += 1;
            assert_eq!(*homes.entry(talk).or_insert_with(|| at.clone()), at, "turn {turns} of talk {talk}");
        }
        let distinct: std::collections::BTreeSet<_> = homes.values().collect();
        // Where the hashes of free ports lead is chance, and may leave one out; all to one they do not.
        assert!(distinct.len() > 1, "one replica has them all: {homes:?}");
        // One dies: its talks go to the same other places through every gateway, and nobody else's moves.
        let dead = homes[&0].clone();
        let place = sim.addrs().iter().position(|address| dead.ends_with(&address.to_string()));
        sim.replicas()[place.expect("one of them")].stop().await;
        for bench in &gateways {
            let ejected = |bench: &Bench| {
                bench.pools()[0].replicas.iter().any(|r| r.name == dead && r.health == Health::Ejected)
            };
            until(|| ejected(bench)).await;
        }
        for talk in 0..TALKS {
            let mut now = Vec::new();
            for (bench, asked) in gateways.iter().zip(&mut asked) {
                now.push(sent(bench, &turn(talk, 5), *asked).await);
                *asked += 1;
            }
            let home = &homes[&talk];
            assert!(now.iter().all(|at| *at == now[0] && *at != dead), "talk {talk}: {now:?}");
            assert!(*home == dead || now[0] == *home, "talk {talk} had no reason to move: {now:?}");
        }
    }
}

/// A stream that goes on until its client leaves.
async fn endless(bench: &Bench) -> RawClient {
    let body = r#"{"model":"sim","stream":true,"max_tokens":100000,"ignore_eos":true,"messages":[{"role":"user","content":"tell"}]}"#;
    let mut client = bench.client().await;
    client.send(&post(CHAT, body.as_bytes())).await;
    client.head().await;
    client.event().await;
    client
}

fn short() -> Vec<u8> {
    post(CHAT, br#"{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#)
}

#[tokio::test]
async fn a_gateway_without_traffic_of_its_own_waits_where_others_have_filled_the_engine() {
    for n in [2, 3] {
        let sim = replicas(1, Profile::default());
        let gateways = gateways(&sim, n, "load_source = \"engine\"\nslots = 2").await;
        let (idle, others) = gateways.split_last().expect("some");
        let mut streams = Vec::new();
        for nth in 0..2 {
            streams.push(endless(&others[nth % others.len()]).await);
        }
        until(|| running(idle) == 2).await;
        assert_eq!(idle.pools()[0].replicas[0].inflight, 0, "nothing of its own");
        let mut client = idle.client().await;
        client.send(&short()).await;
        until(|| idle.waiting() == 1).await;
        // Scrapes go by, and the engine is as full as before.
        let scraped = |bench: &Bench| bench.pools()[0].replicas[0].last_good_scrape;
        for _ in 0..3 {
            let before = scraped(idle);
            until(|| scraped(idle) > before).await;
        }
        assert_eq!((idle.waiting(), idle.pools()[0].replicas[0].inflight), (1, 0), "it waits");
        streams.pop().expect("two").close().await;
        assert_eq!(client.answer().await.status(), 200, "served when another gateway's stream has ended");
        let lines = idle.assert_idle(1).await;
        assert!(lines[0]["queue_ms"].as_f64() > Some(0.0), "{}", lines[0]);
        streams.pop().expect("one").close().await;
        for (nth, bench) in others.iter().enumerate() {
            bench.assert_idle((0..2).filter(|n| n % others.len() == nth).count()).await;
        }
    }
}

#[tokio::test]
async fn a_gateway_without_traffic_of_its_own_goes_where_the_engine_has_least_to_do() {
    let sim = replicas(2, Profile::default());
    let gateways = gateways(&sim, 2, "load_source = \"engine\"").await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(endless(&gateways[0]).await);
    }
    until(|| running(&gateways[1]) == 3).await;
    let loads: Vec<(String, u32)> = gateways[1].pools()[0]
        .replicas
        .iter()
        .map(|r| (r.name.clone(), r.scraped.map_or(0, |load| load.running)))
        .collect();
    let least = loads.iter().min_by_key(|(_, running)| *running).expect("two").0.clone();
    for asked in 1..=6 {
        // As if its own had never been: a request of before is not taken for one that runs.
        until(|| running(&gateways[1]) == 3).await;
        assert_eq!(gateways[1].ask(&short()).await.status(), 200);
        let lines: Vec<Value> = gateways[1].assert_idle(asked).await;
        assert!(lines.iter().all(|line| line["replica"] == json!(least)), "{loads:?}: {lines:?}");
    }
    for stream in streams {
        stream.close().await;
    }
    gateways[0].assert_idle(3).await;
}
