use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::AnswerScan;
use crate::sse::StreamKind;
use crate::usage::Usage;

fn scan(answer: &str, part: usize) -> AnswerScan {
    let mut scan = AnswerScan::new();
    for bytes in answer.as_bytes().chunks(part) {
        scan.feed(bytes);
    }
    scan
}

fn usage(
    prompt_tokens: u64,
    cached: Option<u64>,
    completion_tokens: u64,
    reasoning: Option<u64>,
) -> Option<Usage> {
    Some(Usage { prompt_tokens, cached_tokens: cached, completion_tokens, reasoning_tokens: reasoning })
}

#[test]
fn answers_of_every_kind_are_read_in_every_split() {
    let cases = [
        // vLLM, chat
        (
            r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"\n\"usage\":{\"prompt_tokens\":9}"},"logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":21,"total_tokens":29,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":null},"kv_transfer_params":null}"#,
            usage(21, Some(16), 8, None),
            Some("length"),
            None,
        ),
        // llama.cpp, chat
        (
            r#"{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"x"}}],"usage":{"completion_tokens":8,"prompt_tokens":29,"completion_tokens_details":{"reasoning_tokens":3}},"timings":{"prompt_ms":902.233}}"#,
            usage(29, None, 8, Some(3)),
            Some("stop"),
            None,
        ),
        // Messages
        (
            r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}],"stop_reason":"max_tokens","usage":{"cache_read_input_tokens":20,"cache_creation_input_tokens":1,"input_tokens":5,"output_tokens":4}}"#,
            usage(26, Some(20), 4, None),
            Some("max_tokens"),
            None,
        ),
        // Responses
        (
            r#"{"object":"response","output":[{"status":"x","usage":{"input_tokens":1}}],"status":"completed","error":null,"usage":{"input_tokens":25,"output_tokens":4,"input_tokens_details":{"cached_tokens":20},"output_tokens_details":{"reasoning_tokens":2}}}"#,
            usage(25, Some(20), 4, Some(2)),
            Some("completed"),
            None,
        ),
        // Embeddings
        (
            r#"{"data":[{"embedding":[0.1,-2e-5]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#,
            usage(3, None, 0, None),
            None,
            None,
        ),
        // Only the first choice's reason, only the top level's usage
        (
            r#"{"choices":[{"finish_reason":null},{"finish_reason":"stop"}],"response":{"usage":{"input_tokens":1}},"message":{"usage":{"input_tokens":1}}}"#,
            None,
            None,
            None,
        ),
        (
            r#"{"usage":{"prompt_tokens":1},"usage":{"completion_tokens":2}}"#,
            usage(0, None, 2, None),
            None,
            None,
        ),
        (r#"{"us\u0061ge":{"prompt_t\u006fkens":1}}"#, usage(1, None, 0, None), None, None),
        (r#" { "usage" : { "prompt_tokens" : 1 , "x" : [ { } ] } } "#, usage(1, None, 0, None), None, None),
        // Errors
        (
            r#"{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}"#,
            None,
            None,
            Some("BadRequestError"),
        ),
        (
            r#"{"object":"error","message":"m","type":"NotFoundError","code":404}"#,
            None,
            None,
            Some("NotFoundError"),
        ),
        (r#"{"type":"NotFoundError","object":"error"}"#, None, None, Some("NotFoundError")),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            None,
            None,
            Some("overloaded_error"),
        ),
        (r#"{"detail":"Not Found"}"#, None, None, None),
        (r#"{"type":"message","error":null}"#, None, None, None),
        // Not whole, or not an object
        (r#"{"usage":{"prompt_tokens":21,"#, None, None, None),
        (r#"[{"usage":{"prompt_tokens":21}}]"#, None, None, None),
        (r#""usage""#, None, None, None),
        ("<html>", None, None, None),
        ("", None, None, None),
    ];
    for (answer, usage, finish_reason, error_type) in cases {
        for part in [usize::MAX, 1, 2, 3, 5, 7, 11, 64] {
            let scan = scan(answer, part);
            assert_eq!(scan.usage(), usage, "{answer} by {part}");
            assert_eq!(scan.finish_reason(), finish_reason, "{answer} by {part}");
            assert_eq!(scan.error_type(), error_type, "{answer} by {part}");
        }
        crate::fuzz::answer(answer.as_bytes());
    }
}

#[test]
fn a_26_usage_is_found_wherever_it_stands_in_an_answer_of_any_length() {
    let counts = r#""usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16}"#;
    let logprobs = format!(
        r#""prompt_logprobs":[{}null]"#,
        r#"{"12":{"logprob":-1.5,"decoded_token":"}"}},"#.repeat(26_000)
    );
    for size in [1 << 10, 9 << 10, 300 << 10, 5 << 20] {
        let text = r#"{\"usage\":{\"prompt_tokens\":1}} \\ "#.repeat(size / 36);
        let choices = format!(r#""choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]"#);
        for answer in [
            format!("{{{choices},{counts}}}"),
            format!("{{{counts},{choices}}}"),
            format!(r#"{{{choices},{counts},{logprobs},"kv_transfer_params":null}}"#),
        ] {
            let scan = scan(&answer, 16 << 10);
            assert_eq!((scan.usage(), scan.finish_reason()), (usage(7, None, 9, None), Some("stop")));
            assert!(size_of_val(&scan) <= 768, "{}", size_of_val(&scan));
        }
    }
}

#[test]
fn the_id_of_a_response_is_its_own_whole_one_and_of_no_other_kind() {
    let long = "r".repeat(257);
    // Of few bytes when decoded: whatever stands behind what is read, it is not whole.
    let escaped = r"\u0072".repeat(45);
    let rows = [
        (StreamKind::Responses, r#"{"id":"resp_1-a.b","object":"response"}"#, Some("resp_1-a.b")),
        (StreamKind::Responses, r#"{"output":[{"id":"msg_1"}],"id":"resp_1"}"#, Some("resp_1")),
        (StreamKind::Responses, r#"{"output":[{"id":"msg_1"}]}"#, None),
        (StreamKind::Responses, r#"{"id":""}"#, None),
        (StreamKind::Responses, r#"{"id":7}"#, None),
        (StreamKind::Responses, r#"{"id":"a b"}"#, None),
        (StreamKind::Responses, &format!(r#"{{"id":"{}"}}"#, &long[1..]), Some(&long[1..])),
        (StreamKind::Responses, &format!(r#"{{"id":"{long}"}}"#), None),
        (StreamKind::Responses, r#"{"id":"\u0072esp_1"}"#, Some("resp_1")),
        (StreamKind::Responses, &format!(r#"{{"id":"{escaped}"}}"#), None),
        (StreamKind::Chat, r#"{"id":"chatcmpl-1"}"#, None),
        (StreamKind::Other, r#"{"id":"x"}"#, None),
    ];
    for (kind, answer, id) in rows {
        for part in [1, 7, 1000] {
            let mut scan = AnswerScan::of(kind);
            answer.as_bytes().chunks(part).for_each(|bytes| scan.feed(bytes));
            assert_eq!(scan.response_id(), id, "{kind:?} {answer} {part}");
        }
    }
}

#[test]
fn nesting_of_any_depth_costs_neither_stack_nor_heap() {
    for bracket in [("[", "]"), (r#"{"usage":"#, "1}")] {
        let deep = format!("{}{}", bracket.0.repeat(100_000), bracket.1.repeat(100_000));
        let answer = format!(r#"{{"x":{deep},"usage":{{"prompt_tokens":7,"x":{deep}}}}}"#);
        assert_eq!(scan(&answer, 1000).usage(), usage(7, None, 0, None));
    }
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (0_u64..1000).prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[a-z\"\\\\{}\\[\\]\n]{0,20}".prop_map(Json::from),
    ];
    let name = prop_oneof![
        prop::sample::select(vec![
            "usage",
            "choices",
            "error",
            "type",
            "object",
            "finish_reason",
            "stop_reason",
            "status",
            "prompt_tokens",
            "completion_tokens",
            "prompt_tokens_details",
            "cached_tokens",
            "message",
            "delta",
        ])
        .prop_map(str::to_owned),
        "[a-z\"]{0,3}",
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
        ]
    })
}

fn count(object: &Json, name: &str) -> Option<u64> {
    let value = object.get(name)?;
    let float =
        || value.as_f64().filter(|n| value.is_f64() && n.fract() == 0.0 && n.is_sign_positive() && *n < 9e15);
    value.as_u64().or_else(|| float().map(|number| number as u64))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn the_scan_agrees_with_a_parsed_tree(members in prop::collection::vec((prop::sample::select(vec![
        "usage", "choices", "error", "object", "stop_reason", "status", "message", "data", "response"]), any_json()), 0..7),
        pretty in any::<bool>(), part in 1_usize..40) {
        let object: Map<String, Json> = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let tree = json!(object);
        let answer = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
        let scan = scan(&answer, part);

        let usage = tree.get("usage").filter(|usage| usage.is_object());
        let prompt = usage.and_then(|usage| count(usage, "prompt_tokens"));
        let completion = usage.and_then(|usage| count(usage, "completion_tokens"));
        let cached = usage.and_then(|usage| count(usage.get("prompt_tokens_details")?, "cached_tokens"));
        let known = prompt.is_some() || completion.is_some() || cached.is_some();
        prop_assert_eq!(scan.usage(), known.then(|| Usage {
            prompt_tokens: prompt.unwrap_or(0),
            cached_tokens: cached,
            completion_tokens: completion.unwrap_or(0),
            reasoning_tokens: None,
        }));

        let choices = tree.get("choices").and_then(Json::as_array);
        let first = choices.and_then(|choices| choices.iter().find(|choice| choice.is_object()));
        let reason = first.and_then(|choice| choice.get("finish_reason")).and_then(Json::as_str);
        let reason = reason.or_else(|| tree.get("stop_reason")?.as_str()).or_else(|| tree.get("status")?.as_str());
        let printable = |word: &str| word.chars().filter(|c| *c == ' ' || c.is_ascii_graphic()).collect::<String>();
        prop_assert_eq!(scan.finish_reason().map(str::to_owned), reason.map(printable));
        let kind = tree.get("error").and_then(|error| error.get("type")).and_then(Json::as_str);
        prop_assert_eq!(scan.error_type().map(str::to_owned), kind.map(printable));
    }
}
