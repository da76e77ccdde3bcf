use proptest::prelude::*;

use super::{blank, unescape};

fn text_of(json: &[u8], limit: usize) -> String {
    let mut out = String::new();
    unescape(json, &(0..json.len()), limit, &mut out);
    out
}

#[test]
fn escapes_decode_to_what_they_stand_for() {
    let cases: &[(&[u8], &str)] = &[
        (br#""""#, ""),
        (br#""plain""#, "plain"),
        (br#""a\nb\t\r\b\f\"\\\/""#, "a\nb\t\r\u{8}\u{c}\"\\/"),
        (br#""\u0041\u00e9\u4e2d""#, "A\u{e9}\u{4e2d}"),
        (br#""\ud83d\ude00""#, "\u{1f600}"),
        (br#""mod\u0065l""#, "model"),
        (br#""cut \ud83d here""#, "cut \u{fffd} here"),
        (br#""\ude00 first""#, "\u{fffd} first"),
        (br#""\ud83d\u0041""#, "\u{fffd}A"),
        (br#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
        (br#""\u00zz""#, "\u{fffd}00zz"),
        (br#""\u12""#, "\u{fffd}12"),
        (br#""\q""#, "\u{fffd}q"),
        (b"\"a\xffb\"", "a\u{fffd}b"),
        (b"\"\\\xe4\xb8\xad\"", "\u{fffd}\u{4e2d}"),
    ];
    for (json, text) in cases {
        assert_eq!(text_of(json, usize::MAX), *text, "{}", String::from_utf8_lossy(json));
    }
}

#[test]
fn text_is_cut_at_a_character_boundary() {
    assert_eq!(text_of("\"a\u{4e2d}b\"".as_bytes(), 3), "a");
    assert_eq!(text_of("\"a\u{4e2d}b\"".as_bytes(), 4), "a\u{4e2d}");
    assert_eq!(text_of(br#""a\u4e2db""#, 3), "a");
    assert_eq!(text_of(br#""a\u4e2db""#, 5), "a\u{4e2d}b");
    assert_eq!(text_of(br#""abc""#, 0), "");
}

#[test]
fn a_span_outside_of_the_body_is_empty_text() {
    for span in [0..9, 7..9, 2..2, 1..2] {
        let mut out = String::from("kept");
        unescape(b"\"a\"", &span, 10, &mut out);
        assert_eq!(out, "kept", "{span:?}");
    }
}

#[test]
fn blank_is_white_space_however_it_is_written() {
    for raw in ["", " ", r"\u0020", r"\n\t ", "\u{3000}", r"\u00a0"] {
        assert!(blank(raw.as_bytes()), "{raw:?}");
    }
    for raw in ["x", r" \u0041", r"\\", "\u{fffd}"] {
        assert!(!blank(raw.as_bytes()), "{raw:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_undoes_the_encoding_of_another_library(text in any::<String>(), limit in 0_usize..40) {
        let json = serde_json::to_vec(&text).unwrap();
        prop_assert_eq!(&text_of(&json, usize::MAX), &text);
        prop_assert_eq!(text_of(&json, limit), &text[..text.floor_char_boundary(limit)]);
    }

    #[test]
    fn a_limit_only_cuts(raw in prop::collection::vec(prop_oneof![Just(b'\\'), Just(b'u'), Just(b'd'), Just(b'8'),
        Just(b'0'), any::<u8>()], 0..80), limit in 0_usize..30) {
        let json = [b"\"", &raw[..], b"\""].concat();
        let whole = text_of(&json, usize::MAX);
        prop_assert_eq!(text_of(&json, limit), &whole[..whole.floor_char_boundary(limit)]);
    }
}
