//! Goldens: what vLLM 0.32 sent, with the id, words and fingerprint of the simulator.

use super::*;

fn chat() -> Shape {
    Shape::new(Dialect::Chat, "831a3a9cdfbcc364", 1_795_989_628, "tiny")
}

fn text() -> Shape {
    Shape::new(Dialect::Text, "98711acf00e8df88", 1_795_989_628, "tiny")
}

const USAGE: Usage = Usage { prompt: 11, completion: 4, cached: 0, created: 0 };

#[test]
fn chat_events() {
    let table = [
        (
            chat().opening_event(None).unwrap(),
            r#"{"id":"chatcmpl-831a3a9cdfbcc364","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}"#,
        ),
        (
            chat().opening_event(Some(Usage { completion: 0, ..USAGE })).unwrap(),
            r#"{"id":"chatcmpl-831a3a9cdfbcc364","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":11,"total_tokens":11,"completion_tokens":0,"completion_tokens_details":null},"prompt_token_ids":null,"prompt_text":null}"#,
        ),
        (
            chat().token_event("\n", None, None, false),
            r#"{"id":"chatcmpl-831a3a9cdfbcc364","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{"index":0,"delta":{"content":"\n"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
        ),
        (
            chat().token_event("\n", None, Some(Usage { completion: 1, ..USAGE }), false),
            r#"{"id":"chatcmpl-831a3a9cdfbcc364","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{"index":0,"delta":{"content":"\n"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":11,"total_tokens":12,"completion_tokens":1,"completion_tokens_details":null}}"#,
        ),
        (
            chat().token_event("\n", Some(Finish::Length), None, true),
            r#"{"id":"chatcmpl-831a3a9cdfbcc364","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{"index":0,"delta":{"content":"\n"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"system_fingerprint":"vllm-0.32.0-51c0de00"}"#,
        ),
        (
            chat().usage_event(USAGE),
            r#"{"id":"chatcmpl-831a3a9cdfbcc364","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[],"usage":{"prompt_tokens":11,"total_tokens":15,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0}},"system_fingerprint":"vllm-0.32.0-51c0de00"}"#,
        ),
    ];
    for (event, golden) in table {
        assert_eq!(event, format!("data: {golden}\n\n"));
    }
}

#[test]
fn completion_events() {
    assert_eq!(text().opening_event(None), None);
    let table = [
        (
            text().token_event(" callers", Some(Finish::Length), None, false),
            r#"{"id":"cmpl-98711acf00e8df88","object":"text_completion","created":1795989628,"model":"tiny","choices":[{"index":0,"text":" callers","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#,
        ),
        (
            text().usage_event(Usage { prompt: 2, completion: 3, cached: 0, created: 0 }),
            r#"{"id":"cmpl-98711acf00e8df88","object":"text_completion","created":1795989628,"model":"tiny","choices":[],"usage":{"prompt_tokens":2,"total_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"vllm-0.32.0-51c0de00"}"#,
        ),
    ];
    for (event, golden) in table {
        assert_eq!(event, format!("data: {golden}\n\n"));
    }
}

#[test]
fn whole_answers() {
    let usage = Usage { prompt: 613, completion: 2, cached: 512, created: 0 };
    let table = [
        (
            Shape::new(Dialect::Chat, "8afe4c0550526c64", 1_795_989_629, "tiny").whole(
                "\n\n",
                Finish::Length,
                usage,
            ),
            r#"{"id":"chatcmpl-8afe4c0550526c64","object":"chat.completion","created":1795989629,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"\n\n","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-51c0de00","usage":{"prompt_tokens":613,"total_tokens":615,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":512,"created_cache_tokens":0,"multimodal_tokens":null},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"#,
        ),
        (
            Shape::new(Dialect::Text, "b11713c3fa5f4466", 1_795_989_628, "tiny").whole(
                " callers",
                Finish::Length,
                Usage { prompt: 2, completion: 4, cached: 0, created: 0 },
            ),
            r#"{"id":"cmpl-b11713c3fa5f4466","object":"text_completion","created":1795989628,"model":"tiny","choices":[{"index":0,"text":" callers","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-51c0de00","usage":{"prompt_tokens":2,"total_tokens":6,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":null,"multimodal_tokens":null},"completion_tokens_details":null},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}"#,
        ),
    ];
    for (answer, golden) in table {
        assert_eq!(answer, golden);
    }
}

#[test]
fn names_from_the_network_are_escaped() {
    let event = Shape::new(Dialect::Chat, "a\"b\\", 0, "m\"").token_event("x", None, None, false);
    let value: serde_json::Value = serde_json::from_str(event.trim_start_matches("data: ")).unwrap();
    assert_eq!((value["id"].as_str(), value["model"].as_str()), (Some("chatcmpl-a\"b\\"), Some("m\"")));
}
