//! `peek` against a plain walk over a parsed tree, on random bodies.

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::super::{MAX_SPANS, Shape, peek};
use super::{model, texts};

const SHAPES: &[Shape] = &[Shape::Chat, Shape::Completions, Shape::Messages, Shape::Responses, Shape::Other];
const SESSION: &[&str] = &["conversation_id", "thread"];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("a\"b\\c\n".to_owned()), "[a-z{}\\[\\]:, ]{0,40}", any::<String>()]
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u32>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        word().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((name(), inner), 0..5)
                .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "model",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "n",
        "conversation_id",
        "thread",
        "messages",
        "prompt",
        "input",
        "system",
        "instructions",
        "query",
        "documents",
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "include_usage",
        "output",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => word()]
}

fn part() -> impl Strategy<Value = Json> {
    prop_oneof![
        word().prop_map(|text| json!({"type": "text", "text": text})),
        word().prop_map(|text| json!({"text": text, "type": "input_text", "x": [text]})),
        word().prop_map(|text| json!({"type": "image_url", "image_url": {"url": text}})),
        prop::collection::vec(word(), 0..3)
            .prop_map(|texts| json!({"type": "tool_result", "content": texts})),
        word().prop_map(Json::from),
        any_json(),
    ]
}

fn turns() -> impl Strategy<Value = Json> {
    let role = prop::sample::select(vec!["system", "developer", "user", "assistant", "tool"]);
    let content =
        prop_oneof![word().prop_map(Json::from), prop::collection::vec(part(), 0..4).prop_map(Json::from)];
    let turn = prop_oneof![
        4 => (role, content).prop_map(|(role, content)| json!({"content": content, "role": role})),
        1 => word().prop_map(|output| json!({"type": "function_call_output", "output": output})),
        1 => any_json(),
    ];
    prop::collection::vec(turn, 0..6).prop_map(Json::from)
}

fn body() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        3 => (name(), any_json()),
        1 => (prop::sample::select(vec!["messages", "input"]).prop_map(str::to_owned), turns()),
        1 => (prop::sample::select(vec!["system", "instructions", "prompt", "input"]).prop_map(str::to_owned),
              prop::collection::vec(part(), 0..4).prop_map(Json::from)),
        1 => (Just("model".to_owned()), word().prop_map(Json::from)),
    ];
    (prop::collection::vec(member, 0..9), any::<bool>()).prop_map(|(members, pretty)| {
        // A map keeps one of each name, in an order of its own.
        let object = Json::Object(members.into_iter().collect::<Map<_, _>>());
        let text =
            if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        text.unwrap()
    })
}

/// What the tree says about the turns and texts.
#[derive(Default)]
struct Expected {
    system: Vec<String>,
    first_user: Option<Vec<String>>,
    begun: bool,
    assistant: bool,
    bytes: u64,
    ids: u64,
    media: u32,
}

/// An image is among the members.
fn shows(object: &Map<String, Json>) -> bool {
    object.get("image_url").is_some_and(|image| !image.is_null())
}

fn raw_len(text: &str) -> u64 {
    serde_json::to_string(text).unwrap().len() as u64 - 2
}

impl Expected {
    fn text(&mut self, text: &str, into: &mut Vec<String>) {
        self.bytes += raw_len(text);
        if !text.is_empty() {
            into.push(text.to_owned());
        }
    }

    fn content(&mut self, content: &Json, into: &mut Vec<String>, nested: bool) {
        match content {
            Json::String(text) => self.text(text, into),
            Json::Array(parts) => parts.iter().for_each(|part| match part {
                Json::String(text) => self.text(text, into),
                Json::Object(part) => self.part(part, into, nested),
                _ => {}
            }),
            _ => {}
        }
    }

    fn part(&mut self, part: &Map<String, Json>, into: &mut Vec<String>, nested: bool) {
        if let Some(content) = part.get("content").filter(|_| nested) {
            self.content(content, into, false);
        }
        if part.get("type").is_some_and(|kind| kind == "image_url") || shows(part) {
            self.media += 1;
        } else if let Some(Json::String(text)) = part.get("text") {
            self.text(text, into);
        }
    }

    fn turns(&mut self, turns: &Json, responses: bool) {
        if let (Json::String(text), true) = (turns, responses) {
            let mut into = Vec::new();
            self.text(text, &mut into);
            self.first_user.get_or_insert(into);
        }
        for turn in turns.as_array().into_iter().flatten().filter_map(Json::as_object) {
            let mut into = Vec::new();
            for (name, value) in turn {
                if name == "content" || responses && name == "output" {
                    self.content(value, &mut into, true);
                }
                if let (true, Json::Object(part)) = (responses && name == "output", value) {
                    let mut beside = Self::default();
                    beside.part(part, &mut Vec::new(), false);
                    self.media += beside.media;
                }
            }
            self.media += u32::from(shows(turn));
            self.assistant |=
                responses && turn.get("type").is_some_and(|kind| kind == "function_call_output");
            match turn.get("role").and_then(Json::as_str) {
                Some("system" | "developer") if !self.begun => self.system.append(&mut into),
                Some("system" | "developer") => {}
                role => {
                    self.begun = true;
                    self.assistant |= role == Some("assistant");
                    if role == Some("user") {
                        self.first_user.get_or_insert(into);
                    }
                }
            }
        }
    }

    fn texts(&mut self, value: &Json) {
        let elements = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for element in elements {
            self.bytes += match element {
                Json::String(text) => raw_len(text),
                Json::Number(number) if !number.to_string().starts_with('-') => {
                    self.ids += 1;
                    0
                }
                Json::Object(object) => {
                    let mut beside = Self::default();
                    beside.content(object.get("content").unwrap_or(&Json::Null), &mut Vec::new(), true);
                    self.media += u32::from(shows(object)) + beside.media;
                    object.get("text").and_then(Json::as_str).map_or(0, raw_len)
                }
                Json::Array(_) => {
                    let text = element.to_string();
                    let ids =
                        text.matches(',').count() + usize::from(text.contains(|c: char| c.is_ascii_digit()));
                    self.ids += ids as u64;
                    0
                }
                _ => 0,
            };
        }
    }

    fn of(object: &Map<String, Json>, shape: Shape) -> Self {
        let mut expected = Self::default();
        let mut instructions = Vec::new();
        for (name, value) in object {
            match (name.as_str(), shape) {
                ("messages", Shape::Chat | Shape::Messages | Shape::Other) => expected.turns(value, false),
                ("input", Shape::Responses) => expected.turns(value, true),
                ("system", Shape::Messages) | ("instructions", Shape::Responses) => {
                    expected.content(value, &mut instructions, true);
                }
                ("prompt", Shape::Completions | Shape::Other)
                | ("input" | "query" | "documents" | "content", Shape::Other) => expected.texts(value),
                _ => {}
            }
        }
        instructions.append(&mut expected.system);
        expected.system = instructions;
        expected
    }
}

/// A maximum as an engine may take it: rounded up, and what fits no count is the largest.
fn count(value: Option<&Json>) -> Option<u64> {
    let written = match value? {
        Json::Number(number) => number.to_string(),
        Json::String(text) => {
            let text = text.trim();
            text.strip_prefix('+').unwrap_or(text).replace('_', "")
        }
        _ => return None,
    };
    let number: f64 = written.parse().ok().filter(|_| written.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(written.parse().unwrap_or(number.ceil() as u64))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn peek_agrees_with_a_parsed_tree(body in body(), shape in prop::sample::select(SHAPES)) {
        let tree: Json = serde_json::from_str(&body).unwrap();
        let object = tree.as_object().unwrap();
        let peek = peek(body.as_bytes(), shape, SESSION).unwrap();

        prop_assert_eq!(model(&body, &peek), object.get("model").and_then(Json::as_str).map(str::to_owned));
        prop_assert_eq!(peek.model.is_some(), object.contains_key("model"));
        prop_assert_eq!(peek.stream, object.get("stream") == Some(&Json::Bool(true)));
        let newer = if shape == Shape::Responses { "max_output_tokens" } else { "max_completion_tokens" };
        let limit = count(object.get(newer)).or_else(|| count(object.get("max_tokens")));
        prop_assert_eq!(peek.max_tokens, limit);
        prop_assert_eq!(peek.n, count(object.get("n")));

        let sessions: Vec<_> = peek.session.iter().map(|(i, span)| (*i, super::text(body.as_bytes(), span))).collect();
        let mut expected_sessions = Vec::new();
        for (name, value) in object {
            if let (Some(i), Some(text)) = (SESSION.iter().position(|wanted| wanted == name), value.as_str())
                && !text.trim().is_empty()
            {
                expected_sessions.push((i, text.to_owned()));
            }
        }
        prop_assert_eq!(sessions, expected_sessions);

        let options = object.get("stream_options");
        prop_assert_eq!(peek.stream_options.as_ref().map(|o| o.object), options.map(Json::is_object));
        let expected = Expected::of(object, shape);
        prop_assert_eq!((peek.text_bytes, peek.token_ids), (expected.bytes, expected.ids));
        prop_assert_eq!(peek.media_parts, expected.media);
        prop_assert_eq!(peek.has_assistant_turn, expected.assistant);
        prop_assert!(expected.system.len() < MAX_SPANS);
        prop_assert_eq!(texts(&body, &peek.system), expected.system);
        prop_assert_eq!(texts(&body, &peek.first_user), expected.first_user.unwrap_or_default());
    }

    #[test]
    fn what_another_reader_accepts_is_accepted(mut body in body().prop_map(String::into_bytes),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)) {
        for (at, byte) in edits {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let accepted = serde_json::from_slice::<Map<String, Json>>(&body).is_ok();
        let doubled = |result: &Result<_, _>| matches!(result, Err(super::PeekError::Doubled { .. }));
        let result = peek(&body, Shape::Chat, SESSION);
        prop_assert!(!accepted || result.is_ok() || doubled(&result), "{:?}", result);
    }
}
