use serde_json::{Value, json};

use super::{MAX_ERROR_MESSAGE, error_body, error_event};
use crate::{Dialect, StreamKind};

fn body(dialect: Dialect, status: u16) -> Value {
    serde_json::from_slice(&error_body(dialect, status, "some_code", Some("model"), "Why \"it\" failed"))
        .unwrap()
}

#[test]
fn the_status_decides_the_type_in_each_dialect() {
    let cases = [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (403, "permission_error", "permission_error"),
        (404, "invalid_request_error", "not_found_error"),
        (405, "invalid_request_error", "invalid_request_error"),
        (408, "invalid_request_error", "invalid_request_error"),
        (413, "invalid_request_error", "request_too_large"),
        (415, "invalid_request_error", "invalid_request_error"),
        (422, "invalid_request_error", "invalid_request_error"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (501, "server_error", "api_error"),
        (502, "server_error", "api_error"),
        (503, "server_error", "overloaded_error"),
        (504, "server_error", "timeout_error"),
        (529, "server_error", "overloaded_error"),
    ];
    for (status, openai, anthropic) in cases {
        let message = "Why \"it\" failed";
        let expected =
            json!({"error": {"message": message, "type": openai, "param": "model", "code": "some_code"}});
        assert_eq!(body(Dialect::OpenAi, status), expected);
        let expected = json!({"type": "error", "error": {"type": anthropic, "message": message}});
        assert_eq!(body(Dialect::Anthropic, status), expected);
    }
    let bare: Value = serde_json::from_slice(&error_body(Dialect::OpenAi, 500, "c", None, "m")).unwrap();
    assert_eq!(bare["error"]["param"], Value::Null);
}

#[test]
fn any_text_is_one_json_string() {
    let every_control: String = ('\0'..='\u{a0}').collect();
    for text in ["", "\\\"/", "line\r\nline\n\n", "\u{2028}\u{1f600}\u{7f}", &every_control] {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
            let body = error_body(dialect, 400, text, Some(text), text);
            assert!(!body.iter().any(u8::is_ascii_control), "{text:?}");
            let read: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(read["error"]["message"], text);
        }
        let read: Value =
            serde_json::from_slice(&error_body(Dialect::OpenAi, 400, "c", Some(text), "m")).unwrap();
        assert_eq!(read["error"]["param"], text.get(..128).unwrap_or(text));
    }
}

#[test]
fn a_long_message_is_cut_at_a_character() {
    for (character, fits) in [("a", 1024), ("\u{e9}", 512), ("\u{20ac}", 341), ("\u{1f600}", 256)] {
        let read: Value =
            serde_json::from_slice(&error_body(Dialect::Anthropic, 500, "c", None, &character.repeat(2000)))
                .unwrap();
        assert_eq!(read["error"]["message"], character.repeat(fits));
    }
    let worst = error_body(
        Dialect::OpenAi,
        500,
        &"\u{1}".repeat(9000),
        Some(&"\u{1}".repeat(9000)),
        &"\u{1}".repeat(9000),
    );
    assert!(worst.len() < 6 * (MAX_ERROR_MESSAGE + 2 * 128) + 200, "{}", worst.len());
}

#[test]
fn an_error_event_is_one_event_of_its_kind() {
    let openai =
        json!({"message": "a\nb", "type": "server_error", "param": null, "code": "upstream_aborted"});
    let anthropic = json!({"type": "error", "error": {"type": "api_error", "message": "a\nb"}});
    let responses = json!({
        "type": "error", "code": "upstream_aborted", "message": "a\nb", "param": null, "error": openai,
    });
    let cases = [
        (StreamKind::Chat, None, json!({ "error": openai })),
        (StreamKind::Completions, None, json!({ "error": openai })),
        (StreamKind::Other, None, json!({ "error": openai })),
        (StreamKind::Messages, Some("event: error"), anthropic),
        (StreamKind::Responses, Some("event: error"), responses),
    ];
    for (kind, name, data) in cases {
        let event = String::from_utf8(error_event(kind, 502, "upstream_aborted", "a\nb")).unwrap();
        let lines: Vec<_> = event.strip_suffix("\n\n").unwrap().split('\n').collect();
        assert_eq!(lines.len(), 1 + usize::from(name.is_some()), "{event}");
        assert_eq!(name, (lines.len() == 2).then(|| lines[0]));
        let read: Value =
            serde_json::from_str(lines[lines.len() - 1].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(read, data);
    }
}
