use proptest::prelude::*;

use super::{InContainer, InString};

/// One byte at a time, the way the grammar says it.
fn plain_string_close(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A backslash outside a string is no JSON; it escapes a quote there too, which no valid body can tell.
fn plain_container_close(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut inside, mut escaped) = (1, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if !escaped => inside = !inside,
            b'{' | b'[' if !inside => depth += 1,
            b'}' | b']' if !inside => depth -= 1,
            _ => {}
        }
        escaped = byte == b'\\' && !escaped;
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

fn resumed(bytes: &[u8], cut: usize, mut close: impl FnMut(&[u8]) -> Option<usize>) -> Option<usize> {
    let (front, back) = bytes.split_at(cut);
    close(front).or_else(|| close(back).map(|end| end + cut))
}

fn dense() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        Just(b'\\'),
        Just(b'"'),
        Just(b'{'),
        Just(b'}'),
        Just(b'['),
        Just(b']'),
        Just(b'a'),
        any::<u8>()
    ];
    prop::collection::vec(byte, 0..200)
}

fn sparse() -> impl Strategy<Value = Vec<u8>> {
    let run = (prop::collection::vec(Just(b'x'), 0..90), prop::sample::select(&b"\\\\\\\"{}[]"[..]));
    prop::collection::vec(run, 0..12).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(mut run, end)| {
                run.push(end);
                run
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn a_string_closes_where_the_grammar_says(bytes in prop_oneof![dense(), sparse()], cut in 0_usize..300) {
        let cut = cut.min(bytes.len());
        let expected = plain_string_close(&bytes);
        let mut whole = InString::default();
        prop_assert_eq!(whole.close(&bytes), expected);
        let read = &bytes[..expected.unwrap_or(bytes.len())];
        prop_assert_eq!(whole.escaped, read.contains(&b'\\'));
        let mut parts = InString::default();
        prop_assert_eq!(resumed(&bytes, cut, |part| parts.close(part)), expected);
        prop_assert_eq!(parts.escaped, whole.escaped);
    }

    #[test]
    fn a_container_closes_where_the_grammar_says(bytes in prop_oneof![dense(), sparse()], cut in 0_usize..300) {
        let cut = cut.min(bytes.len());
        let expected = plain_container_close(&bytes);
        prop_assert_eq!(InContainer::new().close(&bytes), expected);
        let mut parts = InContainer::new();
        prop_assert_eq!(resumed(&bytes, cut, |part| parts.close(part)), expected);
    }
}

#[test]
fn a_run_of_backslashes_across_two_steps_keeps_its_parity() {
    for slashes in 0..140 {
        let mut bytes = vec![b'\\'; slashes];
        bytes.extend_from_slice(b"\"\"");
        let expected = if slashes % 2 == 0 { slashes + 1 } else { slashes + 2 };
        assert_eq!(InString::default().close(&bytes), Some(expected), "{slashes}");
    }
}

#[test]
fn a_quote_escaped_in_the_part_before_does_not_close() {
    let mut parts = InString::default();
    assert_eq!(parts.close(b"a\\"), None);
    assert_eq!(parts.close(b"\""), None);
    assert_eq!(parts.close(b"\""), Some(1));
}
