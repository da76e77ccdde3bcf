//! Mode `predictive`, which a route has by itself, where little is known: prompts that no hash can tell, engines that say
//! nothing of themselves, requests that are no prompts, bodies of many megabytes.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{answer, chat_answer};
use sluicegate_testkit::requests::{CHAT, chat, post, post_with};
use sluicegate_testkit::{Bench, Config, Health, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed};

/// Where the requests of these talks went, turn by turn: `turn` makes the n-th request of a talk.
async fn homes(
    bench: &Bench,
    talks: usize,
    turns: usize,
    turn: impl Fn(usize, usize) -> Vec<u8>,
) -> Vec<Vec<Value>> {
    let before = bench.usage_count();
    let mut homes = vec![Vec::new(); talks];
    for n in 0..turns {
        for talk in 0..talks {
            assert_eq!(bench.ask(&turn(talk, n)).await.status(), 200, "talk {talk}, turn {n}");
        }
    }
    let lines = bench.usage_lines(before + talks * turns).await;
    for (index, line) in lines[before..].iter().enumerate() {
        assert_line(
            line,
            &[("outcome", json!("ok")), ("reason", json!("predicted")), ("spilled", json!(false))],
        );
        homes[index % talks].push(line["replica"].clone());
    }
    homes
}

/// Every turn of a talk went where its first one did, and the talks went to all of so many replicas.
#[track_caller]
fn assert_kept(homes: &[Vec<Value>], replicas: usize, what: &str) {
    for (talk, places) in homes.iter().enumerate() {
        assert!(places.iter().all(|place| *place == places[0]), "{what}, talk {talk}: {places:?}");
    }
    let mut firsts: Vec<String> = homes.iter().map(|places| places[0].to_string()).collect();
    firsts.sort();
    firsts.dedup();
    assert_eq!(firsts.len(), replicas, "{what}: {firsts:?}");
}

/// The turns so far of a talk, each with this content.
fn turns(n: usize, content: impl Fn(usize) -> Value) -> Value {
    let turn = |at: usize| {
        [json!({ "role": "user", "content": content(at) }), json!({ "role": "assistant", "content": "a" })]
    };
    let mut all: Vec<Value> = (0..n).flat_map(turn).collect();
    all.push(json!({ "role": "user", "content": content(n) }));
    all.into()
}

async fn three_replicas() -> ([Upstream; 3], Bench) {
    let ups = ["m1"; 3].map(Upstream::start);
    ups.iter().for_each(|up| up.answer_with(vec![send(chat_answer("a", 500, 5))]));
    let bench = Bench::live(&Config::new(&[&ups[0], &ups[1], &ups[2]]), 3).await;
    (ups, bench)
}

#[tokio::test]
async fn g7_a_talk_stays_in_the_default_mode_whatever_its_turns_are_made_of() {
    let (ups, bench) = three_replicas().await;
    let picture = |talk: usize| format!("iVBOR{talk}KGgo").repeat(400);
    // What a turn holds, and whether the client gives the talk a name.
    type Content<'a> = (&'a str, bool, &'a dyn Fn(usize, usize) -> Value);
    let contents: [Content<'_>; 5] = [
        ("short texts", true, &|talk, n| json!(format!("{talk}.{n}?"))),
        (
            "parts of text",
            false,
            &|talk, n| json!([{ "type": "text", "text": format!("talk {talk}, part {n} of it. ").repeat(80) }]),
        ),
        ("pictures inside", false, &|talk, n| {
            let url = format!("data:image/png;base64,{}", picture(talk));
            json!([{ "type": "text", "text": n.to_string() }, { "type": "image_url", "image_url": { "url": url } }])
        }),
        (
            "pictures by reference",
            true,
            &|talk, n| json!([{ "type": "image_url", "image_url": { "url": format!("http://h/{talk}/{n}.png") } }]),
        ),
        ("short texts of a talk without a name", false, &|talk, n| json!(format!("{talk}.{n}?"))),
    ];
    for (what, named, content) in contents {
        let homes = homes(&bench, 6, 8, |talk, n| {
            let body = json!({ "model": "m1", "messages": turns(n, |at| content(talk, at)) }).to_string();
            let id = format!("{what} {talk}");
            let fields: &[(&str, &str)] = if named { &[("x-session-id", &id)] } else { &[] };
            post_with(CHAT, fields, body.as_bytes())
        });
        assert_kept(&homes.await, 3, what);
    }
    assert_nobody_blamed(&bench, &[&ups[0], &ups[1], &ups[2]]);
}

#[tokio::test]
async fn prompts_of_eight_megabytes_are_told_apart_by_their_first() {
    let (_ups, bench) = three_replicas().await;
    let body = |talk: usize, n: usize| {
        let long = format!("talk {talk}, and on it goes. ").repeat(350_000);
        json!({ "model": "m1", "messages": turns(n, |at| json!(if at == 0 { long.as_str() } else { "go on" })) }).to_string()
    };
    assert!(body(0, 0).len() > 7 << 20);
    let homes = homes(&bench, 3, 2, |talk, n| post(CHAT, body(talk, n).as_bytes())).await;
    assert_kept(&homes, 3, "eight megabytes");
}

/// Each of these is tried thirty times in turn, and every replica gets a third of it.
#[tokio::test]
async fn what_has_no_prompt_is_spread_evenly() {
    let (ups, bench) = three_replicas().await;
    let all = [&ups[0], &ups[1], &ups[2]];
    let bodies: [(&str, String); 7] = [
        ("/v1/embeddings", r#"{"model":"m1","input":["a","b"]}"#.into()),
        ("/v1/embeddings", format!(r#"{{"model":"m1","input":"{}"}}"#, "the same long text. ".repeat(200))),
        ("/v1/rerank", r#"{"model":"m1","query":"a","documents":["b","c"]}"#.into()),
        ("/v1/images/generations", r#"{"model":"m1","prompt":"a cat"}"#.into()),
        ("/v1/audio/speech", r#"{"model":"m1","input":"hello","voice":"a"}"#.into()),
        ("/tokenize", format!(r#"{{"model":"m1","prompt":"{}"}}"#, "the same long text. ".repeat(200))),
        (CHAT, r#"{"model":"m1","messages":[]}"#.into()),
    ];
    let mut sent = 0;
    for (path, body) in &bodies {
        let before = all.map(|up| up.counts().requests.get());
        for _ in 0..30 {
            assert_eq!(bench.ask(&post(path, body.as_bytes())).await.status(), 200, "{path}");
        }
        sent += 30;
        let lines = bench.usage_lines(sent).await;
        assert_line(&lines[sent - 1], &[("outcome", json!("ok")), ("reason", json!("predicted"))]);
        let got = all.map(|up| up.counts().requests.get());
        let shares: Vec<u64> = got.iter().zip(before).map(|(now, before)| now - before).collect();
        assert!(shares.iter().all(|n| (9..=11).contains(n)), "{path}: {shares:?}");
    }
    bench.assert_idle(sent).await;
}

/// Engines that tell nothing of blocks or caches, and providers that are not even scraped.
#[tokio::test]
async fn without_a_word_from_the_engines_talks_stay_and_new_ones_are_spread() {
    for (engine, metrics) in
        [("llama_cpp", "llamacpp:requests_processing 0\n"), ("auto", "nothing of use 1\n"), ("openai", "")]
    {
        let ups = ["m1"; 3].map(Upstream::start);
        let all = [&ups[0], &ups[1], &ups[2]];
        for up in all {
            up.answer_with(vec![send(chat_answer("a", 500, 5))]);
            up.set_metrics(vec![send(answer(200, &[("Content-Type", "text/plain")], metrics.as_bytes()))]);
        }
        let bench = Bench::live(&Config::new(&all).set("pools", "engine", engine), 3).await;
        let homes = homes(&bench, 6, 6, |talk, n| {
            let content = |at: usize| json!(format!("talk {talk}, turn {at}. ").repeat(100));
            post(CHAT, json!({ "model": "m1", "messages": turns(n, content) }).to_string().as_bytes())
        });
        assert_kept(&homes.await, 3, engine);
        if engine == "openai" {
            assert!(all.iter().all(|up| up.probes().is_empty()), "nobody is scraped");
        }
    }
}

#[tokio::test]
async fn one_replica_answers_whatever_there_is_to_predict() {
    let up = Upstream::start("m1");
    up.answer_with(vec![send(chat_answer("a", 500, 5))]);
    let bench = Bench::live(&Config::new(&[&up]), 1).await;
    for body in [
        chat("m1", ""),
        json!({ "model": "m1", "messages": turns(3, |_| json!("x".repeat(5000))) }).to_string().into(),
    ] {
        assert_eq!(bench.ask(&post(CHAT, &body)).await.status(), 200);
    }
    for line in bench.assert_idle(2).await {
        assert_line(&line, &[("reason", json!("predicted")), ("replica", json!(up.url()))]);
    }
}

#[tokio::test]
async fn a_talk_whose_replica_died_goes_on_elsewhere_and_stays_there() {
    let (ups, bench) = three_replicas().await;
    let all = [&ups[0], &ups[1], &ups[2]];
    let content = |at: usize| json!(format!("the talk, turn {at}. ").repeat(100));
    let ask =
        |n: usize| post(CHAT, json!({ "model": "m1", "messages": turns(n, content) }).to_string().as_bytes());
    for n in 0..3 {
        assert_eq!(bench.ask(&ask(n)).await.status(), 200);
    }
    let lines = bench.usage_lines(3).await;
    let home = all.into_iter().find(|up| json!(up.url()) == lines[0]["replica"]).expect("a replica");
    assert!(lines.iter().all(|line| line["replica"] == lines[0]["replica"]));
    home.stop();
    bench.wait_health(home, Health::Ejected).await;
    for n in 3..8 {
        assert_eq!(bench.ask(&ask(n)).await.status(), 200);
    }
    let lines = bench.assert_idle(8).await;
    assert_ne!(lines[3]["replica"], lines[0]["replica"]);
    assert!(lines[3..].iter().all(|line| line["replica"] == lines[3]["replica"]), "{lines:?}");
}
