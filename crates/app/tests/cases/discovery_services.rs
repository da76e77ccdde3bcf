//! Replicas that an HTTP API tells of, against scripted ones.

use sluicegate_testkit::answers::{answer, chunk, json_answer};
use sluicegate_testkit::discovery::{config, has, source};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Feed, Step, Upstream, send, until};

const WATCH: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn instance(id: u64, up: &Upstream, state: &str) -> String {
    let port = up.address().port();
    format!(
        r#"{{"id": {id}, "name": "m-{id}", "model_id": 2, "state": "{state}", "worker_ip": "127.0.0.1",
            "worker_advertise_address": "", "port": {port}, "draining_since": null, "role": null}}"#
    )
}

fn page(items: &[String]) -> Vec<u8> {
    let items = items.join(",");
    json_answer(200, &format!(r#"{{"items": [{items}], "pagination": {{"page": 1, "totalPage": 1}}}}"#))
}

fn token(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("token");
    std::fs::write(&path, "s3cret\n").expect("a file can be written");
    format!("file:{}", path.display())
}

#[tokio::test]
async fn gpustack_is_listed_and_watched_and_comes_back_after_a_break() {
    let [a, b, api] = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("api")];
    let watches = [Feed::new(), Feed::new()];
    let lists = [page(&[instance(1, &a, "running")]), page(&[instance(2, &b, "running")])];
    let (fed, mut begun) = (watches.clone(), 0_usize);
    let state = std::sync::Mutex::new(move |target: &str| {
        if target.contains("watch=true") {
            begun += 1;
            return vec![send(WATCH), Step::Feed(fed[(begun - 1).min(1)].clone()), Step::Close];
        }
        vec![send(lists[begun.saturating_sub(1).min(1)].clone())]
    });
    api.on_request(move |request| (state.lock().expect("not poisoned"))(request.head.target()));
    let folder = tempfile::TempDir::new().expect("a folder");
    let bench = Bench::start(&config(&format!(
        "{{ source = \"gpustack\", url = \"{}\", token = \"{}\", model_id = 2 }}",
        api.url(),
        token(&folder)
    )));
    has(&bench, &[&a.url()]).await;
    bench.wait_live(1).await;
    let asked = api.received();
    assert!(asked.iter().all(|r| r.head.get("authorization") == Some("Bearer s3cret")), "{asked:?}");
    let targets: Vec<&str> = asked.iter().map(|r| r.head.target()).collect();
    let list = "/v2/model-instances?model_id=2&state=running";
    assert_eq!(targets, ["/v2/model-instances?model_id=2&watch=true", list], "the watch first");
    // A heartbeat, and an event in two pieces that end anywhere.
    let event = format!("\n\n{{\"type\": 1, \"data\": {}}}\n\n", instance(2, &b, "running"));
    let (first, second) = event.as_bytes().split_at(70);
    watches[0].push(chunk(b"\n\n"));
    watches[0].push(chunk(first));
    watches[0].push(chunk(second));
    has(&bench, &[&a.url(), &b.url()]).await;
    let stopped = format!("{{\"type\": 2, \"data\": {}}}\n\n", instance(1, &a, "error"));
    watches[0].push(chunk(stopped.as_bytes()));
    has(&bench, &[&b.url()]).await;
    // Deleted, the last one: a source that is suddenly empty.
    watches[0].push(chunk(b"{\"type\": 3, \"data\": {\"id\": 2}}\n\n"));
    source(&bench, true).await;
    has(&bench, &[&b.url()]).await;
    // The watch breaks off, and begins anew with a list.
    watches[0].end();
    until(|| api.received().len() >= 4).await;
    source(&bench, false).await;
    has(&bench, &[&b.url()]).await;
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn consul_is_asked_with_the_index_of_its_last_answer_and_from_the_beginning_when_that_goes_back() {
    let [a, b, api] = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("api")];
    let passing = |index: &str, ups: &[&Upstream]| {
        let entry = |up: &&Upstream| {
            let port = up.address().port();
            format!(r#"{{"Node": {{"Address": "127.0.0.1"}}, "Service": {{"Address": "", "Port": {port}}}}}"#)
        };
        let entries: Vec<String> = ups.iter().map(entry).collect();
        let fields = [("X-Consul-Index", index), ("content-type", "application/json")];
        answer(200, &fields, format!("[{}]", entries.join(",")).as_bytes())
    };
    let feeds = [Feed::new(), Feed::new(), Feed::new()];
    let fed = feeds.clone();
    let first = passing("7", &[&a]);
    api.on_request(move |request| match request.index {
        0 => vec![send(first.clone())],
        n => vec![Step::Feed(fed[usize::try_from(n).map_or(2, |n| (n - 1).min(2))].clone()), Step::Hang],
    });
    let folder = tempfile::TempDir::new().expect("a folder");
    let bench = Bench::start(&config(&format!(
        "{{ source = \"consul\", url = \"{}\", token = \"{}\", service = \"vllm\" }}",
        api.url(),
        token(&folder)
    )));
    has(&bench, &[&a.url()]).await;
    api.counts().requests.reached(2).await;
    feeds[0].push(passing("9", &[&a, &b]));
    has(&bench, &[&a.url(), &b.url()]).await;
    api.counts().requests.reached(3).await;
    feeds[1].push(passing("3", &[&b]));
    has(&bench, &[&b.url()]).await;
    api.counts().requests.reached(4).await;
    let asked = api.received();
    let path = "/v1/health/service/vllm?passing=true";
    let later = |index: u64| format!("{path}&index={index}&wait=300s");
    let targets: Vec<&str> = asked.iter().map(|r| r.head.target()).collect();
    assert_eq!(targets, [path, &later(7), &later(9), path]);
    assert!(asked.iter().all(|r| r.head.get("x-consul-token") == Some("s3cret")), "{asked:?}");
}

#[tokio::test]
async fn nomad_is_asked_for_its_own_services_and_a_refusal_keeps_the_last_known() {
    let [a, api] = [Upstream::start("m1"), Upstream::start("api")];
    let body = format!(r#"[{{"Address": "127.0.0.1", "Port": {}}}]"#, a.address().port());
    let fields = [("X-Nomad-Index", "5"), ("content-type", "application/json")];
    let first = answer(200, &fields, body.as_bytes());
    api.on_request(move |request| match request.index {
        0 => vec![send(first.clone())],
        _ => vec![send(json_answer(403, "{}"))],
    });
    let bench = Bench::start(&config(&format!(
        "{{ source = \"nomad\", url = \"{}\", service = \"vllm\" }}",
        api.url()
    )));
    has(&bench, &[&a.url()]).await;
    let said = source(&bench, true).await;
    assert!(said["failing"].as_str().is_some_and(|why| why.contains("is the token right?")), "{said}");
    bench.wait_live(1).await;
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    has(&bench, &[&a.url()]).await;
    assert_eq!(api.received()[0].head.target(), "/v1/service/vllm");
}
