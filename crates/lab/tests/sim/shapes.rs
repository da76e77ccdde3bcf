//! What the simulated engine answers, compared with what vLLM 0.32 answered.

use crate::client::{Answer, get, post, send};
use http::Method;
use serde_json::{Value, json};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::sim::{Sim, SimConfig};
use std::net::SocketAddr;

fn start() -> (Sim, SocketAddr) {
    let config = SimConfig {
        model: "tiny".to_owned(),
        profile: Profile::fast(),
        max_model_len: 2048,
        ..SimConfig::default()
    };
    let sim = Sim::start(config).unwrap();
    let addr = sim.addrs()[0];
    (sim, addr)
}

fn chat(content: &str, more: Value) -> Value {
    let mut body =
        json!({"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 8});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

#[tokio::test]
async fn the_small_endpoints_answer_like_the_engine() {
    let (_sim, addr) = start();
    let json_type = Some("application/json");
    let table = [
        ("/health", 200, None, ""),
        ("/ping", 200, None, ""),
        ("/version", 200, json_type, r#"{"version":"0.32.0"}"#),
        ("/load", 200, json_type, r#"{"server_load":0}"#),
        ("/nope", 404, json_type, r#"{"detail":"Not Found"}"#),
        ("/v1/embeddings", 405, json_type, r#"{"detail":"Method Not Allowed"}"#),
        (CHAT, 405, json_type, r#"{"detail":"Method Not Allowed"}"#),
    ];
    for (path, status, content_type, body) in table {
        let answer = get(addr, path).await;
        assert_eq!((answer.status, answer.header("content-type")), (status, content_type), "{path}");
        assert_eq!(answer.body, body, "{path}");
        assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()), "{path}");
        assert_eq!((answer.header("server"), answer.header("vary")), (Some("uvicorn"), Some("Origin")));
        assert!(answer.header("date").is_some());
        assert_eq!(answer.header("allow"), (status == 405).then_some("POST"), "{path}");
    }
}

#[tokio::test]
async fn the_model_list_has_the_engines_members_and_the_context_length() {
    let (_sim, addr) = start();
    let list = get(addr, "/v1/models").await;
    let created = list.json()["data"][0]["created"].as_u64().unwrap();
    let golden = r#"{"object":"list","data":[{"id":"tiny","object":"model","created":C,"owned_by":"vllm","root":"tiny","parent":null,"max_model_len":2048,"permission":[{"id":"modelperm-P","object":"model_permission","created":C,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}]}"#;
    let golden = golden.replace('C', &created.to_string()).replace("-P", &format!("-{created:016x}"));
    assert_eq!(list.body, golden);
}

#[tokio::test]
async fn refusals_have_the_engines_words() {
    let (_sim, addr) = start();
    let too_long = "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input \
                    tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input \
                    prompt. (parameter=input_tokens, value=2049)";
    let too_many = "max_tokens=99999 cannot be greater than max_model_len=2048. Please request fewer output tokens. \
                    (parameter=max_tokens, value=99999)";
    let no_messages = "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': \
                       '<dict of 1 items>'}";
    let long = "word ".repeat(2000);
    let table = [
        (
            chat("x", json!({"model": "nope"})),
            404,
            "The model `nope` does not exist. Valid aliases: tiny.",
            "NotFoundError",
            "model",
        ),
        (chat(&long, json!({})), 400, too_long, "BadRequestError", "input_tokens"),
        (chat(&long, json!({"stream": true})), 400, too_long, "BadRequestError", "input_tokens"),
        (chat("x", json!({"max_tokens": 99999})), 400, too_many, "BadRequestError", "max_tokens"),
        (
            chat("x", json!({"max_tokens": 0})),
            400,
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
            "BadRequestError",
            "max_tokens",
        ),
        (
            chat("x", json!({"temperature": -1})),
            400,
            "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
            "BadRequestError",
            "temperature",
        ),
        (
            chat("x", json!({"n": 2})),
            400,
            "this simulated engine gives one answer, n must be 1. (parameter=n, value=2)",
            "BadRequestError",
            "n",
        ),
        (
            chat("x", json!({"stream_options": {"include_usage": true}})),
            400,
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "BadRequestError",
            "stream_options",
        ),
        (json!({"model": "tiny"}), 400, no_messages, "Bad Request", "body.messages"),
    ];
    for (body, status, message, kind, param) in table {
        let answer = post(addr, CHAT, &body).await;
        assert_eq!(answer.status, status, "{message}");
        assert_eq!(
            answer.json(),
            json!({"error": {"message": message, "type": kind, "param": param, "code": status}})
        );
    }
}

#[tokio::test]
async fn a_prompt_and_an_answer_that_do_not_fit_together_are_refused() {
    let (_sim, addr) = start();
    let answer = post(addr, CHAT, &chat(&"abcd".repeat(1500), json!({"max_tokens": 1000}))).await;
    assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some("input_tokens")));
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_with_the_place() {
    let (_sim, addr) = start();
    let send_raw = |content_type: &'static str, body: &'static str| async move {
        send(addr, Method::POST, CHAT, &[("content-type", content_type)], body).await
    };
    let malformed = send_raw("application/json", r#"{"model":}"#).await;
    assert_eq!(malformed.status, 400);
    assert_eq!(malformed.json()["error"]["param"], "body.9");
    let wrong_type = send_raw("text/plain", "{}").await;
    assert_eq!((wrong_type.status, wrong_type.json()["error"]["param"].clone()), (400, Value::Null));
    let not_an_object = send_raw("application/json", "[1]").await;
    assert_eq!(not_an_object.status, 400);
    let deep =
        send(addr, Method::POST, CHAT, &[("content-type", "application/json")], &"[".repeat(100_000)).await;
    assert_eq!(deep.status, 400);
}

#[tokio::test]
async fn the_request_id_names_the_answer_and_the_dialects_differ_in_prefix_and_object() {
    let (_sim, addr) = start();
    let headers = [("content-type", "application/json"), ("x-request-id", "req-abc-123")];
    let text = json!({"model": "tiny", "prompt": "Say this", "max_tokens": 3});
    for (path, body, id, object) in [
        (CHAT, chat("x", json!({})), "chatcmpl-req-abc-123", "chat.completion"),
        (TEXT, text, "cmpl-req-abc-123", "text_completion"),
    ] {
        let answer = send(addr, Method::POST, path, &headers, &body.to_string()).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let answer = answer.json();
        assert_eq!((answer["id"].as_str(), answer["object"].as_str()), (Some(id), Some(object)));
    }
    let nameless = post(addr, CHAT, &chat("x", json!({}))).await.json();
    let id = nameless["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
}

/// The answer's text, whether streamed or not, and of either dialect.
fn text_of(answer: &Answer, stream: bool) -> String {
    let part = |choice: &Value| {
        [&choice["message"]["content"], &choice["delta"]["content"], &choice["text"]]
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if stream {
        answer.json_events().iter().map(|event| part(&event["choices"][0])).collect()
    } else {
        part(&answer.json()["choices"][0])
    }
}

#[tokio::test]
async fn a_stream_and_a_whole_answer_say_the_same() {
    for (path, body) in [
        (CHAT, chat("Tell me about rivers, dams and gates", json!({"max_tokens": 40}))),
        (TEXT, json!({"model": "tiny", "prompt": "Once upon a time there was a gate", "max_tokens": 40})),
    ] {
        // Fresh replicas, so that neither finds the other's blocks.
        let (_one, one) = start();
        let (_two, two) = start();
        let whole = post(one, path, &body).await;
        let mut streamed = body.clone();
        streamed["stream"] = json!(true);
        streamed["stream_options"] = json!({"include_usage": true});
        let stream = post(two, path, &streamed).await;

        assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
        assert_eq!(text_of(&stream, true), text_of(&whole, false));
        let events = stream.json_events();
        let usage = &events.last().unwrap()["usage"];
        assert_eq!(events.last().unwrap()["choices"], json!([]));
        for name in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(usage[name], whole.json()["usage"][name], "{path} {name}");
        }
        let total = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
        assert_eq!(usage["total_tokens"].as_u64(), Some(total));
    }
}

#[tokio::test]
async fn usage_in_a_stream_follows_its_options() {
    let (_sim, addr) = start();
    let usages = |options: Value| async move {
        let answer = post(
            addr,
            CHAT,
            &chat("x", json!({"stream": true, "stream_options": options, "ignore_eos": true})),
        )
        .await;
        answer
            .json_events()
            .iter()
            .map(|event| event["usage"]["completion_tokens"].as_u64())
            .collect::<Vec<_>>()
    };
    // An opening event, eight tokens, and the usage event where asked for.
    assert_eq!(usages(Value::Null).await, [None; 9]);
    assert_eq!(usages(json!({"include_usage": false})).await, [None; 9]);
    let mut at_end = vec![None; 9];
    at_end.push(Some(8));
    assert_eq!(usages(json!({"include_usage": true})).await, at_end);
    let mut continuous: Vec<_> = (0..=8).map(Some).collect();
    assert_eq!(usages(json!({"continuous_usage_stats": true})).await, continuous);
    continuous.push(Some(8));
    assert_eq!(usages(json!({"include_usage": true, "continuous_usage_stats": true})).await, continuous);
}

#[tokio::test]
async fn an_answer_ends_at_its_limit_or_at_its_own_end() {
    let (_sim, addr) = start();
    let ending = |more: Value| async move {
        let answer = post(addr, CHAT, &chat("How long is an answer?", more)).await.json();
        let finish = answer["choices"][0]["finish_reason"].as_str().unwrap().to_owned();
        (finish, answer["usage"]["completion_tokens"].as_u64().unwrap())
    };
    assert_eq!(ending(json!({"max_tokens": 5})).await, ("length".to_owned(), 5));
    assert_eq!(ending(json!({"max_tokens": 5, "max_completion_tokens": 7})).await, ("length".to_owned(), 7));
    assert_eq!(ending(json!({"max_tokens": 900, "ignore_eos": true})).await, ("length".to_owned(), 900));
    let (finish, tokens) = ending(json!({"max_tokens": 900})).await;
    assert!(finish == "stop" && (16..=512).contains(&tokens), "{finish} {tokens}");
}

#[tokio::test]
async fn a_text_comes_back_from_its_tokens() {
    let (_sim, addr) = start();
    let prompt = "Grüße aus 東京, 12 tokens or so";
    let tokens = post(addr, "/tokenize", &json!({"model": "tiny", "prompt": prompt})).await.json();
    assert_eq!(tokens["count"].as_u64(), Some(prompt.len().div_ceil(4) as u64));
    assert_eq!((tokens["max_model_len"].as_u64(), &tokens["token_strs"]), (Some(2048), &Value::Null));
    let text = post(addr, "/detokenize", &json!({"model": "tiny", "tokens": tokens["tokens"]})).await.json();
    assert_eq!(text, json!({"prompt": prompt}));
    let messages = json!({"messages": [{"role": "user", "content": "hello"}]});
    let count = post(addr, "/tokenize", &messages).await.json()["count"].clone();
    let usage = post(addr, CHAT, &chat("hello", json!({}))).await.json()["usage"]["prompt_tokens"].clone();
    assert_eq!(count, usage, "the chat template counts alike in both");
}
