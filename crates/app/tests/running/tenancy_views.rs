//! Keys, limits and the queue of a running gateway, as its metrics, state, explanations and usage lines show them.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sluicegate::config::{Config, Overrides};
use sluicegate::{App, MemorySink};
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, chat, post_with};
use sluicegate_testkit::{Answer, Gate, RawClient, Step, Upstream, send, until};

use crate::http::{get, post};
use crate::process::{Ended, Process};

const KEY: &str = "sk-the-key-itself";

/// One engine with one slot, two routes to it, and a key that may use one of them.
struct Bench {
    app: App,
    lines: Arc<MemorySink>,
    hash: String,
    engine: Upstream,
}

impl Bench {
    async fn start() -> Self {
        let engine = Upstream::start("m");
        let hash = Sha256::digest(KEY).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let text = format!(
            r#"
            listen = {{ address = "127.0.0.1:0", threads = 1 }}
            admin = {{ address = "127.0.0.1:0" }}
            usage = {{ output = "off" }}
            [[pools]]
            name = "p"
            replicas = ["{url}"]
            slots = 1
            health = {{ scrape_interval = "20ms", scrape_timeout = "20s" }}
            [[routes]]
            model = "m"
            targets = [{{ pool = "p" }}]
            price = {{ prompt = 1.0, cached = 1.0, completion = 2.0 }}
            queue = {{ max_length = 1 }}
            [[routes]]
            model = "other"
            targets = [{{ pool = "p" }}]
            [[keys]]
            name = "team-a"
            hash = "sha256:{hash}"
            project = "search"
            routes = ["m"]
            priority = 5
            max_concurrent = 2
            cost_per_day = 12.5
            "#,
            url = engine.url()
        );
        let loaded = Config::from_text("test.toml", &text, &Overrides::default(), &|_| None);
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
        let lines = Arc::new(MemorySink::default());
        let sink = Arc::<MemorySink>::clone(&lines);
        let app = tokio::task::spawn_blocking(move || App::start(loaded, vec![sink])).await.unwrap().unwrap();
        until(|| app.gateway().ready()).await;
        Self { app, lines, hash, engine }
    }

    async fn send(&self, key: &str) -> RawClient {
        let fields = [("Authorization", &*format!("Bearer {key}")), ("Connection", "close")];
        let mut client = RawClient::connect(self.app.address()).await;
        client.send(&post_with(CHAT, &fields, &chat("m", ""))).await;
        client
    }

    async fn ask(&self, key: &str) -> Answer {
        self.send(key).await.answer().await
    }

    async fn state(&self) -> Value {
        get(self.app.admin_address(), "/api/state").await.json()
    }

    async fn explain(&self, model: &str, key: &str) -> (u16, Value) {
        let body = format!(r#"{{"path":"{CHAT}","body":{{"model":"{model}","messages":[]}}{key}}}"#);
        let answer = post(self.app.admin_address(), "/api/explain", &body).await;
        (answer.status, answer.json())
    }

    async fn explain_in_words(&self, words: &[&str]) -> Ended {
        let admin = self.app.admin_address().to_string();
        Process::start(&[&["explain", "--admin", &admin], words].concat()).ended().await
    }

    async fn assert_metrics(&self, lines: &[&str]) {
        let page = get(self.app.admin_address(), "/metrics").await.body;
        for line in lines {
            assert!(page.lines().any(|shown| shown == *line), "{line} is not in:\n{page}");
        }
    }
}

#[tokio::test]
async fn a_waiting_request_is_seen_everywhere_and_everything_returns_to_zero() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.engine.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("hello", 11, 4))]);
    let mut first = bench.send(KEY).await;
    bench.engine.counts().requests.reached(1).await;
    let mut second = bench.send(KEY).await;
    until(|| bench.app.inspect().queues()[0].waiting == 1).await;
    assert_eq!(bench.ask(KEY).await.status(), 429, "its third at the same time");
    assert_eq!(bench.ask("sk-other").await.status(), 401);
    bench.lines.wait_for(2).await;

    bench
        .assert_metrics(&[
            r#"sluicegate_queue_waiting{pool="p",route="m"} 1.0"#,
            r#"sluicegate_queue_waiting{pool="p",route="other"} 0.0"#,
            r#"sluicegate_key_concurrent{key="team-a"} 2.0"#,
            r#"sluicegate_key_limit{key="team-a",limit="max_concurrent"} 2.0"#,
            r#"sluicegate_key_limit{key="team-a",limit="cost_per_day"} 12.5"#,
            r#"sluicegate_rejections_total{key="team-a",reason="key_limit"} 1"#,
            r#"sluicegate_rejections_total{key="-",reason="invalid_api_key"} 1"#,
        ])
        .await;
    let state = bench.state().await;
    let (route, key) = (&state["queues"][0]["routes"][0], &state["keys"][0]);
    assert_eq!((&route["route"], &route["classes"][0]["priority"]), (&json!("m"), &json!(5)));
    assert_eq!(state["queues"][0]["keys"][0]["key"], "team-a");
    assert_eq!((&key["project"], &key["usage"]["concurrent"]), (&json!("search"), &json!(2)));
    let text = state.to_string();
    assert!(!text.contains(&bench.hash) && !text.contains(KEY), "{text}");

    gate.open();
    assert_eq!((first.answer().await.status(), second.answer().await.status()), (200, 200));
    until(|| bench.app.inspect().gauges().open_requests == 0).await;
    bench
        .assert_metrics(&[
            r#"sluicegate_queue_waiting{pool="p",route="m"} 0.0"#,
            r#"sluicegate_queue_oldest_seconds{pool="p"} 0.0"#,
            r#"sluicegate_queue_grants_total{pool="p"} 1"#,
            r#"sluicegate_queue_wait_seconds_count{route="m"} 1"#,
            r#"sluicegate_key_concurrent{key="team-a"} 0.0"#,
            r#"sluicegate_key_tokens_day{key="team-a"} 30.0"#,
            r#"sluicegate_key_cost_day{key="team-a"} 0.000038"#,
            r#"sluicegate_cost_total{route="m",key="team-a"} 0.000038"#,
            r#"sluicegate_requests_total{route="m",pool="p",key="team-a",outcome="ok",status="200"} 2"#,
        ])
        .await;
}

#[tokio::test]
async fn usage_lines_name_the_key_its_project_the_wait_and_the_exact_price() {
    let bench = Bench::start().await;
    bench.engine.answer_with(vec![send(chat_answer("hello", 11, 4))]);
    assert_eq!(bench.ask(KEY).await.status(), 200);
    bench.lines.wait_for(1).await;
    assert_eq!(bench.ask("sk-other").await.status(), 401);
    let lines = bench.lines.wait_for(2).await;
    for text in [r#""key":"team-a","project":"search","#, r#""queue_ms":null,"#, r#""cost":0.000019,"#] {
        assert!(lines[0].contains(text), "{text} in {}", lines[0]);
    }
    for text in [r#""key":null,"project":null,"#, r#""outcome":"rejected_auth","#, r#""cost":null,"#] {
        assert!(lines[1].contains(text), "{text} in {}", lines[1]);
    }
}

#[tokio::test]
async fn an_explanation_for_a_key_knows_only_its_routes() {
    let bench = Bench::start().await;
    for (model, key, status, code) in [
        ("m", r#","key":"team-a""#, 200, json!(null)),
        ("other", r#","key":"team-a""#, 404, json!("model_not_found")),
        ("other", "", 200, json!(null)),
        ("m", r#","key":"nobody""#, 404, json!("unknown_key")),
    ] {
        let (answered, explained) = bench.explain(model, key).await;
        assert_eq!((answered, &explained["error"]["code"]), (status, &code), "{model} {key}: {explained}");
    }
    assert!(bench.lines.lines().is_empty(), "an explanation is no request");
}

#[tokio::test]
async fn an_explanation_for_a_key_says_whether_the_request_would_wait_and_behind_how_many() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.engine.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("hello", 11, 4))]);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let body = write("body.json", r#"{"model":"m",  "messages":[]}"#);
    let whole = write("whole.json", r#"{"path":"/v1/completions","body":{"model":"m"}}"#);
    let keyed = write("keyed.json", r#"{"path":"/v1/completions","body":{"model":"m"},"key":"team-a"}"#);
    let by_model = ["--model", "m", "--key", "team-a"];
    let by_body = ["--file", &body, "--key", "team-a"];
    let by_whole = ["--file", &whole, "--key", "team-a"];

    let free = bench.explain_in_words(&by_model).await;
    assert!(free.stdout.contains("(predicted)\n"), "{}{}", free.stdout, free.stderr);
    let mut first = bench.send(KEY).await;
    bench.engine.counts().requests.reached(1).await;
    for words in [&by_model[..], &by_body, &by_whole, &["--file", &keyed]] {
        let told = bench.explain_in_words(words).await.stdout;
        for text in ["key      team-a\n", "result   waits for a slot, first in line\n", "no free slot\n"] {
            assert!(told.contains(text), "{words:?}: {text:?} in {told}");
        }
    }
    let mut second = bench.send(KEY).await;
    until(|| bench.app.inspect().queues()[0].waiting == 1).await;
    for (words, result) in [
        (&by_model[..], "refused (queue_full), to be tried again after 60 s"),
        (&["--model", "other"], "waits for a slot, behind 1"),
    ] {
        let told = bench.explain_in_words(words).await.stdout;
        assert!(told.contains(&format!("result   {result}\n")), "{words:?}: {result:?} in {told}");
    }
    for (words, hint) in [
        (&["--model", "m", "--key", "tema-a"][..], "did you mean `team-a`?"),
        (&["--model", "m", "--key", KEY], "there are: team-a; --key takes the `name`"),
        (&["--file", &keyed, "--key", "team-a"], "it names a key of its own"),
        (&["--model", "other", "--key", "team-a"], "the gateway would answer 404"),
    ] {
        let told = bench.explain_in_words(words).await;
        assert_ne!(told.status.code(), Some(0));
        assert!(told.stderr.contains(hint), "{words:?}: {hint:?} in {}", told.stderr);
    }
    gate.open();
    assert_eq!((first.answer().await.status(), second.answer().await.status()), (200, 200));
}
