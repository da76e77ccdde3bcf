//! Hosted targets: a path prefix, own header fields, credentials that take turns and rest.

use std::path::Path;

use serde_json::json;
use sluicegate_testkit::answers::{error_answer, polite};
use sluicegate_testkit::requests::{CHAT, chat, post, post_as};
use sluicegate_testkit::{Bench, Config, Received, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed};

/// A pool of a provider's API under `/base`, with these credentials.
fn provider(up: &Upstream, folder: &Path, credentials: &[&str]) -> Config {
    with_credentials(Config::new(&[up]).prefix("/base").set("pools", "engine", "openai"), folder, credentials)
}

/// Whose pools have these credentials.
pub(crate) fn with_credentials(config: Config, folder: &Path, credentials: &[&str]) -> Config {
    let files: Vec<String> = credentials
        .iter()
        .map(|credential| {
            let file = folder.join(credential);
            std::fs::write(&file, credential).expect("a file");
            format!("file:{}", file.display())
        })
        .collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    config.set("pools", "credentials", &files[..])
}

pub(crate) fn bearer(request: &Received) -> String {
    request
        .head
        .get("authorization")
        .and_then(|v| v.strip_prefix("Bearer "))
        .expect("a credential")
        .to_owned()
}

/// What each request so far was sent with.
pub(crate) fn used(up: &Upstream) -> Vec<String> {
    up.received().iter().map(|r| bearer(r)).collect()
}

#[tokio::test]
async fn a_provider_is_asked_under_its_prefix_with_its_own_fields_and_never_scraped() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let config = provider(&up, folder.path(), &["c1"]).route_to("public", "pool", "provider/m1").key("ann");
    let text =
        config.text().replace("[pools.health]", "[pools.headers]\n\"X-Org\" = \"org-7\"\n[pools.health]");
    let bench = Bench::start(&text);
    bench.wait_live(1).await;
    for (path, body) in [(CHAT, chat("public", "")), ("/v1/embeddings", chat("public", r#","input":"a""#))] {
        assert_eq!(bench.ask(&post_as("ann", path, &body)).await.status(), 200);
        let received = up.received().pop().expect("a request");
        assert_eq!(received.head.target(), format!("/base{path}"));
        assert_eq!(received.head.get("x-org"), Some("org-7"));
        assert_eq!(received.head.get("host"), Some(up.address().to_string().as_str()));
        assert_eq!((bearer(&received).as_str(), &received.json()["model"]), ("c1", &json!("provider/m1")));
    }
    let counts = up.counts();
    let probes = [counts.health_probes.get(), counts.metrics_probes.get(), counts.models_probes.get()];
    assert_eq!((probes, counts.heads.get()), ([0; 3], 2));
    for line in bench.assert_idle(2).await {
        assert_line(&line, &[("route", json!("public")), ("upstream_model", json!("provider/m1"))]);
    }
}

#[tokio::test]
async fn credentials_take_turns_and_a_refused_one_rests() {
    for status in [401, 403, 429] {
        let up = Upstream::start("m1");
        let folder = tempfile::tempdir().expect("a folder");
        let bench = Bench::live(&provider(&up, folder.path(), &["c1", "c2", "c3"]), 1).await;
        for _ in 0..6 {
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
        }
        assert_eq!(used(&up), ["c1", "c2", "c3", "c1", "c2", "c3"]);
        up.forget_received();
        up.on_request(move |request| match bearer(request).as_str() {
            "c2" => vec![send(error_answer(status, "not you"))],
            _ => polite(request),
        });
        for members in ["", r#","stream":true"#, "", r#","stream":true"#, "", ""] {
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", members))).await.status(), 200, "{status}");
        }
        let used = used(&up);
        assert_eq!(used.iter().filter(|c| *c == "c2").count(), 1, "{status}: {used:?}");
        assert_eq!((used.len(), bench.replica(&up).inflight), (7, 0));
        // Another credential is no other attempt, and the replica is not to blame.
        for line in bench.assert_idle(12).await {
            assert_line(&line, &[("attempts", json!(1)), ("outcome", json!("ok"))]);
        }
        assert_nobody_blamed(&bench, &[&up]);
    }
}

/// Other refusals say nothing about the credential.
#[tokio::test]
async fn other_errors_leave_the_credential_in_its_turn() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::live(&provider(&up, folder.path(), &["c1", "c2"]), 1).await;
    for status in [400, 404, 422, 413] {
        up.answer_with(vec![send(error_answer(status, "no"))]);
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), status);
    }
    assert_eq!(used(&up), ["c1", "c2", "c1", "c2"]);
    bench.assert_idle(4).await;
}
