use super::{conversation_key, prefix_key, session_key};
use crate::peek::{Peek, Shape, peek};

const LIMIT: usize = 4096;

fn read(body: &str) -> Peek {
    peek(body.as_bytes(), Shape::Chat, &[]).unwrap()
}

fn prefix(body: &str) -> Option<u64> {
    prefix_key(body.as_bytes(), &read(body), LIMIT, 1)
}

fn conversation(body: &str) -> Option<u64> {
    conversation_key(body.as_bytes(), &read(body), LIMIT, 1)
}

fn turns(system: &str, user: &str, more: &str) -> String {
    format!(
        r#"{{"messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"{user}"}}{more}]}}"#
    )
}

#[test]
fn the_same_system_text_gives_the_same_key_however_it_is_written() {
    let key = prefix(&turns("You are a caf\u{e9}.", "a", ""));
    assert!(key.is_some());
    for body in [
        turns(r"You are a caf\u00e9.", "other", ""),
        r#"{"x":1,"messages":[{"content":[{"type":"text","text":"You are "},{"type":"text","text":"a café."}],"role":"system"}]}"#.into(),
        r#"{"messages":[{"role":"developer","content":"You "},{"role":"system","content":"are a café."}]}"#.into(),
    ] {
        assert_eq!(prefix(&body), key, "{body}");
    }
    assert_ne!(prefix(&turns("You are a cafe.", "a", "")), key);
}

#[test]
fn no_key_is_the_hash_of_nothing() {
    for body in [
        r#"{"messages":[]}"#,
        r#"{"messages":[{"role":"system","content":""}]}"#,
        r#"{"messages":[{"role":"system","content":null},{"role":"user","content":[]}]}"#,
    ] {
        assert_eq!((prefix(body), conversation(body)), (None, None), "{body}");
    }
    assert_eq!(prefix(&turns("", "u", "")), None);
    assert!(conversation(&turns("", "u", "")).is_some());
    assert_eq!(conversation(&turns("s", "", "")), None);
    for blank in ["", " ", "\t\r\n", "\u{3000}"] {
        assert_eq!(session_key(blank.as_bytes(), 1), None);
    }
    assert!(session_key(b"\xff", 1).is_some());
}

#[test]
fn only_the_head_counts() {
    let head = "h".repeat(LIMIT);
    assert_eq!(
        prefix(&turns(&format!("{head}one"), "u", "")),
        prefix(&turns(&format!("{head}two"), "u", ""))
    );
    assert_eq!(prefix(&turns(&format!("{head}one"), "u", "")), prefix(&turns(&head, "u", "")));
    let short = "h".repeat(LIMIT - 1);
    assert_ne!(prefix(&turns(&format!("{short}1"), "u", "")), prefix(&turns(&format!("{short}2"), "u", "")));
    // The cut is at a character boundary: a character that does not fit is left out, and so is all behind it.
    assert_eq!(prefix(&turns(&format!("{short}\u{e9}x"), "u", "")), prefix(&turns(&short, "u", "")));
    let escaped = r"\u0068".repeat(LIMIT);
    assert_eq!(prefix(&turns(&escaped, "u", "")), prefix(&turns(&head, "u", "")));
}

#[test]
fn all_turns_of_a_talk_share_their_key() {
    let first = conversation(&turns("s", "u", ""));
    let later = r#",{"role":"assistant","content":"a"},{"role":"user","content":"more"},{"role":"system","content":"x"}"#;
    assert_eq!(conversation(&turns("s", "u", later)), first);
    assert_ne!(conversation(&turns("s", "v", later)), first);
    assert_ne!(conversation(&turns("t", "u", later)), first);
    assert_ne!(conversation(&turns("su", "", "")), first);
    assert_ne!(conversation(&turns("", "su", "")), conversation(&turns("s", "u", "")));
}

#[test]
fn salts_and_kinds_of_key_keep_apart() {
    let body = turns("s", "u", "");
    let peek = read(&body);
    let keys = [
        prefix_key(body.as_bytes(), &peek, LIMIT, 1),
        prefix_key(body.as_bytes(), &peek, LIMIT, 2),
        session_key(b"s", 1),
        session_key(b"s", 2),
        session_key(b"t", 1),
        conversation_key(body.as_bytes(), &peek, LIMIT, 1),
        conversation_key(body.as_bytes(), &peek, LIMIT, 2),
    ];
    for (i, key) in keys.iter().enumerate() {
        assert!(key.is_some() && !keys[..i].contains(key), "{i}");
    }
}
