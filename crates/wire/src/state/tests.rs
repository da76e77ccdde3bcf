use super::*;
use crate::peek::peek;

fn state(shape: Shape, body: &str, limit: usize) -> String {
    let peeked = peek(body.as_bytes(), shape, &[]).expect("a good body");
    conversation_state(body.as_bytes(), &peeked, shape, limit)
}

#[test]
fn each_dialect_gives_the_same_text() {
    let expected = "system: Be brief.\n\nuser: Hi\n\nassistant: Hello\n\nuser: Why?\nLook:";
    for (shape, body) in [
        (
            Shape::Chat,
            r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
            {"content":"Hello","role":"assistant"},{"role":"user","content":[{"type":"text","text":"Why?"},
            {"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"Look:"}]}],"model":"m"}"#,
        ),
        (
            Shape::Messages,
            r#"{"system":[{"type":"text","text":"Be "},{"type":"text","text":"brief."}],"messages":[
            {"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},
            {"role":"user","content":[{"type":"text","text":"Why?"},{"type":"text","text":"Look:"}]}]}"#,
        ),
        (
            Shape::Responses,
            r#"{"instructions":"Be brief.","input":[{"role":"user","content":"H\u0069"},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]},
            {"role":"user","content":[{"type":"input_text","text":"Why?"},{"type":"input_text","text":"Look:"}]}]}"#,
        ),
    ] {
        assert_eq!(state(shape, body, 4096), expected, "{shape:?}");
    }
}

#[test]
fn what_is_no_turn_of_user_or_assistant_is_named_for_what_it_is() {
    let chat = r#"{"messages":[{"role":"developer","content":"A"},{"role":"user","content":"B"},
        {"role":"system","content":"C"},{"role":"tool","content":"D"},{"content":"E"}]}"#;
    assert_eq!(state(Shape::Chat, chat, 4096), "system: A\n\nuser: B\n\nsystem: C\n\ntool: D\n\ntool: E");
    let one_text = r#"{"input":"Hi"}"#;
    assert_eq!(state(Shape::Responses, one_text, 4096), "user: Hi");
    let output = r#"{"input":[{"type":"function_call_output","output":"42"}]}"#;
    assert_eq!(state(Shape::Responses, output, 4096), "tool: 42");
}

#[test]
fn without_text_there_is_nothing() {
    for body in [r#"{"messages":[]}"#, r#"{"messages":[{"role":"user","content":""}]}"#, "{}"] {
        assert_eq!(state(Shape::Chat, body, 4096), "", "{body}");
    }
    let alone = r#"{"messages":[{"role":"system","content":"A"}]}"#;
    assert_eq!(state(Shape::Chat, alone, 4096), "system: A");
}

#[test]
fn a_long_talk_keeps_the_system_prompts_head_and_its_own_end() {
    let turn = |n: usize| format!(r#"{{"role":"user","content":"turn {n:04}"}}"#);
    let turns: Vec<String> = (0..1000).map(turn).collect();
    let system = "s".repeat(5000);
    let body = format!(r#"{{"messages":[{{"role":"system","content":"{system}"}},{}]}}"#, turns.join(","));
    let text = state(Shape::Chat, &body, 400);
    assert_eq!(text.len(), 400);
    assert!(text.starts_with(&format!("system: {}\n\n", "s".repeat(92))), "{text}");
    assert!(text.ends_with("user: turn 0998\n\nuser: turn 0999"), "{text}");
}

#[test]
fn the_end_of_one_huge_text_is_its_end_however_it_is_escaped() {
    for (piece, plain) in
        [("a", "a"), ("\\n", "\n"), ("\\u00e9", "é"), ("\\ud83d\\ude00", "😀"), ("語", "語")]
    {
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":"{}the end"}}]}}"#, piece.repeat(20_000));
        for limit in 100..120 {
            let text = state(Shape::Chat, &body, limit);
            let fits = (limit - "the end".len()) / plain.len();
            assert_eq!(text, plain.repeat(fits) + "the end", "{piece} in {limit}");
        }
    }
}

#[test]
fn it_is_never_longer_than_its_limit_and_never_cut_inside_a_character() {
    let body = r#"{"messages":[{"role":"system","content":"Größe 語"},{"role":"user","content":"\ud83d\ude00 é"},
        {"role":"assistant","content":["ß","\u00df"]},{"role":"user","content":"語語"}]}"#;
    let whole = state(Shape::Chat, body, 4096);
    for limit in 0..whole.len() + 8 {
        let text = state(Shape::Chat, body, limit);
        assert!(text.len() <= limit, "{text:?} in {limit}");
        assert!(!text.contains(char::REPLACEMENT_CHARACTER), "{text:?} in {limit}");
        let end = text.rsplit("\n\n").next().expect("a part");
        assert!(whole.ends_with(end) || whole.starts_with(end), "{text:?} in {limit}");
    }
}

#[test]
fn many_tiny_texts_are_bounded_by_their_number() {
    let body = format!(r#"{{"messages":[{{"role":"user","content":[{}"x"]}}]}}"#, r#""x","#.repeat(10_000));
    assert_eq!(state(Shape::Chat, &body, 1 << 20).matches('x').count(), 4096);
}
