//! Messages, responses and embeddings as vLLM 0.32 speaks them.

use crate::client::{Answer, get, post};
use serde_json::{Value, json};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::sim::{Sim, SimConfig};
use std::net::SocketAddr;

fn start() -> (Sim, SocketAddr) {
    let profile = Profile::fast();
    let config = SimConfig { model: "tiny".to_owned(), profile, max_model_len: 2048, ..SimConfig::default() };
    let sim = Sim::start(config).unwrap();
    let addr = sim.addrs()[0];
    (sim, addr)
}

/// The data of each event, which says the same type as the event's name.
fn named_events(answer: &Answer) -> Vec<Value> {
    let event = |text: &str| {
        let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], json!(name));
        data
    };
    answer.body.split_terminator("\n\n").map(event).collect()
}

fn texts<'a>(events: &'a [Value], path: &'a str) -> String {
    events.iter().filter_map(|event| event.pointer(path)?.as_str()).collect()
}

#[tokio::test]
async fn a_message_streamed_and_whole_says_the_same() {
    let mut body = json!({"model": "tiny", "max_tokens": 9, "ignore_eos": true, "system": "Be kind",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Which gate?"}]}]});
    let (_one, one) = start();
    let (_two, two) = start();
    let whole = post(one, "/v1/messages", &body).await.json();
    assert_eq!((&whole["type"], &whole["stop_reason"]), (&json!("message"), &json!("max_tokens")));
    body["stream"] = json!(true);
    let events = named_events(&post(two, "/v1/messages", &body).await);
    assert_eq!(texts(&events, "/delta/text"), whole["content"][0]["text"].as_str().unwrap());
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["message_start", "content_block_start"]);
    assert_eq!(kinds[11..], ["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(events[12]["usage"], whole["usage"]);
    assert_eq!(whole["usage"]["output_tokens"], json!(9));

    let mut plain = body.clone();
    plain["system"] = Value::Null;
    plain["stream"] = json!(false);
    let less = post(one, "/v1/messages", &plain).await.json();
    assert!(
        less["usage"]["input_tokens"].as_u64() < whole["usage"]["input_tokens"].as_u64(),
        "the system prompt counts"
    );
}

#[tokio::test]
async fn errors_have_the_dialects_shape_where_its_own_code_makes_them() {
    let (_sim, addr) = start();
    let message = |fields: Value| async move { post(addr, "/v1/messages", &fields).await };
    let hi = json!([{"role": "user", "content": "hi"}]);
    let unknown = message(json!({"model": "nope", "max_tokens": 4, "messages": hi})).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(
        unknown.body,
        r#"{"type":"error","error":{"type":"NotFoundError","message":"The model `nope` does not exist. Valid aliases: tiny."}}"#
    );
    let long = message(json!({"model": "tiny", "max_tokens": 4000, "messages": hi})).await;
    assert_eq!(long.status, 400);
    assert!(long.body.starts_with(r#"{"type":"error","error":{"type":"BadRequestError","message":"max_completion_tokens=4000 cannot be greater than"#));
    let without = message(json!({"model": "tiny", "messages": hi})).await;
    assert_eq!(
        without.body,
        r#"{"error":{"message":"1 validation error:\n  {'type': 'missing', 'loc': 'body.max_tokens', 'msg': 'Field required', 'input': '<dict of 2 items>'}","type":"Bad Request","param":"body.max_tokens","code":400}}"#
    );
    let response =
        post(addr, "/v1/responses", &json!({"model": "tiny", "input": "hi", "max_output_tokens": 4000}))
            .await;
    assert_eq!(response.json()["error"]["param"], json!("max_output_tokens"));
    assert_eq!(get(addr, "/v1/messages").await.status, 405);
}

#[tokio::test]
async fn a_response_streamed_and_whole_says_the_same_and_is_kept_unless_asked_otherwise() {
    let mut body = json!({"model": "tiny", "input": "Which gate?", "instructions": "Be kind",
        "max_output_tokens": 5, "ignore_eos": true, "metadata": {"a": "b"}, "temperature": 0.5});
    let (_one, one) = start();
    let (_two, two) = start();
    let whole = post(one, "/v1/responses", &body).await;
    let parsed = whole.json();
    assert_eq!((&parsed["status"], &parsed["metadata"]), (&json!("incomplete"), &json!({"a": "b"})));
    let kept = get(one, &format!("/v1/responses/{}", parsed["id"].as_str().unwrap())).await;
    assert_eq!((kept.status, kept.body), (200, whole.body));

    body["stream"] = json!(true);
    let events = named_events(&post(two, "/v1/responses", &body).await);
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..13).collect::<Vec<_>>());
    assert_eq!(texts(&events, "/delta"), parsed["output"][0]["content"][0]["text"].as_str().unwrap());
    let completed = &events[12]["response"];
    assert_eq!((&completed["usage"], &completed["instructions"]), (&parsed["usage"], &json!("Be kind")));
    let kept = get(two, &format!("/v1/responses/{}", completed["id"].as_str().unwrap())).await;
    assert_eq!(&kept.json(), completed);

    body["store"] = json!(false);
    let events = named_events(&post(two, "/v1/responses", &body).await);
    let id = events[0]["response"]["id"].as_str().unwrap();
    let unknown = get(two, &format!("/v1/responses/{id}")).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"]["message"], json!(format!("Response with id '{id}' not found.")));
}

#[tokio::test]
async fn a_response_goes_on_with_the_conversation_it_names() {
    let (_sim, addr) = start();
    let ask = |input: Value, previous: Value| async move {
        let body = json!({"model": "tiny", "input": input, "previous_response_id": previous,
            "max_output_tokens": 64, "ignore_eos": true});
        post(addr, "/v1/responses", &body).await.json()
    };
    let first = ask(json!("Which gate is open? ".repeat(20)), Value::Null).await;
    let next = ask(json!([{"role": "user", "content": "Why?"}]), first["id"].clone()).await;
    assert_eq!(next["previous_response_id"], first["id"]);
    let tokens = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_u64).unwrap();
    assert!(tokens(&next, "/usage/input_tokens") > tokens(&first, "/usage/total_tokens"));
    let cached = tokens(&next, "/usage/input_tokens_details/cached_tokens");
    assert!(cached + 16 >= tokens(&first, "/usage/total_tokens"), "{cached} tokens were found");
    assert_eq!(ask(json!("x"), json!("resp_x")).await["error"]["code"], json!(404));
}

#[tokio::test]
async fn embeddings_follow_from_the_text_and_have_length_one() {
    let (sim, addr) = start();
    let ask = |input: Value, more: Value| async move {
        let mut body = json!({"model": "tiny", "input": input});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(addr, "/v1/embeddings", &body).await
    };
    let two = ask(json!(["one gate", "two gates"]), json!({})).await.json();
    let vector = |answer: &Value, index: usize| -> Vec<f64> {
        let list = answer["data"][index]["embedding"].as_array().unwrap();
        list.iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let one = ask(json!("two gates"), json!({})).await.json();
    assert_eq!(vector(&one, 0), vector(&two, 1));
    assert_ne!(vector(&two, 0), vector(&two, 1));
    assert!((vector(&one, 0).iter().map(|number| number * number).sum::<f64>() - 1.0).abs() < 1e-5);
    assert_eq!(
        one["usage"],
        json!({"prompt_tokens": 3, "total_tokens": 3, "completion_tokens": 0, "prompt_tokens_details": null})
    );
    let short = ask(json!([[1, 2, 3], [4]]), json!({"dimensions": 4})).await.json();
    assert_eq!((vector(&short, 0).len(), short["usage"]["prompt_tokens"].as_u64()), (4, Some(4)));
    let packed = ask(json!("two gates"), json!({"encoding_format": "base64", "dimensions": 3})).await.json();
    assert_eq!(packed["data"][0]["embedding"].as_str().unwrap().len(), 16, "twelve bytes");
    for bad in [json!(7), json!([]), json!(""), json!(["x", 1])] {
        let more = json!({});
        assert_eq!(ask(bad.clone(), more).await.status, 400, "{bad}");
    }
    assert_eq!(sim.replicas()[0].counters().unwrap().running, 0);
}
