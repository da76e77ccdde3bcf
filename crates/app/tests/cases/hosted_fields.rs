//! What of a head stays on its side of a provider: the client's keys and accounts, and what the provider says of ours.

use serde_json::json;
use sluicegate_testkit::answers::{Stream, answer, chat_json, chunk};
use sluicegate_testkit::requests::{CHAT, chat, post, post_with};
use sluicegate_testkit::{Bench, Config, Head, Received, Step, Upstream, send};

use crate::checks::assert_own_error;

/// Fields of a provider's answer that tell of the gateway's own account, or bind the client to the provider's servers.
const ABOUT_US: [(&str, &str); 8] = [
    ("X-RateLimit-Remaining-Requests", "9998"),
    ("anthropic-ratelimit-tokens-remaining", "9997"),
    ("OpenAI-Organization", "org-of-ours"),
    ("openai-project", "proj-of-ours"),
    ("Set-Cookie", "__cf_bm=ours; HttpOnly"),
    ("Server", "cloudflare"),
    ("Via", "1.1 google"),
    ("CF-Ray", "9a1"),
];

#[track_caller]
fn assert_withheld(head: &Head, withheld: bool) {
    for (name, _) in ABOUT_US {
        assert_eq!(head.has(&name.to_ascii_lowercase()), !withheld, "{name} in {head:?}");
    }
    assert_eq!(head.get("openai-version"), Some("2020-10-01"));
    assert_eq!(head.get("retry-after"), Some("7"));
}

/// The answer of `request` with those fields: whole, as a stream, or an error that is stored before it is relayed.
fn told(request: &Received) -> Vec<Step> {
    let mut fields = ABOUT_US.to_vec();
    fields.extend([("openai-version", "2020-10-01"), ("retry-after", "7")]);
    let json = [&fields[..], &[("content-type", "application/json")]].concat();
    let text = request.text();
    if text.contains("stream") {
        let mut head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n".to_owned();
        for (name, value) in [&fields[..], &[("content-type", "text/event-stream")]].concat() {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = [chunk(&Stream::chat(&["a"]).bytes()), b"0\r\n\r\n".to_vec()].concat();
        return vec![send([format!("{head}\r\n").into_bytes(), body].concat())];
    }
    let (status, body) = match text.split_once("answer ") {
        Some((_, rest)) => (rest[..3].parse().expect("a status"), r#"{"error":{"message":"no"}}"#.to_owned()),
        None => (200, chat_json("a", 1, 1)),
    };
    vec![send(answer(status, &json, body.as_bytes()))]
}

#[tokio::test]
async fn what_a_provider_says_of_the_gateways_account_stays_here() {
    for (engine, withheld) in [("openai", true), ("vllm", false)] {
        let up = Upstream::start("m1");
        let config = Config::new(&[&up])
            .set("pools", "engine", engine)
            .set("pools.health", "eject_after_5xx", 1_000_000)
            .set("routes.retry", "poison_entries", 0);
        let bench = Bench::live(&config, 1).await;
        up.on_request(told);
        let mut asked = 0;
        for (members, status) in [
            ("", 200),
            (r#","stream":true"#, 200),
            (r#","user":"answer 400""#, 400),
            (r#","user":"answer 429""#, 429),
            (r#","user":"answer 503""#, 503),
        ] {
            let answer = bench.ask(&post(CHAT, &chat("m1", members))).await;
            assert_eq!(answer.status(), status, "{members}");
            assert_withheld(&answer.head, withheld);
            asked += 1;
        }
        bench.assert_idle(asked).await;
    }
}

#[tokio::test]
async fn a_clients_other_keys_and_accounts_reach_no_replica() {
    for engine in ["openai", "vllm"] {
        let up = Upstream::start("m1");
        let bench = Bench::live(&Config::new(&[&up]).set("pools", "engine", engine), 1).await;
        let fields = [
            ("api-key", "sk-theirs"),
            ("X-Goog-Api-Key", "sk-theirs"),
            ("OpenAI-Organization", "org-theirs"),
            ("OpenAI-Project", "proj-theirs"),
            ("Anthropic-Organization-Id", "org-theirs"),
            ("X-Forwarded-Host", "theirs"),
            ("Forwarded", "for=theirs"),
            ("Cookie", "theirs"),
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "b"),
        ];
        assert_eq!(bench.ask(&post_with(CHAT, &fields, &chat("m1", ""))).await.status(), 200);
        let head = up.only_request().head.clone();
        assert!(!String::from_utf8_lossy(&head.raw).contains("theirs"), "{head:?}");
        assert_eq!(
            (head.get("anthropic-version"), head.get("anthropic-beta")),
            (Some("2023-06-01"), Some("b"))
        );
        bench.assert_idle(1).await;
    }
}

#[tokio::test]
async fn a_head_that_names_two_keys_is_refused_and_neither_is_taken() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann").key("bob"), 1).await;
    let [ann, bob] = ["ann", "bob"].map(Config::secret);
    let [ann_bearer, bob_bearer] = [&ann, &bob].map(|key| format!("Bearer {key}"));
    let mut asked = 0;
    let two: [&[(&str, &str)]; 5] = [
        &[("Authorization", &ann_bearer), ("Authorization", &bob_bearer)],
        &[("Authorization", &ann_bearer), ("x-api-key", &bob)],
        &[("x-api-key", &ann), ("Authorization", &bob_bearer)],
        &[("x-api-key", &ann), ("X-Api-Key", &bob)],
        &[("Authorization", "Basic YTpi"), ("Authorization", &ann_bearer)],
    ];
    for fields in two {
        let error = assert_own_error(&bench.ask(&post_with(CHAT, fields, &chat("m1", ""))).await, 400);
        assert_eq!(error["code"], json!("two_api_keys"), "{fields:?}");
        asked += 1;
    }
    assert_eq!(up.counts().heads.get(), 0);
    let one: [&[(&str, &str)]; 3] = [
        &[("Authorization", &ann_bearer), ("x-api-key", &ann)],
        &[("Authorization", &ann_bearer), ("authorization", &ann_bearer)],
        &[("Authorization", "Basic YTpi"), ("x-api-key", &ann)],
    ];
    for fields in one {
        assert_eq!(bench.ask(&post_with(CHAT, fields, &chat("m1", ""))).await.status(), 200, "{fields:?}");
        asked += 1;
    }
    for line in &bench.assert_idle(asked).await[..two.len()] {
        assert_eq!((&line["key"], &line["outcome"]), (&json!(null), &json!("rejected_auth")), "{line}");
    }
}
