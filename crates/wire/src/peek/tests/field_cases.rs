//! Field cases about bodies, at the level of bytes. Routing and answering are tested where they happen.

use super::{PeekError, Shape, Value, chat, model, peek, texts};

const TRICKY: &str = r#"{ } \"model\":\"no\" \\ [ \\\" "#;

#[test]
fn a_01_model_is_the_last_key_after_a_megabyte() {
    for megabytes in [1, 8] {
        let text = TRICKY.repeat((megabytes << 20) / TRICKY.len());
        let schema = r#"{"type":"object","properties":{"model":{"type":"string"}}},"#.repeat(3500);
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{text}"}}],"tools":[{schema}0],"stream":true,"model":"m1"}}"#
        );
        let peek = chat(&body);
        assert_eq!(model(&body, &peek).as_deref(), Some("m1"));
        assert!(peek.stream);
        assert_eq!(peek.text_bytes, text.len() as u64);
    }
}

#[test]
fn a_02_only_the_top_level_model_counts() {
    let body = r#"{"tools":[{"type":"function","function":{"name":"spawn","parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}],"metadata":{"model":"m2"},"messages":[{"role":"user","content":"use {\"model\":\"m3\"} please"}],"model":"m1"}"#;
    assert_eq!(model(body, &chat(body)).as_deref(), Some("m1"));
    let body = r#"{"metadata":{"model":"m2"},"messages":[{"model":"m3","role":"user","content":"x"}]}"#;
    assert_eq!(chat(body).model, None);
}

#[test]
fn a_03_two_models_are_refused_however_they_are_written() {
    let doubled = [
        r#"{"model":"allowed","messages":[],"model":"forbidden"}"#,
        r#"{"model":"forbidden","messages":[],"model":"allowed"}"#,
        r#"{"model":7,"model":"forbidden"}"#,
        r#"{"model":"allowed","mod\u0065l":"forbidden"}"#,
        r#"{"\u006d\u006f\u0064\u0065\u006c":"allowed","model":"allowed"}"#,
        r#"{"model":null,"model":null}"#,
    ];
    for body in doubled {
        let error = peek(body.as_bytes(), Shape::Chat, &[]).expect_err(body);
        assert!(matches!(error, PeekError::Doubled { ref name, .. } if name == "model"), "{body}: {error}");
    }
    let body = r#"{"Model":"x","model ":"y","model":"m1","model\u0000":"z"}"#;
    assert_eq!(model(body, &chat(body)).as_deref(), Some("m1"));
}

#[test]
fn a_04_a_model_of_another_type_is_told_from_a_missing_one() {
    for value in ["123", "true", "[]", "{}", "null", "[\"m1\"]", "{\"model\":\"m1\"}"] {
        let body = format!(r#"{{"model":{value},"stream":true}}"#);
        assert_eq!(chat(&body).model, Some(Value::Other { span: 9..9 + value.len() }), "{value}");
    }
    for value in ["", " "] {
        let body = format!(r#"{{"model":"{value}"}}"#);
        assert_eq!(model(&body, &chat(&body)).as_deref(), Some(value));
    }
    assert_eq!(chat(r#"{"stream":false}"#).model, None);
}

#[test]
fn a_05_a_byte_order_mark_is_accepted_in_bodies_of_any_size() {
    for size in [200, 200 * 1024] {
        let text = "x".repeat(size);
        let body = format!(
            "\u{feff}{{\"model\":\"m1\",\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}"
        );
        let peek = chat(&body);
        assert!(peek.bom);
        assert_eq!(peek.members_at, 4);
        assert_eq!(model(&body, &peek).as_deref(), Some("m1"));
        assert_eq!(texts(&body, &peek.first_user), [text]);
    }
    let twice = "\u{feff}\u{feff}{\"model\":\"m1\"}";
    assert!(peek(twice.as_bytes(), Shape::Chat, &[]).is_err());
}

#[test]
fn a_06_unpaired_surrogates_do_not_stand_in_the_way() {
    for content in [r"cut \ud83d here", r"cut \ude00 here", r"\ud83d\ud83d\ude00", r"\ud83d", r"\uzzzz"] {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"{content}"}}],"model":"m1"}}"#);
        let peek = chat(&body);
        assert_eq!(model(&body, &peek).as_deref(), Some("m1"));
        assert_eq!(peek.first_user.len(), 1);
        assert_eq!(peek.text_bytes, content.len() as u64);
    }
}
