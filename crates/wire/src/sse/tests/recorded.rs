//! Streams of real engines, and of the dialects as documented.

use super::super::StreamKind::{self, Chat, Completions, Messages, Responses};
use super::{every_split, read, usage};
use crate::usage::Usage;

macro_rules! stream {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/streams/", $name, ".sse"))
    };
}

struct Case {
    kind: StreamKind,
    stream: &'static [u8],
    events: u64,
    content_events: u64,
    usage: Option<Usage>,
    finish_reason: Option<&'static str>,
    error: Option<(u16, &'static str)>,
    ended: bool,
}

fn cases() -> Vec<Case> {
    let case = |kind, stream, events, content_events, usage, finish_reason, error, ended| Case {
        kind,
        stream,
        events,
        content_events,
        usage,
        finish_reason,
        error,
        ended,
    };
    vec![
        case(Chat, stream!("vllm-chat"), 5, 4, None, Some("length"), None, true),
        case(Chat, stream!("vllm-chat-usage"), 6, 4, usage(11, Some(0), 4, None), Some("length"), None, true),
        case(
            Chat,
            stream!("vllm-chat-continuous"),
            5,
            3,
            usage(11, Some(0), 3, None),
            Some("length"),
            None,
            true,
        ),
        case(
            Completions,
            stream!("vllm-completions-usage"),
            4,
            3,
            usage(2, Some(0), 3, None),
            Some("length"),
            None,
            true,
        ),
        case(Chat, stream!("llama-chat"), 6, 4, None, Some("length"), None, true),
        case(
            Chat,
            stream!("llama-chat-usage"),
            7,
            4,
            usage(25, Some(20), 4, None),
            Some("length"),
            None,
            true,
        ),
        case(Chat, stream!("vllm-overloaded"), 1, 0, None, None, Some((503, "Service Unavailable")), true),
        case(Chat, stream!("vllm-engine-death"), 3, 2, None, None, Some((500, "InternalServerError")), true),
        case(Chat, stream!("vllm-sigterm"), 2, 2, None, Some("abort"), None, true),
        case(
            Messages,
            stream!("messages"),
            11,
            3,
            usage(132, Some(100), 89, None),
            Some("tool_use"),
            None,
            true,
        ),
        case(
            Messages,
            stream!("messages-overloaded"),
            2,
            0,
            usage(25, None, 1, None),
            None,
            Some((529, "overloaded_error")),
            false,
        ),
        case(
            Responses,
            stream!("responses"),
            6,
            1,
            usage(37, Some(32), 11, Some(4)),
            Some("completed"),
            None,
            true,
        ),
        case(
            Responses,
            stream!("responses-failed"),
            2,
            0,
            None,
            Some("failed"),
            Some((500, "server_error")),
            true,
        ),
    ]
}

#[test]
fn recorded_streams_say_what_they_are_known_to_say() {
    for case in cases() {
        let name = String::from_utf8_lossy(&case.stream[..60]);
        let (observer, passed) = read(case.kind, false, case.stream);
        assert_eq!(passed, case.stream, "{name}");
        assert_eq!(
            (observer.events(), observer.content_events()),
            (case.events, case.content_events),
            "{name}"
        );
        assert_eq!(observer.usage(), case.usage, "{name}");
        assert_eq!(observer.finish_reason(), case.finish_reason, "{name}");
        assert_eq!(observer.error().map(|error| (error.code, error.kind.as_str())), case.error, "{name}");
        assert_eq!(observer.ended(), case.ended, "{name}");
    }
}

#[test]
fn recorded_streams_say_the_same_in_every_split() {
    for case in cases() {
        every_split(case.kind, case.stream, 11);
    }
}

#[test]
fn a_cut_stream_has_not_ended() {
    for case in cases().into_iter().filter(|case| case.ended) {
        // The last event, whatever of its line is there; its blank line may be missing.
        let last = case.stream.trim_ascii_end();
        let cut = memchr::memmem::rfind(last, b"\ndata:").map_or(0, |at| at + 1);
        for end in cut..last.len() {
            assert!(!read(case.kind, false, &case.stream[..end]).0.ended());
        }
        assert!(read(case.kind, false, last).0.ended());
    }
}
