mod field_cases;
mod recorded;

use super::{HOLD_LIMIT, Observer, StreamError, StreamKind};
use crate::fuzz::every_split;
use crate::usage::Usage;

/// The observer after a whole stream, and what was passed on.
fn read(kind: StreamKind, hide: bool, stream: &[u8]) -> (Observer, Vec<u8>) {
    let mut observer = Observer::new(kind, hide);
    let mut buf = stream.to_vec();
    let mut pass = observer.feed(&mut buf);
    pass.held.extend(&buf[..pass.keep]);
    pass.held.extend(observer.finish());
    (observer, pass.held)
}

fn chat(stream: &str) -> Observer {
    let (observer, passed) = read(StreamKind::Chat, false, stream.as_bytes());
    assert_eq!(passed, stream.as_bytes());
    observer
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
fn an_observer_is_small_and_holds_nothing_between_events() {
    assert!(size_of::<Observer>() <= 168, "{}", size_of::<Observer>());
    let mut observer = Observer::new(StreamKind::Chat, true);
    observer.feed(&mut b"data: {\"choices\":[{\"delta\":{\"content\":\"a".to_vec());
    assert!(observer.open.is_some() && observer.at_boundary());
    let pass = observer.feed(&mut b"\"}}]}\n\n".to_vec());
    assert_eq!(pass.held, b"data: {\"choices\":[{\"delta\":{\"content\":\"a");
    assert!(observer.open.is_none() && pass.first_content);
}

#[test]
fn every_way_of_writing_lines_is_read() {
    let event = r#"{"choices":[{"delta":{"content":"x"}}]}"#;
    let cases = [
        format!("data: {event}\n\n"),
        format!("data:{event}\n\n"),
        format!("data: {event}\r\n\r\n"),
        format!("data: {event}\r\r"),
        format!("data: {event}\n\r\n"),
        format!("data: {event}\r\n\n"),
        format!("\u{feff}data: {event}\n\n"),
        format!("\n\n\r\ndata: {event}\n\n\n\n"),
        format!(": comment\ndata: {event}\n\n"),
        format!("id: 7\nevent: chunk\nretry: 10\ndata: {event}\nnonsense\n:\n\n"),
        format!("data: {}\ndata: {}\n\n", &event[..12], &event[12..]),
        format!("data: {event}\n"),
        format!("data: {event}"),
    ];
    for stream in cases {
        let observer = chat(&stream);
        assert_eq!((observer.events(), observer.content_events()), (1, 1), "{stream:?}");
        every_split(StreamKind::Chat, stream.as_bytes(), 3);
    }
}

#[test]
fn what_is_no_event_is_not_counted() {
    let cases = [
        (": comment\n\n", 1, 0),
        (":\n\n:\n\n", 2, 0),
        ("event: ping\n\n", 0, 0),
        ("data: [DONE]\n\n", 1, 0),
        ("data: [DONE]", 1, 0),
        ("data: {\"choices\":[", 0, 0),
        ("datum: {}\n\n", 0, 0),
        (" data: {}\n\n", 0, 0),
        ("data\n\n", 1, 1),
        ("data: not json\n\n", 1, 1),
        ("\u{feff}\u{feff}data: {}\n\n", 0, 0),
    ];
    for (stream, complete, events) in cases {
        let observer = chat(stream);
        assert_eq!((observer.complete(), observer.events()), (complete, events), "{stream:?}");
        assert_eq!(observer.content_events(), 0);
        every_split(StreamKind::Chat, stream.as_bytes(), 3);
    }
}

#[test]
fn the_end_is_each_kind_s_own() {
    use StreamKind::{Chat, Completions, Messages, Other, Responses};
    let cases: &[(&str, &[StreamKind])] = &[
        ("data: [DONE]\n\n", &[Chat, Completions, Other]),
        ("data:[DONE]\r\n\r\n", &[Chat, Completions, Other]),
        ("data: [DONE] \n\n", &[Chat, Completions, Other]),
        ("data: \"[DONE]\"\n\n", &[]),
        ("data: [DONE]x\n\n", &[]),
        (": [DONE]\n\n", &[]),
        ("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", &[Messages]),
        ("data: {\"type\":\"message_stop\"}\n\n", &[Messages]),
        ("event: message_stop\ndata: {}\n\n", &[Messages]),
        ("data: {\"type\":\"response.completed\"}\n\n", &[Responses]),
        ("data: {\"type\":\"response.incomplete\"}\n\n", &[Responses]),
        ("data: {\"type\":\"response.failed\"}\n\n", &[Responses]),
        ("data: {\"type\":\"response.created\"}\n\n", &[]),
        ("data: {\"x\":{\"type\":\"message_stop\"}}\n\n", &[]),
    ];
    for (stream, ended) in cases {
        for kind in [Chat, Completions, Messages, Responses, Other] {
            assert_eq!(
                read(kind, false, stream.as_bytes()).0.ended(),
                ended.contains(&kind),
                "{kind:?} {stream}"
            );
        }
    }
}

#[test]
fn errors_are_told_in_every_dialect() {
    use StreamKind::{Chat, Messages, Responses};
    let cases = [
        (
            Chat,
            r#"data: {"error":{"message":"boom","type":"InternalServerError","code":500}}"#,
            500,
            "InternalServerError",
        ),
        (Chat, r#"data: {"error":{"type":"x","code":"429"}}"#, 429, "x"),
        (Chat, r#"data: {"error":{"code":"rate_limited"}}"#, 500, "rate_limited"),
        (Chat, r#"data: {"error":{"code":7,"type":null}}"#, 500, "error"),
        (Chat, r#"data: {"error":"boom"}"#, 500, "error"),
        (
            Chat,
            r#"data: {"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}"#,
            400,
            "BadRequestError",
        ),
        (Chat, "event: error\ndata: {\"message\":\"x\"}", 500, "error"),
        (Chat, "event: error\ndata: plain words", 500, "error"),
        (Messages, r#"data: {"type":"error","error":{"type":"overloaded_error"}}"#, 529, "overloaded_error"),
        (Messages, r#"data: {"error":{"type":"rate_limit_error"},"type":"error"}"#, 429, "rate_limit_error"),
        (Messages, r#"data: {"type":"error","error":{"type":"new_error"}}"#, 500, "new_error"),
        (Responses, r#"data: {"type":"error","code":"server_error","message":"m"}"#, 500, "error"),
        (
            Responses,
            r#"data: {"type":"response.failed","response":{"error":{"code":"server_error"}}}"#,
            500,
            "server_error",
        ),
        (Responses, r#"data: {"type":"response.failed","response":{}}"#, 500, "error"),
    ];
    for (kind, event, code, name) in cases {
        let stream = format!("{event}\n\ndata: {{\"error\":{{\"code\":599}}}}\n\n");
        let (observer, _) = read(kind, false, stream.as_bytes());
        assert_eq!(observer.error(), Some(&StreamError { code, kind: name.into() }), "{event}");
        every_split(kind, stream.as_bytes(), 5);
    }
    let none = [
        r#"{"error":null}"#,
        r#"{"error":""}"#,
        r#"{"choices":[{"error":{"code":500}}]}"#,
        r#"{"code":500}"#,
    ];
    for data in none {
        assert_eq!(chat(&format!("data: {data}\n\n")).error(), None, "{data}");
    }
}

#[test]
fn the_kind_of_an_error_is_printable_and_short() {
    let long = format!("a\\u0007\\n\u{e9}{}", "b".repeat(200));
    let observer = chat(&format!("data: {{\"error\":{{\"type\":\"{long}\"}}}}\n\n"));
    let kind = &observer.error().unwrap().kind;
    assert!(kind.starts_with("ab") && kind.len() <= 64 && kind.bytes().all(|byte| byte.is_ascii_graphic()));
}

#[test]
fn a_finish_reason_is_the_last_seen_but_an_abort_stays() {
    let reasons = |reasons: &[&str]| {
        let events = reasons
            .iter()
            .map(|reason| format!("data: {{\"choices\":[{{\"finish_reason\":{reason}}}]}}\n\n"));
        chat(&events.collect::<String>()).finish_reason().map(str::to_owned)
    };
    assert_eq!(reasons(&["null", "null"]), None);
    assert_eq!(reasons(&["null", r#""stop""#, "null"]).as_deref(), Some("stop"));
    assert_eq!(reasons(&[r#""stop""#, r#""length""#]).as_deref(), Some("length"));
    assert_eq!(reasons(&[r#""abort""#, r#""stop""#]).as_deref(), Some("abort"));
    assert_eq!(reasons(&[r#""unheard_of""#]).as_deref(), Some("unheard_of"));
    assert_eq!(reasons(&[r#""stop"},{"finish_reason":"abort""#]).as_deref(), Some("abort"));
}

#[test]
fn odd_usage_numbers_are_left_out() {
    let cases = [
        ("{}", None),
        ("null", None),
        (r#"{"prompt_tokens":"3"}"#, None),
        (r#"{"prompt_tokens":-3,"completion_tokens":2}"#, usage(0, None, 2, None)),
        (r#"{"prompt_tokens":3.0,"completion_tokens":2.5}"#, usage(3, None, 0, None)),
        (r#"{"prompt_tokens":1e999,"completion_tokens":99999999999999999999999}"#, None),
        (
            r#"{"input_tokens":18446744073709551615,"cache_read_input_tokens":5}"#,
            usage(u64::MAX, Some(5), 0, None),
        ),
        (r#"{"prompt_tokens":3,"prompt_tokens_details":null}"#, usage(3, None, 0, None)),
        (
            r#"{"completion_tokens_details":{"reasoning_tokens":2},"completion_tokens":4}"#,
            usage(0, None, 4, Some(2)),
        ),
        (r#"{"x":{"prompt_tokens":9},"prompt_tokens":[1],"completion_tokens":1}"#, usage(0, None, 1, None)),
    ];
    for (value, expected) in cases {
        let stream = format!("data: {{\"choices\":[],\"usage\":{value}}}\n\n");
        assert_eq!(chat(&stream).usage(), expected, "{value}");
        every_split(StreamKind::Chat, stream.as_bytes(), 1);
    }
}

#[test]
fn only_the_usage_only_event_is_taken_out() {
    let kept = [
        r#"{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[],"usage":null}"#,
        r#"{"choices":[],"prompt_filter_results":[]}"#,
        r#"{"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1},"error":{"code":500}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1}"#,
        r#"{"choices":null,"usage":{"prompt_tokens":1}}"#,
    ];
    let out = r#"{"usage":{"prompt_tokens":1},"choices":[ ],"model":"m"}"#;
    for (end, data) in [("\n", "data: "), ("\r\n", "data:"), ("\r", "data: ")] {
        for event in kept {
            let stream = format!("{data}{event}{end}{end}{data}[DONE]{end}{end}");
            assert_eq!(read(StreamKind::Chat, true, stream.as_bytes()).1, stream.as_bytes());
        }
        let before = format!("{data}{{\"choices\":[{{}}]}}{end}{end}");
        let stream = format!("{before}{data}{out}{end}{end}{data}[DONE]{end}{end}");
        let (observer, passed) = read(StreamKind::Chat, true, stream.as_bytes());
        assert_eq!(String::from_utf8_lossy(&passed), format!("{before}{data}[DONE]{end}{end}"));
        assert_eq!((observer.usage(), observer.events()), (usage(1, None, 0, None), 2));
        every_split(StreamKind::Chat, stream.as_bytes(), 9);
        for kind in [StreamKind::Messages, StreamKind::Responses, StreamKind::Other] {
            assert_eq!(read(kind, true, stream.as_bytes()).1, stream.as_bytes());
        }
    }
}

#[test]
fn no_more_than_the_limit_is_held_back() {
    for (len, hidden) in [(HOLD_LIMIT - 1, true), (HOLD_LIMIT, true), (HOLD_LIMIT + 1, false)] {
        let frame = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"x\":\"\"}\n\n".len();
        let padding = "x".repeat(len - frame);
        let stream =
            format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":1}},\"x\":\"{padding}\"}}\n\n");
        let (observer, passed) = read(StreamKind::Chat, true, stream.as_bytes());
        assert_eq!(passed.is_empty(), hidden, "{len}");
        assert_eq!(observer.usage(), usage(1, None, 0, None));
        every_split(StreamKind::Chat, stream.as_bytes(), 9);
    }
    let mut observer = Observer::new(StreamKind::Chat, true);
    let mut passed = 0;
    for part in 0..64 {
        let pass = observer.feed(&mut [b'd'; 1000]);
        passed += pass.held.len() + pass.keep;
        assert!((part + 1) * 1000 - passed < HOLD_LIMIT);
        assert_eq!(observer.at_boundary(), passed == 0);
    }
}

#[test]
fn a_partial_event_passed_on_is_no_boundary() {
    let mut observer = Observer::new(StreamKind::Chat, false);
    assert!(observer.at_boundary());
    for (part, boundary) in
        [("data: {}", false), ("\n", false), ("\n", true), (": c", false), ("\r\n\r", true), ("\n", true)]
    {
        observer.feed(&mut part.as_bytes().to_vec());
        assert_eq!(observer.at_boundary(), boundary, "{part:?}");
    }
}

#[test]
fn the_id_of_a_response_is_that_of_the_first_event_that_holds_one() {
    let stream = concat!(
        "event: response.note\ndata: {\"id\":\"e1\",\"type\":\"response.note\"}\n\n",
        "event: response.created\ndata: {\"response\":{\"output\":[{\"id\":\"msg_1\"}],\"id\":\"resp_1\"}}\n\n",
        "event: response.completed\ndata: {\"response\":{\"id\":\"resp_2\"}}\n\n",
    );
    for (kind, id) in [(StreamKind::Responses, Some("resp_1")), (StreamKind::Chat, None)] {
        let (observer, passed) = read(kind, false, stream.as_bytes());
        assert_eq!((observer.response_id(), passed.as_slice()), (id, stream.as_bytes()), "{kind:?}");
    }
}
