//! Refused credentials of a pool: which answers are the client's to see, and which are between gateway and replica.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use sluicegate_testkit::answers::{answer, error_answer, error_json, event, polite};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error};
use crate::hosted::{bearer, used, with_credentials};

/// A provider's API, and engines of one's own behind a key: the same in all of this.
const ENGINES: [&str; 2] = ["openai", "vllm"];

async fn bench(up: &Upstream, engine: &str, folder: &Path, credentials: &[&str]) -> Bench {
    let config = Config::new(&[up]).set("pools", "engine", engine).set("listen", "threads", 1);
    Bench::live(&with_credentials(config, folder, credentials), 1).await
}

/// Answers each credential with its status, and 429 with `retry-after`: the status's last digits times its own number.
fn answers(up: &Upstream, statuses: &[(&str, u16)]) {
    let statuses: BTreeMap<String, u16> = statuses.iter().map(|(c, s)| ((*c).to_owned(), *s)).collect();
    up.on_request(move |request| {
        let credential = bearer(request);
        match statuses.get(&credential) {
            Some(429) => {
                let seconds = format!("7{}", &credential[1..]);
                let fields = [("content-type", "application/json"), ("retry-after", seconds.as_str())];
                vec![send(answer(429, &fields, error_json(429, &credential).as_bytes()))]
            }
            Some(status) => vec![send(error_answer(*status, &credential))],
            None => polite(request),
        }
    });
}

/// Scrapes take their turns too, so that it is chance who comes first where there are any.
fn sorted(mut credentials: Vec<String>) -> Vec<String> {
    credentials.sort();
    credentials
}

#[tokio::test]
async fn where_every_credential_is_unknown_the_client_is_not_told_that_its_key_is() {
    for engine in ENGINES {
        for credentials in [&["c1"][..], &["c1", "c2"], &["c1", "c2", "c3"]] {
            let up = Upstream::start("m1");
            let folder = tempfile::tempdir().expect("a folder");
            let bench = bench(&up, engine, folder.path(), credentials).await;
            up.answer_with(vec![send(error_answer(401, "Incorrect API key provided: c1"))]);
            let error = assert_own_error(&bench.ask(&post(CHAT, &chat("m1", ""))).await, 502);
            assert_eq!(
                (&error["code"], &error["type"]),
                (&json!("credential_refused"), &json!("server_error"))
            );
            assert!(!error["message"].as_str().expect("a text").contains("c1"), "{error}");
            assert_eq!(sorted(used(&up)), credentials, "each once");
            // All rest: one is used all the same, once, also for a stream and in the other dialect.
            assert_own_error(&bench.ask(&post(CHAT, &chat("m1", r#","stream":true"#))).await, 502);
            let body = chat("m1", r#","max_tokens":9"#);
            let other = bench.ask(&post("/v1/messages", &body)).await;
            assert_eq!((other.status(), &other.json()["error"]["type"]), (502, &json!("api_error")));
            assert_eq!(up.counts().requests.get(), credentials.len() as u64 + 2);
            up.on_request(polite);
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
            let told = [("outcome", json!("upstream_error")), ("error_type", json!("credential_refused"))];
            for line in &bench.assert_idle(4).await[..3] {
                assert_line(line, &told);
                assert_line(line, &[("status", json!(502)), ("attempts", json!(1))]);
            }
            assert_nobody_blamed(&bench, &[&up]);
        }
    }
}

/// The same words as an event, or for a key that is sent in a field of the pool's own.
#[tokio::test]
async fn a_refused_key_is_the_gateways_in_every_form() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let refused = event(&error_json(401, "no such key"));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        refused.len()
    );
    let gateway = bench(&up, "openai", folder.path(), &["c1", "c2"]).await;
    up.answer_with(vec![send([head.into_bytes(), refused].concat())]);
    let error = assert_own_error(&gateway.ask(&post(CHAT, &chat("m1", r#","stream":true"#))).await, 502);
    assert_eq!(
        (&error["code"], used(&up)),
        (&json!("credential_refused"), vec!["c1".to_owned(), "c2".to_owned()])
    );
    let file = folder.path().join("c1");
    let up = Upstream::start("m1");
    let text = Config::new(&[&up]).text();
    let field = format!("[pools.headers]\n\"x-api-key\" = \"file:{}\"\n[pools.health]", file.display());
    let gateway = Bench::start(&text.replace("[pools.health]", &field));
    gateway.wait_live(1).await;
    up.answer_with(vec![send(error_answer(401, "no such key"))]);
    let error = assert_own_error(&gateway.ask(&post(CHAT, &chat("m1", ""))).await, 502);
    assert_eq!(error["code"], json!("credential_refused"));
    assert_eq!(up.only_request().head.get("x-api-key"), Some("c1"));
}

/// Two that are forbidden the same: it is about what was asked.
#[tokio::test]
async fn a_403_of_two_credentials_is_the_requests_own_and_rests_neither() {
    for engine in ENGINES {
        let up = Upstream::start("m1");
        let folder = tempfile::tempdir().expect("a folder");
        let bench = bench(&up, engine, folder.path(), &["c1", "c2", "c3"]).await;
        answers(&up, &[("c1", 403), ("c2", 403), ("c3", 403)]);
        let answer = bench.ask(&post(CHAT, &chat("m1", ""))).await;
        let asked = used(&up);
        assert!(asked.len() == 2 && asked[0] != asked[1], "{asked:?}");
        assert_eq!((answer.status(), answer.text()), (403, error_json(403, &asked[1])));
        up.on_request(polite);
        up.forget_received();
        for _ in 0..30 {
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
        }
        let mut later = sorted(used(&up));
        later.dedup();
        assert_eq!(later, ["c1", "c2", "c3"], "none rests");
        let lines = bench.assert_idle(31).await;
        assert_line(&lines[0], &[("outcome", json!("client_error")), ("attempts", json!(1))]);
        assert_nobody_blamed(&bench, &[&up]);
    }
}

#[tokio::test]
async fn the_only_credentials_403_is_relayed() {
    for engine in ENGINES {
        let up = Upstream::start("m1");
        let folder = tempfile::tempdir().expect("a folder");
        let bench = bench(&up, engine, folder.path(), &["c1"]).await;
        answers(&up, &[("c1", 403)]);
        for asked in 1..=2 {
            let answer = bench.ask(&post(CHAT, &chat("m1", ""))).await;
            assert_eq!((answer.status(), answer.text()), (403, error_json(403, "c1")));
            assert_eq!(up.counts().requests.get(), asked);
        }
        bench.assert_idle(2).await;
    }
}

/// What three credentials are answered (0: the third is not asked), what the client gets and whose answer it is, and
/// which do not rest after it.
#[tokio::test]
async fn the_answer_that_says_most_of_the_request_is_relayed() {
    const NAMES: [&str; 3] = ["c1", "c2", "c3"];
    let rows: [([u16; 3], u16, &str, &[&str]); 7] = [
        // The last 429 has the hint that counts.
        ([429, 429, 429], 429, "c3", &[]),
        ([429, 401, 401], 429, "c1", &[]),
        ([401, 429, 401], 429, "c2", &[]),
        ([403, 401, 401], 403, "c1", &["c1"]),
        ([403, 429, 403], 403, "c3", &["c1", "c3"]),
        ([401, 403, 403], 403, "c3", &["c2", "c3"]),
        // Another one may do it: the first may not.
        ([403, 404, 0], 404, "c2", &["c2", "c3"]),
    ];
    for (statuses, status, whose, awake) in rows {
        let up = Upstream::start("m1");
        let folder = tempfile::tempdir().expect("a folder");
        let bench = bench(&up, "openai", folder.path(), &NAMES).await;
        let asked: Vec<_> = NAMES.into_iter().zip(statuses).filter(|(_, status)| *status > 0).collect();
        answers(&up, &asked);
        let answer = bench.ask(&post(CHAT, &chat("m1", ""))).await;
        assert_eq!((answer.status(), answer.text()), (status, error_json(status, whose)), "{statuses:?}");
        let hint = (status == 429).then(|| format!("7{}", &whose[1..]));
        assert_eq!(answer.head.get("retry-after"), hint.as_deref(), "{statuses:?}");
        assert_eq!(used(&up), asked.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{statuses:?}");
        up.on_request(polite);
        up.forget_received();
        for _ in 0..6 {
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
        }
        let mut later = sorted(used(&up));
        later.dedup();
        // Where all rest, all are used all the same.
        let awake = if awake.is_empty() { &NAMES } else { awake };
        assert_eq!(later, awake, "{statuses:?}");
        bench.assert_idle(7).await;
    }
}

/// However many there are.
#[tokio::test]
async fn a_403_costs_two_replays_at_most() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let bench = bench(&up, "openai", folder.path(), &["c1", "c2", "c3", "c4", "c5"]).await;
    answers(&up, &[("c1", 403), ("c2", 429), ("c3", 429), ("c4", 429), ("c5", 429)]);
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 429);
    assert_eq!(used(&up), ["c1", "c2", "c3"]);
    bench.assert_idle(1).await;
}

/// A failure of the replica says nothing of the credential before.
#[tokio::test]
async fn a_403_is_not_judged_by_a_failure_of_the_replica() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let bench = bench(&up, "openai", folder.path(), &["c1", "c2"]).await;
    up.on_request(|request| match bearer(request).as_str() {
        "c1" => vec![send(error_answer(403, "c1"))],
        _ => vec![Step::Reset],
    });
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 502);
    up.on_request(polite);
    up.forget_received();
    for _ in 0..2 {
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    }
    assert_eq!(sorted(used(&up)), ["c1", "c2"]);
    bench.assert_idle(3).await;
}

/// The first credential is refused by whatever path is scraped.
#[tokio::test]
async fn scrapes_bring_what_requests_bring_and_a_credential_refused_there_rests() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let config =
        with_credentials(Config::new(&[&up]).set("listen", "threads", 1), folder.path(), &["c1", "c2"]);
    let fields = "[pools.headers]\n\"X-Org\" = \"org-7\"\n[pools.health]";
    up.on_probe(|head| {
        let refused = head.get("authorization") == Some("Bearer c1");
        refused.then(|| vec![send(error_answer(401, "no such key"))])
    });
    let bench = Bench::start(&config.text().replace("[pools.health]", fields));
    bench.wait_live(1).await;
    let probes = &up.counts().health_probes;
    probes.reached(probes.get() + 20).await;
    for _ in 0..4 {
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    }
    assert_eq!(used(&up), ["c2"; 4], "the other one rests");
    let heads = up.probes();
    assert_eq!(heads.len(), 3);
    for head in heads {
        let brought = (head.get("authorization"), head.get("x-org"));
        assert_eq!(brought, (Some("Bearer c2"), Some("org-7")), "{head:?}");
    }
    assert_nobody_blamed(&bench, &[&up]);
    bench.assert_idle(4).await;
}
