//! A source of replicas over TLS: through the built binary, because which certificates it trusts is a matter of its
//! process.

use std::process::{Command, Stdio};

use serde_json::Value;
use sluicegate_testkit::answers::answer;
use sluicegate_testkit::{Step, Upstream, patiently, send};

use crate::hosted_tls::Provider;
use crate::http::{CHAT, get, post};
use crate::process::{BINARY, Process};

#[tokio::test]
async fn a_source_is_asked_over_tls_and_one_that_is_not_who_it_should_be_is_told_nothing() {
    let replica = Upstream::start("m1");
    let port = replica.address().port();
    let body =
        format!(r#"[{{"Node": {{"Address": "127.0.0.1"}}, "Service": {{"Address": "", "Port": {port}}}}}]"#);
    let listed =
        answer(200, &[("X-Consul-Index", "3"), ("content-type", "application/json")], body.as_bytes());
    for (name, trusted) in [("localhost", true), ("elsewhere.internal", false)] {
        let api = Provider::start(name).await;
        let first = listed.clone();
        api.upstream.on_request(move |request| match request.index {
            0 => vec![send(first.clone())],
            _ => vec![Step::Hang],
        });
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let config = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n[[pools]]\nname = \"p\"\ndiscover \
             = {{ source = \"consul\", url = \"https://localhost:{}\", service = \"vllm\", token = \"env:CATALOGUE\" \
             }}\n[[routes]]\nmodel = \"m1\"\ntargets = [{{ pool = \"p\" }}]\n",
            api.address.port()
        );
        let mut command = Command::new(BINARY);
        command.env("SSL_CERT_FILE", file("trusted.pem", &api.pem)).env("CATALOGUE", "t0ps3cret");
        command.arg("serve").arg("--config").arg(file("gateway.toml", &config)).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        let (address, admin) = process.addresses();
        let state = || async { serde_json::from_str::<Value>(&get(admin, "/api/state").await.body).unwrap() };
        if trusted {
            let live = |state: &Value| state["pools"][0]["replicas"][0]["state"] == "live";
            patiently(async { while !live(&state().await) {} }).await;
            let body = r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#;
            assert_eq!(post(address, CHAT, body).await.status, 200);
            assert_eq!(api.upstream.received()[0].head.get("x-consul-token"), Some("t0ps3cret"));
        } else {
            let failing = |state: &Value| state["discovery"][0]["failing"].as_str().map(str::to_owned);
            let why = patiently(async {
                loop {
                    if let Some(why) = failing(&state().await) {
                        return why;
                    }
                }
            });
            let why = why.await;
            assert!(why.contains("TLS"), "{why}");
            assert_eq!(api.upstream.counts().requests.get(), 0, "nothing was sent to a stranger");
        }
        process.terminate();
        let ended = process.ended().await;
        assert!(ended.status.success() && !ended.stderr.contains("t0ps3cret"), "{}", ended.stderr);
    }
}
