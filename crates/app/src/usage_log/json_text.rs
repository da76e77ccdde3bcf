//! JSON strings appended to a byte buffer (RFC 8259 section 7).

/// Appends a word of our own as a quoted JSON string: nothing in it is to be escaped.
pub(super) fn append_word(out: &mut Vec<u8>, word: &'static str) {
    debug_assert!(!any_escaped(word.as_bytes()), "{word} is no plain word");
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

/// Bytes that may not stand for themselves inside a JSON string.
const fn escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether any byte of a text has to be escaped. Sixteen are looked at together, and the last sixteen once more instead of
/// a rest.
fn any_escaped(text: &[u8]) -> bool {
    // Without an early end, which makes it vector code.
    let any = |bytes: &[u8; 16]| bytes.iter().fold(false, |any, &byte| any | escaped(byte));
    let Some(last) = text.last_chunk() else { return text.iter().any(|&byte| escaped(byte)) };
    let (steps, _) = text.as_chunks();
    steps.iter().any(any) || any(last)
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `text` as a quoted JSON string. A `&str` is valid UTF-8, so no lone surrogate can occur.
pub(super) fn append_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    append_content(out, text);
    out.push(b'"');
}

/// Appends `text` escaped, without quotes: a part of a JSON string.
pub(super) fn append_content(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    // Nearly always.
    if !any_escaped(rest) {
        return out.extend_from_slice(rest);
    }
    while let Some(at) = rest.iter().position(|&b| escaped(b)) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, after)) = tail.split_first() else { break };
        append_escape(out, byte);
        rest = after;
    }
    out.extend_from_slice(rest);
}

fn append_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
            return;
        }
    };
    out.extend([b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(text: &str) -> String {
        let mut out = Vec::new();
        append_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_escaped_as_rfc_8259_asks() {
        for (text, json) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\r\t\u{8}\u{c}", r#""\n\r\t\b\f""#),
            ("\u{0}\u{1f}\u{7f}", "\"\\u0000\\u001f\u{7f}\""),
            ("äöü 漢字 🦀 \u{2028}", "\"äöü 漢字 🦀 \u{2028}\""),
        ] {
            assert_eq!(encode(text), json);
        }
    }

    #[test]
    fn every_short_text_of_odd_bytes_is_read_back_by_an_independent_parser() {
        for first in 0..=0xff_u8 {
            for second in [0, b'"', b'\\', b'u', b'\n', 0x1f, b' ', 0xff] {
                let text: String = [char::from(first), char::from(second)].iter().collect();
                let back: String = serde_json::from_str(&encode(&text)).unwrap();
                assert_eq!(back, text);
            }
        }
    }
}
