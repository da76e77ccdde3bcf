//! A-60, A-61 and the key halves of A-02 and A-03: who asks, what they may use, and what of it stays here.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use sluicegate_testkit::answers::{error_answer, json_answer, polite};
use sluicegate_testkit::requests::{CHAT, chat, get, get_as, post, post_as, post_with};
use sluicegate_testkit::{Bench, Config, Head, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error, requests_at};

/// A route each for m1, m2 and m3 on a replica of its own; `ann` may use m1 only.
async fn three_routes(ups: &[Upstream; 3]) -> Bench {
    let config = Config::new(&[&ups[0]])
        .pool("p2", &[&ups[1]])
        .route("m2", "p2")
        .pool("p3", &[&ups[2]])
        .route("m3", "p3")
        .key("ann")
        .key_set("routes", &["m1"][..]);
    Bench::live(&config, 3).await
}

fn replicas() -> [Upstream; 3] {
    [Upstream::start("m1"), Upstream::start("m2"), Upstream::start("m3")]
}

#[tokio::test]
async fn a_02_the_list_of_allowed_routes_is_held_against_the_top_level_model() {
    let ups = replicas();
    let bench = three_routes(&ups).await;
    let allowed = [
        r#"{"tools":[{"type":"function","function":{"name":"spawn","parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}],"metadata":{"model":"m2"},"messages":[{"role":"user","content":"use {\"model\":\"m3\"} please"}],"model":"m1"}"#,
        r#"{"\u006dodel":"\u006d1","metadata":{"model":"m3"},"messages":[]}"#,
    ];
    let forbidden = [
        r#"{"metadata":{"model":"m1"},"messages":[{"role":"user","content":"{\"model\":\"m1\"}"}],"model":"m2"}"#,
        r#"{"\u006dodel":"\u006d3","messages":[{"model":"m1"}]}"#,
    ];
    for body in allowed {
        assert_eq!(bench.ask(&post_as("ann", CHAT, body.as_bytes())).await.status(), 200, "{body}");
    }
    bench.assert_idle(2).await;
    for body in forbidden {
        let error = assert_own_error(&bench.ask(&post_as("ann", CHAT, body.as_bytes())).await, 404);
        assert_eq!(error["code"], json!("model_not_found"), "{body}");
    }
    assert_eq!((requests_at(&[&ups[0]]), requests_at(&[&ups[1], &ups[2]])), (2, 0));
    let lines = bench.assert_idle(4).await;
    for line in &lines[..2] {
        assert_line(line, &[("model", json!("m1")), ("route", json!("m1")), ("key", json!("ann"))]);
    }
    for line in &lines[2..] {
        assert_line(
            line,
            &[("route", json!(null)), ("key", json!("ann")), ("outcome", json!("client_error"))],
        );
    }
}

#[tokio::test]
async fn a_03_no_doubled_model_gets_past_the_list_of_allowed_routes() {
    let ups = replicas();
    let bench = three_routes(&ups).await;
    let bodies = [
        r#"{"model":"m1","messages":[],"model":"m2"}"#,
        r#"{"model":"m2","messages":[],"model":"m1"}"#,
        r#"{"model":7,"model":"m2","messages":[]}"#,
        r#"{"model":"m1","messages":[],"\u006dodel":"m2"}"#,
        r#"{"mode\u006c":"m2","model":"m1"}"#,
        r#"{"model":"m1","model":"m1"}"#,
    ];
    for body in bodies {
        for path in [CHAT, "/v1/completions", "/v1/embeddings", "/tokenize"] {
            let error = assert_own_error(&bench.ask(&post_as("ann", path, body.as_bytes())).await, 400);
            assert_eq!(
                (&error["code"], &error["param"]),
                (&json!("doubled_member"), &json!("model")),
                "{body}"
            );
        }
    }
    assert_eq!(requests_at(&[&ups[0], &ups[1], &ups[2]]), 0);
    bench.assert_idle(bodies.len() * 4).await;
}

/// A model that a key may not use and one that there is not are the same to it, and it is told of neither.
#[tokio::test]
async fn a_key_sees_its_own_routes_and_no_trace_of_others() {
    let ups = replicas();
    let bench = three_routes(&ups).await;
    let answers = ["m2", "m9"].map(|model| post_as("ann", CHAT, &chat(model, "")));
    let mut texts = Vec::new();
    for (request, model) in answers.iter().zip(["m2", "m9"]) {
        let answer = bench.ask(request).await;
        let error = assert_own_error(&answer, 404);
        assert_eq!(error["param"], json!("model"));
        texts.push(answer.text().replace(model, "MODEL"));
    }
    assert_eq!(texts[0], texts[1]);
    assert!(!texts[0].contains("m2") && !texts[0].contains("m3"), "{}", texts[0]);
    let list = bench.ask(&get_as("ann", "/v1/models")).await.json();
    let ids: Vec<_> = list["data"].as_array().expect("a list").iter().map(|m| m["id"].clone()).collect();
    assert_eq!((list["object"].clone(), ids), (json!("list"), vec![json!("m1")]));
    assert_eq!(bench.ask(&get_as("ann", "/v1/models/m1")).await.json()["id"], json!("m1"));
    for model in ["m2", "m9"] {
        assert_own_error(&bench.ask(&get_as("ann", &format!("/v1/models/{model}"))).await, 404);
    }
    for path in ["/v1/models", "/v1/models/m1", "/v1/models/m2"] {
        assert_own_error(&bench.ask(&get(path)).await, 401);
    }
    bench.assert_idle(9).await;
}

#[track_caller]
fn assert_clean(head: &Head, secret: &str, own: Option<&str>) {
    let text = String::from_utf8_lossy(&head.raw);
    assert!(!text.contains(secret), "the client's key in {text}");
    for name in ["x-api-key", "cookie", "forwarded", "x-forwarded-for"] {
        assert!(!head.has(name), "{name} in {text}");
    }
    assert_eq!(head.get("authorization"), own, "{text}");
}

#[tokio::test]
async fn a_60_the_clients_key_reaches_no_replica_and_no_log() {
    let secret = Config::secret("ann");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credential");
    std::fs::write(&file, "sk-of-the-replica\n").expect("a file");
    let credential = format!("file:{}", file.display());
    for own in [None, Some("Bearer sk-of-the-replica")] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let both = [&ups[0], &ups[1]];
        let mut config = Config::new(&both).set("pools.health", "eject_after_5xx", 1_000_000).key("ann");
        if own.is_some() {
            config = config.set("pools", "credentials", &[credential.as_str()][..]);
        }
        let bench = Bench::live(&config, 2).await;
        // Every first attempt is refused, so that every request is sent twice.
        let attempts = std::sync::Arc::new(AtomicU64::new(0));
        for up in both {
            let attempts = attempts.clone();
            up.on_request(move |request| match attempts.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => vec![send(error_answer(503, "busy"))],
                _ => polite(request),
            });
        }
        let bearer = format!("Bearer {secret}");
        let forms: [&[(&str, &str)]; 4] = [
            &[("Authorization", &bearer)],
            &[("x-api-key", &secret)],
            &[("X-API-KEY", &secret), ("authorization", &bearer)],
            &[
                ("Authorization", &bearer),
                ("Cookie", "a=b"),
                ("X-Forwarded-For", "1.2.3.4"),
                ("Forwarded", "for=x"),
            ],
        ];
        for fields in forms {
            let answer = bench.ask(&post_with(CHAT, fields, &chat("m1", ""))).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
        }
        assert_eq!(bench.ask(&get_as("ann", "/v1/models")).await.status(), 200);
        let error = bench.ask(&post_as("ann", CHAT, b"{}")).await.text();
        assert!(!error.contains(&secret), "{error}");
        assert_eq!(requests_at(&both), 8);
        for up in both {
            up.received().iter().for_each(|r| assert_clean(&r.head, &secret, own));
            let probes = up.probes();
            assert!(probes.len() >= 2, "{probes:?}");
            probes.iter().for_each(|head| assert_clean(head, &secret, own));
        }
        for line in bench.assert_idle(6).await {
            assert!(!line.to_string().contains(&secret), "{line}");
            assert_line(&line, &[("key", json!("ann"))]);
        }
        assert_nobody_blamed(&bench, &both);
    }
}

/// Lines of a head that authenticate, or do not.
fn presentations(secret: &str) -> Vec<(String, u16)> {
    let wrong_case = secret.to_uppercase();
    let good = [
        format!("Authorization: Bearer {secret}"),
        format!("authorization: bearer {secret}"),
        format!("AUTHORIZATION: BEARER {secret}"),
        format!("Authorization: bEaReR  {secret}"),
        format!("Authorization: Bearer {secret} \t"),
        format!("Authorization:Bearer {secret}"),
        format!("x-api-key: {secret}"),
        format!("X-API-Key:  {secret} "),
        format!("Authorization: Basic dXNlcjpwYXNz\r\nx-api-key: {secret}"),
    ];
    let bad = [
        format!("Authorization: Bearer {wrong_case}"),
        format!("Authorization: Bearer {}", &secret[..secret.len() - 1]),
        format!("Authorization: Bearer {secret}x"),
        format!("Authorization: Bearer \"{secret}\""),
        format!("Authorization: Bearer{secret}"),
        format!("Authorization: {secret}"),
        format!("Authorization: Basic {secret}"),
        format!("Authorization: Token {secret}"),
        "Authorization: Bearer".into(),
        "Authorization: Bearer ".into(),
        "Authorization:".into(),
        "x-api-key:".into(),
        format!("x-api-key: Bearer {secret}"),
        format!("X-Key: {secret}"),
        format!("Cookie: authorization={secret}"),
        "X-Nothing: 1".into(),
    ];
    good.into_iter().map(|g| (g, 200)).chain(bad.into_iter().map(|b| (b, 401))).collect()
}

#[tokio::test]
async fn a_61_the_scheme_is_read_in_any_case_and_the_key_exactly() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann").key("bob"), 1).await;
    let (body, rows) = (chat("m1", ""), presentations(&Config::secret("ann")));
    for (n, (fields, status)) in rows.iter().enumerate() {
        let head =
            format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\n{fields}\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = bench.ask(&[head.as_bytes(), &body].concat()).await;
        assert_eq!(answer.status(), *status, "{fields:?}: {}", answer.text());
        if *status == 401 {
            assert_own_error(&answer, 401);
            assert_eq!(answer.head.get("www-authenticate"), Some("Bearer"), "{fields:?}");
        }
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        let (key, outcome) =
            if *status == 200 { (json!("ann"), "ok") } else { (json!(null), "rejected_auth") };
        assert_eq!((&line["key"], &line["outcome"]), (&key, &json!(outcome)), "{fields:?}: {line}");
    }
    assert_eq!(up.counts().requests.get(), 9);
}

#[tokio::test]
async fn a_61_a_missing_and_a_wrong_key_are_told_apart_in_the_clients_dialect() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    let body = chat("m1", r#","max_tokens":4"#);
    for (fields, code) in [(&[][..], "missing_api_key"), (&[("x-api-key", "sk-x")][..], "invalid_api_key")] {
        let error = assert_own_error(&bench.ask(&post_with(CHAT, fields, &body)).await, 401);
        assert_eq!((&error["code"], &error["type"]), (&json!(code), &json!("authentication_error")));
        let answer = bench.ask(&post_with("/v1/messages", fields, &body)).await;
        let error = answer.json();
        assert_eq!((answer.status(), &error["type"]), (401, &json!("error")), "{error}");
        assert_eq!(error["error"]["type"], json!("authentication_error"), "{error}");
    }
    assert_eq!(requests_at(&[&up]), 0);
    assert_eq!(
        bench.ask(&post("/nowhere", b"")).await.status(),
        404,
        "a path that is not there needs no key"
    );
    bench.assert_idle(5).await;
}

/// Where there are no keys nothing depends on one: whatever is sent as such is not read, and goes no further.
#[tokio::test]
async fn an_open_gateway_reads_no_key_and_passes_none_on() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]), 1).await;
    let two = [("Authorization", "Bearer one"), ("Authorization", "Bearer other"), ("x-api-key", "third")];
    assert_eq!(bench.ask(&post_with(CHAT, &two, &chat("m1", ""))).await.status(), 200);
    let received = up.only_request();
    for name in ["authorization", "x-api-key"] {
        assert_eq!(received.head.get(name), None, "{name}");
    }
    assert_eq!(bench.assert_idle(1).await[0]["key"], json!(null));
}

/// What one project's prompts have made warm is found by its keys, and shows itself to nobody else.
#[tokio::test]
async fn keys_of_one_project_share_warm_prefixes_and_others_never_meet() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let mut config = Config::new(&[&ups[0], &ups[1], &ups[2]]).set("routes", "mode", "adaptive");
    for (key, project) in [("ann", "lab"), ("bob", "lab"), ("cid", "shop"), ("dan", ""), ("eve", "")] {
        config = config.key(key);
        if !project.is_empty() {
            config = config.key_set("project", project);
        }
    }
    let bench = Bench::live(&config, 3).await;
    let system = "You are a careful agent. ".repeat(200);
    let body = |user: &str| {
        let turns =
            format!(r#"{{"role":"system","content":"{system}"}},{{"role":"user","content":"{user}"}}"#);
        format!(r#"{{"model":"m1","messages":[{turns}]}}"#).into_bytes()
    };
    // Each talk is another one: only their system prompt is the same.
    let rows = [("ann", false), ("ann", true), ("bob", true), ("cid", false), ("dan", false), ("eve", false)];
    for (n, (key, warm)) in rows.into_iter().enumerate() {
        assert_eq!(bench.ask(&post_as(key, CHAT, &body(&format!("talk {n}")))).await.status(), 200);
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        let affinity = if warm { json!("prefix") } else { json!(null) };
        assert_line(&line, &[("key", json!(key)), ("affinity", affinity), ("spilled", json!(false))]);
    }
}

/// A prompt has to fit wherever it goes.
#[tokio::test]
async fn the_list_of_models_tells_the_shortest_context_of_their_replicas() {
    for (contexts, expected) in [
        ([r#","max_model_len":8192"#, r#","max_model_len":4096"#], json!(4096)),
        ([r#","meta":{"n_ctx":2048}"#, ""], json!(2048)),
        (["", r#","max_model_len":"long""#], json!(null)),
    ] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        for (up, context) in ups.iter().zip(contexts) {
            let body = format!(r#"{{"object":"list","data":[{{"id":"m1"{context}}},{{"id":"m2"}}]}}"#);
            let told = move |head: &Head| {
                (head.target() == "/v1/models").then(|| vec![send(json_answer(200, &body))])
            };
            up.on_probe(told);
        }
        let config = Config::new(&[&ups[0], &ups[1]]).route_to("public", "pool", "m1").key("ann");
        let bench = Bench::live(&config, 2).await;
        for id in ["m1", "public"] {
            let model = bench.ask(&get_as("ann", &format!("/v1/models/{id}"))).await.json();
            assert_eq!((&model["id"], &model["max_model_len"]), (&json!(id), &expected), "{model}");
        }
        bench.assert_idle(2).await;
    }
}
