//! Field cases about streams, as far as the observer decides them.

use super::super::{StreamKind, Uncounted};
use super::{chat, every_split, read, usage};

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#;
const CONTENT: &str =
    "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\u{4e2d} \u{1f600}\"},\"finish_reason\":null}]}";
const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#;

fn stream(before: &str, data: &str, end: &str) -> String {
    let events = [ROLE, CONTENT, FINISH, USAGE, "[DONE]"];
    events.iter().map(|event| format!("{before}{data}{event}{end}{end}")).collect()
}

#[test]
fn a_13_an_event_cut_at_every_byte_says_the_same() {
    let stream = stream("", "data: ", "\n");
    let (observer, _) = read(StreamKind::Chat, false, stream.as_bytes());
    assert_eq!((observer.content_events(), observer.events()), (1, 4));
    assert_eq!(observer.usage(), usage(7, None, 2, None));
    every_split(StreamKind::Chat, stream.as_bytes(), 1);
    let (_, passed) = read(StreamKind::Chat, true, stream.as_bytes());
    assert_eq!(String::from_utf8(passed).unwrap(), stream.replace(&format!("data: {USAGE}\n\n"), ""));
}

#[test]
fn a_14_line_ends_and_the_blank_behind_data_make_no_difference() {
    let mixed: String = [("\n", "data: "), ("\r\n", "data:"), ("\r", "data: "), ("\r\n", "data: ")]
        .iter()
        .zip([ROLE, CONTENT, FINISH, USAGE])
        .map(|((end, data), event)| format!("{data}{event}{end}{end}"))
        .collect();
    for stream in [stream("", "data: ", "\r\n"), stream("", "data:", "\n"), stream("", "data:", "\r"), mixed]
    {
        let observer = chat(&stream);
        assert_eq!((observer.events(), observer.content_events()), (4, 1), "{stream:?}");
        assert_eq!((observer.usage(), observer.finish_reason()), (usage(7, None, 2, None), Some("stop")));
        every_split(StreamKind::Chat, stream.as_bytes(), 2);
    }
}

#[test]
fn a_15_comments_release_the_head_and_are_no_events() {
    let stream = ": wait\n\n".repeat(20);
    for hide in [false, true] {
        let (observer, passed) = read(StreamKind::Chat, hide, stream.as_bytes());
        assert_eq!(passed, stream.as_bytes());
        assert_eq!((observer.complete(), observer.events(), observer.content_events()), (20, 0, 0));
    }
    let long = format!(": {}\n\n", "w".repeat(2 * super::HOLD_LIMIT));
    assert_eq!(read(StreamKind::Chat, true, long.as_bytes()).1, long.as_bytes());
    every_split(StreamKind::Chat, self::stream(": PROCESSING\n\n", "data: ", "\n").as_bytes(), 3);
}

#[test]
fn a_16_one_very_large_event_passes_and_usage_is_read() {
    for size in [(64 << 10) + 1, (1 << 20) + 1, 4 << 20] {
        let arguments = r#"{\"a\":1}, "#.repeat(size / 11);
        let call = format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"function":{{"arguments":"{arguments}"}}}}]}}}}]"#
        );
        let total = r#""usage":{"prompt_tokens":7,"completion_tokens":2}"#;
        // Usage in an event of its own, and as a running total in the large one.
        for events in [format!("data: {call}}}\n\ndata: {USAGE}\n\n"), format!("data: {call},{total}}}\n\n")]
        {
            let stream = format!("{events}data: [DONE]\n\n");
            for hide in [false, true] {
                let mut observer = super::Observer::new(StreamKind::Chat, hide);
                let mut passed = Vec::new();
                let mut held_most = 0;
                for part in stream.as_bytes().chunks(16 << 10) {
                    let mut part = part.to_vec();
                    let pass = observer.feed(&mut part);
                    passed.extend(pass.held);
                    passed.extend(&part[..pass.keep]);
                    held_most =
                        held_most.max(observer.open.as_ref().map_or(0, |event| event.held.capacity()));
                }
                let expected =
                    if hide { stream.replace(&format!("data: {USAGE}\n\n"), "") } else { stream.clone() };
                assert!(passed == expected.as_bytes(), "{size} {hide}");
                assert!(held_most <= 2 * super::HOLD_LIMIT);
                assert_eq!((observer.usage(), observer.content_events()), (usage(7, None, 2, None), 1));
                assert!(observer.ended() && observer.open.is_none());
            }
        }
    }
}

#[test]
fn a_19_an_error_inside_a_stream_is_told_with_its_code() {
    let error = r#"data: {"error":{"message":"boom","type":"InternalServerError","code":500}}"#;
    for before in [format!("data: {CONTENT}\n\ndata: {CONTENT}\n\n"), String::new()] {
        let stream = format!("{before}{error}\n\ndata: [DONE]\n\n");
        let observer = chat(&stream);
        let told = observer.error().map(|error| (error.code, error.kind.as_str()));
        assert_eq!(told, Some((500, "InternalServerError")));
        assert!(observer.ended());
        assert_eq!(observer.content_events(), if before.is_empty() { 0 } else { 2 });
        every_split(StreamKind::Chat, stream.as_bytes(), 4);
    }
}

#[test]
fn a_25_running_totals_are_not_summed() {
    let chunk = |n: u64| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}}}}],\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":{n}}}}}\n\n",
            if n == 1 { 0 } else { 7 }
        )
    };
    let chunks: String = (1..=200).map(chunk).collect();
    let last = r#"data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":200}}"#;
    let observer = chat(&format!("{chunks}{last}\n\ndata: [DONE]\n\n"));
    assert_eq!(observer.usage(), usage(7, None, 200, None));
    assert_eq!(observer.content_events(), 200);
    assert_eq!(chat(&chunks).usage(), usage(7, None, 200, None));
}

#[test]
fn a_29_the_first_generated_payload_stops_the_clock() {
    let delta = |delta: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let silent = [
        ": ping\n\n".to_owned(),
        format!("data: {ROLE}\n\n"),
        delta(r#"{"role":"assistant","content":null,"reasoning_content":null}"#),
        delta(r#"{"role":"assistant","content":"","tool_calls":[],"refusal":""}"#),
        delta("{}"),
        format!("data: {FINISH}\n\n"),
        format!("data: {USAGE}\n\n"),
        "data: {\"content\":\"x\",\"text\":\"x\"}\n\n".to_owned(),
    ];
    let speaking = [
        delta(r#"{"content":"x"}"#),
        delta(r#"{"role":"assistant","content":" "}"#),
        delta(r#"{"content":"","reasoning_content":"hm"}"#),
        delta(r#"{"reasoning":"hm"}"#),
        delta(r#"{"content":null,"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#),
        delta(r#"{"function_call":{"name":"f"}}"#),
        delta(r#"{"refusal":"no"}"#),
        delta(r#"{"audio":{"data":"AA"}}"#),
        "data: {\"choices\":[{\"text\":\"x\"}]}\n\n".to_owned(),
    ];
    for event in &speaking {
        let mut observer = super::Observer::new(StreamKind::Chat, false);
        for quiet in &silent {
            assert!(!observer.feed(&mut quiet.clone().into_bytes()).first_content, "{quiet}");
        }
        let (front, back) = event.split_at(event.len() - 1);
        assert!(!observer.feed(&mut front.as_bytes().to_vec()).first_content, "{event}");
        assert!(observer.feed(&mut back.as_bytes().to_vec()).first_content, "{event}");
        assert!(!observer.feed(&mut event.clone().into_bytes()).first_content, "only once");
        assert_eq!(observer.content_events(), 2);
    }
}

/// The text of every dialect, and nothing around it; what a usage has counted is counted.
#[test]
fn a_27_the_text_that_was_seen_has_a_length_in_every_dialect() {
    use StreamKind::{Chat, Completions, Messages, Other, Responses};
    let chat = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let call = |call: &str| chat(&format!(r#"{{"tool_calls":[{{"index":0,"type":"function",{call}}}]}}"#));
    let delta = |delta: &str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
    let of = |kind: &str| format!(r#"{{"type":"response.{kind}","item_id":"i","delta":"abcdefgh"}}"#);
    let cases: &[(StreamKind, String, u32, u32)] = &[
        (Chat, chat(r#"{"role":"assistant","content":""}"#), 0, 0),
        (Chat, chat(r#"{"content":"abcd"}"#), 1, 4),
        (Chat, chat(r#"{"content":"a\"b\u4e2d"}"#), 1, 10),
        (Chat, chat(r#"{"content":"abcd","reasoning_content":"ef"}"#), 1, 6),
        (Chat, chat(r#"{"reasoning":"abc","refusal":"de"}"#), 1, 5),
        (Chat, call(r#""id":"call_0123456789","function":{"name":"get","arguments":""}"#), 1, 3),
        (Chat, call(r#""function":{"arguments":"{\"x\":1}"}"#), 1, 9),
        (Chat, call(r#""custom":{"name":"get","input":"abc"}"#), 1, 6),
        (
            Chat,
            chat(r#"{"tool_calls":[{"function":{"arguments":"ab"}},{"function":{"arguments":"cd"}}]}"#),
            1,
            4,
        ),
        (Chat, chat(r#"{"tool_calls":[]}"#), 0, 0),
        (Chat, chat(r#"{"function_call":{"name":"f","arguments":"abc"}}"#), 1, 4),
        (Chat, chat(r#"{"audio":{"data":"AAAAAAAA"}}"#), 1, 0),
        (
            Completions,
            r#"{"choices":[{"text":"ab","logprobs":{"tokens":["ab"]}},{"text":"c"}]}"#.into(),
            1,
            3,
        ),
        (Messages, delta(r#"{"type":"text_delta","text":"abc"}"#), 1, 3),
        (Messages, delta(r#"{"type":"thinking_delta","thinking":"abcd"}"#), 1, 4),
        (Messages, delta(r#"{"type":"input_json_delta","partial_json":"{\"a\":"}"#), 1, 7),
        (Messages, delta(r#"{"type":"signature_delta","signature":"abcd"}"#), 0, 0),
        (Responses, of("output_text.delta"), 1, 8),
        (Responses, of("reasoning_text.delta"), 1, 8),
        (Responses, of("function_call_arguments.delta"), 1, 8),
        (Responses, of("audio.delta"), 1, 0),
        (Responses, of("output_text.done"), 0, 0),
        (Other, chat(r#"{"content":"abcd"}"#), 1, 4),
    ];
    for (kind, event, events, bytes) in cases {
        let stream = format!("data: {event}\n\n").repeat(2);
        let (mut observer, _) = read(*kind, false, stream.as_bytes());
        assert_eq!(observer.uncounted(), Uncounted { events: 2 * events, bytes: 2 * bytes }, "{event}");
        every_split(*kind, stream.as_bytes(), 5);
        let usage = r#"{"choices":[{"delta":{"content":"ab"}}],"usage":{"completion_tokens":2}}"#;
        observer.feed(&mut format!("data: {usage}\n\n").into_bytes());
        assert_eq!(observer.uncounted(), Uncounted::default(), "an event is counted by its own usage");
        let prompt = r#"{"choices":[],"usage":{"prompt_tokens":2}}"#;
        observer.feed(&mut format!("data: {event}\n\ndata: {prompt}\n\n").into_bytes());
        assert_eq!(
            observer.uncounted(),
            Uncounted { events: *events, bytes: *bytes },
            "none counted {event}"
        );
    }
}
