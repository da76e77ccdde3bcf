mod agreement;
mod field_cases;
mod weight;

use super::{IncludeUsage, Peek, PeekError, Shape, Span, StreamOptions, Value, peek};
use crate::text::unescape;

fn chat(body: &str) -> Peek {
    read(body, Shape::Chat)
}

fn read(body: &str, shape: Shape) -> Peek {
    match peek(body.as_bytes(), shape, &["conversation_id", "prompt_cache_key"]) {
        Ok(peek) => peek,
        Err(error) => panic!("{error}: {body}"),
    }
}

fn text(body: &[u8], span: &Span) -> String {
    let mut out = String::new();
    unescape(body, span, usize::MAX, &mut out);
    out
}

fn texts(body: &str, spans: &[Span]) -> Vec<String> {
    spans.iter().map(|span| text(body.as_bytes(), span)).collect()
}

fn model(body: &str, peek: &Peek) -> Option<String> {
    match &peek.model {
        Some(Value::Text { span, .. }) => Some(text(body.as_bytes(), span)),
        _ => None,
    }
}

#[test]
fn what_is_no_object_is_refused() {
    let cases = [
        "",
        " ",
        "null",
        "[]",
        "\"x\"",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1}}",
        "{\"a\":1} x",
        "{\"a\":1}\0",
        "{\"a\":[1,2}",
        "{\"a\":{\"b\":1}",
        "{\"a\":\"b}",
        "{\"a\":\"b\\\"}",
        "{\"messages\":[{\"role\":\"user\",}]}",
        "{\"messages\":[{\"role\" \"user\"}]}",
        "{\"messages\":[1 2]}",
        "{\"messages\":[,]}",
        "{\"messages\":[{\"content\":[{\"text\":\"x\"]}]}",
        "{\"stream_options\":{\"include_usage\":true,}}",
        "{\0\"\0}\0",
    ];
    for body in cases {
        let error = peek(body.as_bytes(), Shape::Chat, &[]).expect_err(body);
        assert!(matches!(error, PeekError::Syntax { at, .. } if at <= body.len()), "{body}: {error}");
    }
}

#[test]
fn every_prefix_of_a_body_is_refused() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\"b"}]}],
        "tools":[{"x":{}}],"stream_options":{"include_usage":false},"max_tokens":5,"stream":true}"#;
    for cut in 0..body.len() {
        assert!(peek(&body.as_bytes()[..cut], Shape::Chat, &[]).is_err(), "{}", &body[..cut]);
    }
    assert!(chat(body).stream);
}

#[test]
fn the_empty_object_is_told() {
    for (body, members_at) in [("{}", 1), (" { } ", 2), ("\u{feff}{\n}", 4)] {
        let peek = chat(body);
        assert!(peek.empty && peek.model.is_none());
        assert_eq!((peek.members_at, peek.bom), (members_at, members_at == 4));
    }
}

#[test]
fn nesting_of_any_depth_costs_no_stack() {
    let depth = 100_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for name in ["messages", "input", "stream_options", "metadata", "prompt", "documents"] {
        for shape in [Shape::Chat, Shape::Completions, Shape::Messages, Shape::Responses, Shape::Other] {
            let body = format!(r#"{{"{name}":{deep},"model":"m"}}"#);
            assert_eq!(model(&body, &read(&body, shape)).as_deref(), Some("m"));
        }
    }
    let parts = format!("{}{}", r#"{"content":["#.repeat(depth / 10), "]}".repeat(depth / 10));
    let body = format!(r#"{{"messages":[{parts}],"model":"m"}}"#);
    assert_eq!(model(&body, &chat(&body)).as_deref(), Some("m"));
}

#[test]
fn stream_is_the_literal_true_only() {
    for (value, stream) in [
        ("true", true),
        (" true ", true),
        ("false", false),
        ("null", false),
        ("1", false),
        ("\"true\"", false),
    ] {
        assert_eq!(chat(&format!(r#"{{"stream":{value}}}"#)).stream, stream, "{value}");
    }
}

#[test]
fn token_limits_are_read_as_lax_engines_read_them_and_the_largest_counts() {
    let cases = [
        (Shape::Chat, r#"{"max_tokens":5}"#, Some(5)),
        (Shape::Chat, r#"{"max_tokens":5,"max_completion_tokens":7}"#, Some(7)),
        (Shape::Chat, r#"{"max_completion_tokens":7,"max_tokens":5}"#, Some(7)),
        (Shape::Chat, r#"{"max_completion_tokens":1,"max_tokens":5}"#, Some(5)),
        (Shape::Chat, r#"{"max_completion_tokens":null,"max_tokens":5}"#, Some(5)),
        (Shape::Chat, r#"{"max_output_tokens":7}"#, None),
        (Shape::Responses, r#"{"max_output_tokens":7}"#, Some(7)),
        (Shape::Chat, r#"{"max_tokens":16.0}"#, Some(16)),
        (Shape::Chat, r#"{"max_tokens":-1}"#, None),
        (Shape::Chat, r#"{"max_tokens":1e999}"#, Some(u64::MAX)),
        (Shape::Chat, r#"{"max_tokens":4.5}"#, Some(5)),
        (Shape::Chat, r#"{"max_tokens":"5"}"#, Some(5)),
        (Shape::Chat, r#"{"max_tokens":5,"n_predict":7}"#, Some(7)),
        (Shape::Completions, r#"{"n_predict":7}"#, Some(7)),
        (Shape::Messages, r#"{"max_tokens":5,"n_predict":7}"#, Some(5)),
        (Shape::Chat, r#"{"max_tokens":[5]}"#, None),
    ];
    for (shape, body, expected) in cases {
        assert_eq!(read(body, shape).max_tokens, expected, "{body}");
    }
    assert_eq!(chat(r#"{"n":3}"#).n, Some(3));
    assert_eq!(chat(r#"{"n":"3","best_of":4}"#).best_of, None, "not of chat");
    assert_eq!(read(r#"{"best_of":"4"}"#, Shape::Completions).best_of, Some(4));
    for (shape, value, background) in
        [(Shape::Responses, "true", true), (Shape::Responses, "1", false), (Shape::Chat, "true", false)]
    {
        assert_eq!(read(&format!(r#"{{"background":{value}}}"#), shape).background, background);
    }
}

#[test]
fn stream_options_are_told_apart() {
    let cases = [
        ("null", IncludeUsage::Absent, false, true, false),
        ("5", IncludeUsage::Absent, false, false, false),
        ("{}", IncludeUsage::Absent, true, false, true),
        ("{ }", IncludeUsage::Absent, true, false, true),
        (r#"{"other":1}"#, IncludeUsage::Absent, true, false, false),
        (r#"{"include_usage":true}"#, IncludeUsage::True, true, false, false),
        (r#"{"include\u005fusage":true}"#, IncludeUsage::True, true, false, false),
        (r#"{"include_usage":false}"#, IncludeUsage::Other(36..41), true, false, false),
        (r#"{"include_usage":true,"include_usage":false}"#, IncludeUsage::Other(57..62), true, false, false),
        (r#"{"a":{"include_usage":true}}"#, IncludeUsage::Absent, true, false, false),
    ];
    for (value, include_usage, object, null, empty) in cases {
        let body = format!(r#"{{"stream_options": {value} }}"#);
        let span = 19..19 + value.len();
        let expected = StreamOptions { span, include_usage, object, null, empty };
        assert_eq!(chat(&body).stream_options, Some(expected), "{value}");
    }
}

#[test]
fn session_keys_are_strings_that_are_not_blank() {
    let body = r#"{"prompt_cache_key":"p","x":{"conversation_id":"no"},"conversation_i\u0064":"c"}"#;
    let peek = chat(body);
    let found: Vec<_> = peek.session.iter().map(|(i, span)| (*i, text(body.as_bytes(), span))).collect();
    assert_eq!(found, [(1, "p".to_owned()), (0, "c".to_owned())]);
    for value in ["null", "\"\"", "\"  \"", r#""\u0020\n""#, "7", "{}", "[\"c\"]", "true"] {
        assert_eq!(chat(&format!(r#"{{"conversation_id":{value}}}"#)).session, [], "{value}");
    }
}

#[test]
fn a_session_key_may_be_a_member_that_is_read_anyway() {
    let body = br#"{"model":"m","previous_response_id":"r"}"#;
    let peek = peek(body, Shape::Responses, &["previous_response_id", "model"]).unwrap();
    assert_eq!(peek.session, [(1, 9..12), (0, 36..39)]);
    assert_eq!(peek.previous_response_id, Some(36..39));
}

#[test]
fn members_that_decide_something_may_not_be_doubled() {
    for name in
        ["model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "conversation_id"]
    {
        let escaped = format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]);
        for second in [name, &escaped] {
            for (one, two) in [("1", "null"), ("\"a\"", "\"a\""), ("{}", "[]")] {
                let body = format!(r#"{{"{name}":{one},"x":0,"{second}":{two}}}"#);
                let error = peek(body.as_bytes(), Shape::Chat, &["conversation_id"]).expect_err(&body);
                let at = body.rfind(&format!("\"{second}\"")).unwrap();
                assert_eq!(error, PeekError::Doubled { name: name.to_owned(), at });
            }
        }
    }
    assert!(peek(br#"{"conversation_id":"a","conversation_id":"b"}"#, Shape::Chat, &[]).is_ok());
    assert!(peek(br#"{"temperature":1,"temperature":2}"#, Shape::Chat, &[]).is_ok());
}

#[test]
fn system_prompt_and_first_user_turn_are_found_in_each_shape() {
    /// Shape, body; system texts, first user's texts, whether the assistant spoke.
    type Case = (Shape, &'static str, &'static [&'static str], &'static [&'static str], bool);
    let cases: &[Case] = &[
        (Shape::Chat, r#"{"messages":[{"role":"user","content":"u"}]}"#, &[], &["u"], false),
        (
            Shape::Chat,
            r#"{"messages":[{"content":"s","role":"system"},{"content":"u","role":"user"}]}"#,
            &["s"],
            &["u"],
            false,
        ),
        (
            Shape::Chat,
            r#"{"messages":[{"role":"developer","content":["a",{"type":"text","text":"b"}]},
          {"role":"system","content":"c"},{"role":"user","content":[{"text":"u","type":"text"}]},
          {"role":"assistant","content":"x"},{"role":"system","content":"late"},{"role":"user","content":"v"}]}"#,
            &["a", "b", "c"],
            &["u"],
            true,
        ),
        (
            Shape::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]},
          {"role":"user","content":"second"}]}"#,
            &[],
            &[],
            false,
        ),
        (Shape::Chat, r#"{"system":"no","messages":[{"role":"user","content":null}]}"#, &[], &[], false),
        (
            Shape::Messages,
            r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}],
          "system":[{"type":"text","text":"s1","cache_control":{"type":"ephemeral"}},{"type":"text","text":"s2"}]}"#,
            &["s1", "s2"],
            &["u"],
            true,
        ),
        (Shape::Messages, r#"{"system":"s","messages":[]}"#, &["s"], &[], false),
        (Shape::Responses, r#"{"input":"u","instructions":"i"}"#, &["i"], &["u"], false),
        (
            Shape::Responses,
            r#"{"input":[{"role":"developer","content":"d"},
          {"role":"user","content":[{"type":"input_text","text":"u"}]}],"instructions":"i"}"#,
            &["i", "d"],
            &["u"],
            false,
        ),
        (
            Shape::Responses,
            r#"{"input":[{"role":"user","content":"u"},{"type":"function_call","name":"f"}]}"#,
            &[],
            &["u"],
            true,
        ),
        (Shape::Responses, r#"{"input":[{"type":"function_call_output","output":"o"}]}"#, &[], &[], true),
        (
            Shape::Responses,
            r#"{"input":[{"type":"message","role":"assistant","content":"a"}]}"#,
            &[],
            &[],
            true,
        ),
        (Shape::Completions, r#"{"prompt":"p"}"#, &[], &[], false),
        (Shape::Other, r#"{"messages":[{"role":"system","content":"s"}]}"#, &["s"], &[], false),
    ];
    for (shape, body, system, first_user, assistant) in cases {
        let peek = read(body, *shape);
        assert_eq!(texts(body, &peek.system), *system, "{body}");
        assert_eq!(texts(body, &peek.first_user), *first_user, "{body}");
        assert_eq!(peek.has_assistant_turn, *assistant, "{body}");
    }
}

#[test]
fn prompt_text_and_media_are_counted_apart() {
    let cases = [
        (Shape::Chat, r#"{"messages":[{"role":"user","content":"12345"}],"prompt":"no"}"#, 5, 0),
        (
            Shape::Chat,
            r#"{"messages":[{"role":"user","name":"no","content":["12",{"type":"text","text":"345"}]}]}"#,
            5,
            0,
        ),
        (Shape::Chat, r#"{"messages":[{"role":"tool","tool_call_id":"no","content":"12"}]}"#, 2, 0),
        (
            Shape::Chat,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:AAAA"}},
          {"type":"input_audio","input_audio":{"data":"AAAA"}},{"type":"file","file":{}},
          {"image_url":"x"},{"type":"text","text":"1"}]}]}"#,
            1,
            4,
        ),
        (Shape::Chat, r#"{"tools":[{"function":{"description":"no"}}],"messages":[]}"#, 0, 0),
        (
            Shape::Messages,
            r#"{"system":"123","messages":[{"role":"user","content":[
          {"type":"tool_result","content":[{"type":"text","text":"45"},{"type":"image","source":{"data":"A"}}]},
          {"type":"tool_result","content":"6"}]}]}"#,
            6,
            1,
        ),
        (
            Shape::Responses,
            r#"{"instructions":"1","input":[{"role":"user","content":[{"type":"input_text","text":"2"},
          {"type":"input_image","image_url":"data:A"},{"type":"input_file","file_data":"A"}]},
          {"type":"function_call_output","output":"34"}]}"#,
            4,
            2,
        ),
        (Shape::Responses, r#"{"input":"123"}"#, 3, 0),
        (Shape::Completions, r#"{"prompt":["12","3"],"input":"no"}"#, 3, 0),
        (Shape::Completions, r#"{"prompt":[1,22,333]}"#, 0, 0),
        (Shape::Other, r#"{"input":["12","3"]}"#, 3, 0),
        (Shape::Other, r#"{"query":"1","documents":["2",{"text":"3","title":"no"}],"top_n":2}"#, 3, 0),
        (Shape::Other, r#"{"text_1":"1","text_2":["2","3"]}"#, 3, 0),
    ];
    for (shape, body, text_bytes, media_parts) in cases {
        let peek = read(body, shape);
        assert_eq!((peek.text_bytes, peek.media_parts), (text_bytes, media_parts), "{body}");
    }
}

#[test]
fn prompts_and_token_ids_are_counted() {
    let cases = [
        (Shape::Completions, r#"{"prompt":"a"}"#, 1, 0),
        (Shape::Completions, r#"{"prompt":["a","b",""]}"#, 3, 0),
        (Shape::Completions, r#"{"prompt":[1,22,333]}"#, 0, 3),
        (Shape::Completions, r#"{"prompt":[[1,2],[3],[]]}"#, 3, 3),
        (Shape::Completions, r#"{"prompt":null}"#, 0, 0),
        (Shape::Other, r#"{"input":[{"text":"a"},"b"]}"#, 2, 0),
        (Shape::Other, r#"{"input":[[1,2],[3]]}"#, 2, 3),
        (Shape::Chat, r#"{"prompt":["a","b"]}"#, 0, 0),
    ];
    for (shape, body, prompts, token_ids) in cases {
        let peek = read(body, shape);
        assert_eq!((peek.prompts, peek.token_ids), (prompts, token_ids), "{body}");
    }
}

#[test]
fn the_lists_of_text_parts_are_bounded() {
    let part = r#"{"type":"text","text":"ab"},"#.repeat(1000);
    let body = format!(r#"{{"messages":[{{"role":"system","content":[{part}"end"]}}]}}"#);
    assert_eq!(chat(&body).system.len(), super::MAX_SPANS);
    let long = format!(r#"{{"type":"text","text":"{}"}},"#, "a".repeat(30_000)).repeat(9);
    let body = format!(r#"{{"messages":[{{"role":"system","content":[{long}"end"]}}]}}"#);
    assert_eq!(chat(&body).system.len(), 2);
}

#[test]
fn a_stream_member_that_is_no_boolean_is_odd() {
    for (value, odd) in
        [("true", false), ("false", false), ("null", false), ("1", true), (r#""true""#, true), ("[]", true)]
    {
        let body = format!(r#"{{"stream": {value}}}"#);
        let peek = peek(body.as_bytes(), Shape::Chat, &[]).expect("an object");
        assert_eq!(peek.odd_stream, odd, "{value}");
    }
}
