use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::Edits;
use crate::peek::{Shape, peek};

fn edited(body: &[u8], upstream_model: Option<&str>, ask_usage: bool) -> Vec<u8> {
    let peek = peek(body, Shape::Chat, &[]).unwrap();
    let edits = Edits::new(&peek, upstream_model, ask_usage);
    let slices = edits.slices(body);
    assert!(slices.iter().all(|slice| !slice.is_empty()));
    let sent = slices.concat();
    assert_eq!(edits.len(body.len()), sent.len());
    assert_eq!(edits.is_empty(), sent == body && slices.len() == 1);
    sent
}

#[test]
fn usage_is_asked_for_in_every_form_of_stream_options() {
    let cases = [
        (r#"{"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
        (r#" { "stream":true}"#, r#" {"stream_options":{"include_usage":true}, "stream":true}"#),
        (
            r#"{"stream":true,"stream_options":null}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{ }}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true }}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{"include_usage":false,"other":1}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true,"other":1}}"#,
        ),
        (
            r#"{"stream_options":{"include_usage": null },"stream":true}"#,
            r#"{"stream_options":{"include_usage": true },"stream":true}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{"continuous_usage_stats":true}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#,
        ),
        (
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
        ),
        (r#"{"stream":true,"stream_options":5}"#, r#"{"stream":true,"stream_options":5}"#),
    ];
    for (body, expected) in cases {
        assert_eq!(String::from_utf8_lossy(&edited(body.as_bytes(), None, true)), expected);
        assert_eq!(edited(body.as_bytes(), None, false), body.as_bytes());
    }
}

#[test]
fn an_empty_object_is_left_alone() {
    assert_eq!(edited(b"{}", Some("m"), true), b"{}");
}

#[test]
fn the_model_is_replaced_and_escaped() {
    let cases = [
        ("m2", r#"{"x":1, "model" : "m2" }"#),
        ("a\"b\\c", r#"{"x":1, "model" : "a\"b\\c" }"#),
        ("tab\tnul\0", r#"{"x":1, "model" : "tab\u0009nul\u0000" }"#),
        ("\u{4e2d}", "{\"x\":1, \"model\" : \"\u{4e2d}\" }"),
    ];
    for (name, expected) in cases {
        for value in [r#""m1""#, r#""m\u0031""#, "null"] {
            let body = format!(r#"{{"x":1, "model" : {value} }}"#);
            assert_eq!(String::from_utf8_lossy(&edited(body.as_bytes(), Some(name), false)), expected);
        }
    }
}

#[test]
fn all_edits_together_keep_their_order() {
    let body = "\u{feff}{\"stream_options\":{\"include_usage\":false},\"stream\":true,\"model\":\"m1\"}";
    let sent = edited(body.as_bytes(), Some("m2"), true);
    assert_eq!(sent, br#"{"stream_options":{"include_usage":true},"stream":true,"model":"m2"}"#);
}

#[test]
fn a_05_the_byte_order_mark_is_taken_off() {
    for size in [1, 200 * 1024] {
        let json = format!(r#"{{"model":"m1","user":"{}"}}"#, "x".repeat(size));
        assert_eq!(edited(format!("\u{feff}{json}").as_bytes(), None, false), json.as_bytes());
    }
}

#[test]
fn a_07_nothing_but_the_member_put_in_differs() {
    let rest = concat!(
        r#" "model":"m1",  "seed":9007199254740993,"temperature": 1.10,"stream":true ,"#,
        "\n\t\"response_format\":{\"json_schema\":{\"properties\":{\"zebra\":{},\"apple\":{},\"mango\":{}}}},",
        "\"messages\":[{\"role\":\"user\",\"content\":\"\u{4e2d} \\u4e2d \\ud83d\"}]}  \r\n"
    );
    let body = format!("{{{rest}");
    let expected = format!(r#"{{"stream_options":{{"include_usage":true}},{rest}"#);
    for _ in 0..20 {
        assert_eq!(edited(body.as_bytes(), None, true), expected.as_bytes());
    }
}

#[test]
fn a_24_what_does_not_stream_is_not_asked() {
    for stream in
        [r#""x":1"#, r#""stream":false"#, r#""stream":null"#, r#""stream":false,"stream_options":{}"#]
    {
        let body = format!(r#"{{"model":"m1",{stream}}}"#);
        assert_eq!(edited(body.as_bytes(), None, true), body.as_bytes());
    }
}

fn options() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        Just(json!({})),
        any::<bool>().prop_map(|on| json!({"include_usage": on, "other": [1, {"include_usage": false}]})),
        Just(json!({"a": {"include_usage": true}})),
        Just(json!({"include_usage": null})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn an_edited_body_parses_to_the_expected_value(options in prop::option::of(options()), pretty in any::<bool>(),
        stream in any::<bool>(), bom in any::<bool>(), ask in any::<bool>(), model in any::<String>(),
        upstream in prop::option::of(any::<String>()), other in prop::collection::vec((any::<String>(), any::<i64>()), 0..4)) {
        let mut object: Map<String, Json> = other.into_iter().map(|(name, value)| (name, value.into())).collect();
        object.insert("model".into(), model.into());
        object.insert("stream".into(), stream.into());
        if let Some(options) = options {
            object.insert("stream_options".into(), options);
        }
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        let body = format!("{}{}", if bom { "\u{feff}" } else { "" }, text.unwrap());
        let sent = edited(body.as_bytes(), upstream.as_deref(), ask);

        if let Some(upstream) = upstream {
            object.insert("model".into(), upstream.into());
        }
        if ask && stream {
            let options = object.entry("stream_options").or_insert(Json::Null);
            if options.is_null() {
                *options = json!({});
            }
            options["include_usage"] = Json::Bool(true);
        }
        prop_assert_eq!(serde_json::from_slice::<Map<String, Json>>(&sent).unwrap(), object);
    }

    #[test]
    fn every_byte_outside_of_the_spans_is_kept(prefix in "[ \\n\\t]{0,3}", rest in "[ -~&&[^\"\\\\]]{0,30}", ask in any::<bool>()) {
        let body = format!(r#"{{{prefix}"user":"{rest}",{prefix}"model":{prefix}"m1"{prefix},"stream":true{prefix}}}{prefix}"#);
        let sent = String::from_utf8(edited(body.as_bytes(), Some("other"), ask)).unwrap();
        let undone = sent.replacen(r#""stream_options":{"include_usage":true},"#, "", usize::from(ask));
        prop_assert_eq!(undone.replacen(r#""other""#, r#""m1""#, 1), body);
    }
}
