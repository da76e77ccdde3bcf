//! The same questions answered the slow way, byte by byte and with room for everything.

use crate::{Span, unescape};

pub(super) struct Member {
    pub(super) name: String,
    pub(super) value: Span,
}

/// The members of the body, if it is an object as far as its own level goes.
pub(super) fn members(body: &[u8]) -> Option<Vec<Member>> {
    let mut at = if body.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut members = Vec::new();
    take(body, &mut at, b'{')?;
    if take(body, &mut at, b'}').is_none() {
        loop {
            space(body, &mut at);
            let name = string(body, at)?;
            at = name.end;
            take(body, &mut at, b':')?;
            space(body, &mut at);
            let value = value(body, at)?;
            at = value.end;
            let mut text = String::new();
            unescape(body, &name, usize::MAX, &mut text);
            members.push(Member { name: text, value });
            if take(body, &mut at, b',').is_none() {
                break;
            }
        }
        take(body, &mut at, b'}')?;
    }
    space(body, &mut at);
    (at == body.len()).then_some(members)
}

fn space(body: &[u8], at: &mut usize) {
    while matches!(body.get(*at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        *at += 1;
    }
}

fn take(body: &[u8], at: &mut usize, byte: u8) -> Option<()> {
    space(body, at);
    (body.get(*at) == Some(&byte)).then(|| *at += 1)
}

fn string(body: &[u8], start: usize) -> Option<Span> {
    if body.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match body.get(at)? {
            b'"' => return Some(start..at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn value(body: &[u8], start: usize) -> Option<Span> {
    match body.get(start)? {
        b'"' => string(body, start),
        b'{' | b'[' => {
            let (mut depth, mut inside, mut escaped) = (0, false, false);
            for (at, byte) in body.iter().enumerate().skip(start) {
                match byte {
                    b'"' if !escaped => inside = !inside,
                    b'{' | b'[' if !inside => depth += 1,
                    b'}' | b']' if !inside => depth -= 1,
                    _ => {}
                }
                escaped = *byte == b'\\' && !escaped;
                if depth == 0 {
                    return Some(start..at + 1);
                }
            }
            None
        }
        _ => {
            let end = start
                + body[start..]
                    .iter()
                    .take_while(|b| b"+-.".contains(b) || b.is_ascii_alphanumeric())
                    .count();
            (end > start).then_some(start..end)
        }
    }
}

/// Events with data that a blank line ends, and comment lines.
pub(super) fn events_and_comments(stream: &[u8]) -> (usize, usize) {
    let (mut events, mut comments, mut has_data) = (0, 0, false);
    for line in lines(stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream)) {
        let field = line.split(|byte| *byte == b':').next().unwrap_or_default();
        match line {
            [] => events += usize::from(std::mem::take(&mut has_data)),
            [b':', ..] => comments += 1,
            _ => has_data |= field == b"data",
        }
    }
    (events, comments)
}

/// The lines that have an end: LF, CR or both.
fn lines(stream: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(byte) = stream.get(at) {
        at += 1;
        if matches!(byte, b'\r' | b'\n') {
            lines.push(&stream[start..at - 1]);
            at += usize::from(*byte == b'\r' && stream.get(at) == Some(&b'\n'));
            start = at;
        }
    }
    lines
}

/// Whether `part` is `whole` with bytes left out.
pub(super) fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|byte| rest.any(|other| other == byte))
}
