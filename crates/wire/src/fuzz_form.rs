//! What must hold for any form: the body of its fuzz target, and of the test that replays its corpus.

use crate::{Edits, FormError, Peek, Value, peek_form};

const SESSION_NAMES: &[&str] = &["user", "x"];

/// The first line of the data is the `Content-Type`, the rest the body. A form that is read has one model, and three
/// readers that split it in other ways find the same one.
pub fn multipart(data: &[u8]) {
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (content_type, body) = (&data[..line], data.get(line + 1..).unwrap_or_default());
    let peek = match peek_form(content_type, body, SESSION_NAMES) {
        Ok(peek) => peek,
        Err(FormError::Syntax { at, .. } | FormError::Doubled { at, .. }) => {
            return assert!(at <= body.len());
        }
        Err(FormError::ContentType(_)) => return,
    };
    for (index, span) in &peek.session {
        assert!(
            *index < SESSION_NAMES.len() && body.get(span.clone()).is_some(),
            "a session key outside the body"
        );
    }
    let model = model(&peek, body);
    let Some(boundary) = boundary(content_type) else { return };
    for line_ends in [&[&b"\r\n"[..]][..], &[&b"\r\n"[..], b"\n", b"\r"]] {
        for name_of in [quoted_name, split_name] {
            let found = values(body, &boundary, line_ends, b"model", name_of);
            assert_eq!(found, model.iter().copied().collect::<Vec<_>>(), "another reader's model");
        }
    }
    check_splice(content_type, body, &peek);
}

fn check_splice(content_type: &[u8], body: &[u8], peek: &Peek) {
    let edits = Edits::new(peek, Some("up/stream"), true);
    let sent = edits.slices(body).concat();
    assert_eq!(sent.len(), edits.len(body.len()));
    let after =
        peek_form(content_type, &sent, SESSION_NAMES).expect("an edited form is read like the one before");
    assert_eq!(model(&after, &sent), peek.model.as_ref().map(|_| &b"up/stream"[..]));
    assert_eq!(
        (after.stream, after.text_bytes, after.media_parts),
        (peek.stream, peek.text_bytes, peek.media_parts)
    );
}

fn model<'a>(peek: &Peek, body: &'a [u8]) -> Option<&'a [u8]> {
    peek.model.as_ref().map(|value| {
        assert!(matches!(value, Value::Plain { .. }));
        &body[value.span().clone()]
    })
}

/// The boundary as a reader takes it that trusts the field, where only one thing can be meant.
fn boundary(content_type: &[u8]) -> Option<Vec<u8>> {
    let lower = content_type.to_ascii_lowercase();
    let mut places = (0..lower.len()).filter(|at| lower[*at..].starts_with(b"boundary"));
    let (at, None) = (places.next()?, places.next()) else { return None };
    let value = content_type[at + 8..].strip_prefix(b"=")?;
    Some(match value.strip_prefix(b"\"") {
        Some(inside) => inside[..inside.iter().position(|byte| *byte == b'"')?].to_vec(),
        None => value.split(|byte| *byte == b';').next()?.trim_ascii_end().to_vec(),
    })
}

/// The contents of all parts called `name`, for a reader that knows these line ends, the longest first.
fn values<'a>(
    body: &'a [u8],
    boundary: &[u8],
    line_ends: &[&[u8]],
    name: &[u8],
    name_of: fn(&[u8]) -> Option<Vec<u8>>,
) -> Vec<&'a [u8]> {
    let delimiter = [b"--", boundary].concat();
    let mut found = Vec::new();
    let mut part: Option<usize> = None;
    let mut at = 0;
    while at + delimiter.len() <= body.len() {
        let before = line_ends.iter().find(|end| body[..at].ends_with(end));
        if !body[at..].starts_with(&delimiter) || (at > 0 && before.is_none()) {
            at += 1;
            continue;
        }
        if let Some(start) = part {
            let end = at - before.map_or(0, |end| end.len());
            found.extend(content(&body[start..end.max(start)], name, name_of));
        }
        at += delimiter.len();
        if body[at..].starts_with(b"--") {
            break;
        }
        part = Some(at);
    }
    found
}

/// The content of a part, where it is called `name`.
fn content<'a>(part: &'a [u8], name: &[u8], name_of: fn(&[u8]) -> Option<Vec<u8>>) -> Option<&'a [u8]> {
    let end = part.windows(4).position(|word| word == b"\r\n\r\n")?;
    let lines = part[..end].split(|byte| *byte == b'\n');
    let disposition = lines.filter_map(|line| {
        let (field, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        field.trim_ascii().eq_ignore_ascii_case(b"content-disposition").then(|| value[1..].trim_ascii())
    });
    let called = disposition.filter_map(name_of).next_back()?;
    (called == name).then(|| &part[end + 4..])
}

/// The last `name` of a value, for a reader that knows quotes and escapes.
fn quoted_name(value: &[u8]) -> Option<Vec<u8>> {
    let (mut params, mut quoted, mut escaped) = (vec![Vec::new()], false, false);
    for &byte in value {
        match byte {
            _ if escaped => escaped = false,
            b' ' | b'\t' if !quoted => continue,
            b'\\' if quoted => {
                escaped = true;
                continue;
            }
            b'"' => {
                quoted = !quoted;
                continue;
            }
            b';' if !quoted => {
                params.push(Vec::new());
                continue;
            }
            _ => {}
        }
        params.last_mut().expect("one at least").push(byte);
    }
    named(params)
}

/// The last `name` of a value, for a reader that splits at every semicolon and then takes quotes off.
fn split_name(value: &[u8]) -> Option<Vec<u8>> {
    let unquoted = |param: &[u8]| param.trim_ascii().iter().copied().filter(|byte| *byte != b'"').collect();
    named(value.split(|byte| *byte == b';').map(unquoted).collect())
}

fn named(params: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let name = |param: &Vec<u8>| {
        let equals = param.iter().position(|byte| *byte == b'=')?;
        let called = param[..equals].trim_ascii().eq_ignore_ascii_case(b"name");
        called.then(|| param[equals + 1..].to_vec())
    };
    params.iter().filter_map(name).next_back()
}
