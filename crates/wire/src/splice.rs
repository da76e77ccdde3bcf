//! Edits of a request body that leave every other byte alone.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::peek::{IncludeUsage, Peek, Span, StreamOptions, Value};

const BOM_LEN: usize = 3;
const MEMBER: &str = r#""stream_options":{"include_usage":true}"#;
const MEMBER_AHEAD: &str = r#""stream_options":{"include_usage":true},"#;
const OPTION: &str = r#""include_usage":true"#;
const OPTION_AHEAD: &str = r#""include_usage":true,"#;
const OPTIONS: &str = r#"{"include_usage":true}"#;

/// Spans and what stands in their place, applied while sending: the body itself is never copied or rewritten.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// In order of the body, not overlapping; at most the BOM, the model and the stream options.
    edits: SmallVec<[(Span, Cow<'static, str>); 3]>,
}

impl Edits {
    /// The body goes out as it came in.
    pub fn none() -> Self {
        Self::default()
    }

    /// The BOM is taken off; `upstream_model` stands in place of the model's value when given; with `ask_usage` a
    /// stream is asked for its usage.
    ///
    /// A body that does not stream is never asked (engines refuse it); stream options that are neither an object nor
    /// null are the engine's to refuse; a body without a `model` is given none; a form is never asked.
    pub fn new(peek: &Peek, upstream_model: Option<&str>, ask_usage: bool) -> Self {
        let mut edits = SmallVec::<[(Span, Cow<'static, str>); 3]>::new();
        if peek.bom {
            edits.push((0..BOM_LEN, Cow::Borrowed("")));
        }
        if let (Some(name), Some(value)) = (upstream_model, &peek.model) {
            let text = if matches!(value, Value::Plain { .. }) { name.to_owned() } else { quoted(name) };
            edits.push((value.span().clone(), Cow::Owned(text)));
        }
        if ask_usage && peek.stream && !peek.form {
            edits.extend(usage_edit(peek));
        }
        edits.sort_by_key(|(span, _)| span.start);
        Self { edits }
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Length of a body of `body_len` bytes after the edits.
    pub fn len(&self, body_len: usize) -> usize {
        self.edits.iter().fold(body_len, |len, (span, text)| (len + text.len()).saturating_sub(span.len()))
    }

    /// The edited body as slices, in order, none of them empty (for one `writev`). `body` is the one that was peeked.
    pub fn slices<'a>(&'a self, body: &'a [u8]) -> SmallVec<[&'a [u8]; 8]> {
        let mut slices = SmallVec::<[&[u8]; 8]>::new();
        let mut at = 0;
        for (span, text) in &self.edits {
            slices.push(body.get(at..span.start).unwrap_or_default());
            slices.push(text.as_bytes());
            at = span.end;
        }
        slices.push(body.get(at..).unwrap_or_default());
        slices.retain(|slice| !slice.is_empty());
        slices
    }
}

/// The one edit that makes `stream_options.include_usage` true, if one is needed.
fn usage_edit(peek: &Peek) -> Option<(Span, Cow<'static, str>)> {
    let (span, text) = match &peek.stream_options {
        None => (peek.members_at..peek.members_at, if peek.empty { MEMBER } else { MEMBER_AHEAD }),
        Some(StreamOptions { include_usage: IncludeUsage::True, .. }) => return None,
        Some(StreamOptions { include_usage: IncludeUsage::Other(span), .. }) => (span.clone(), "true"),
        Some(StreamOptions { null: true, span, .. }) => (span.clone(), OPTIONS),
        Some(StreamOptions { object: false, .. }) => return None,
        Some(StreamOptions { span, empty, .. }) => {
            let inside = span.start + 1;
            (inside..inside, if *empty { OPTION } else { OPTION_AHEAD })
        }
    };
    Some((span, Cow::Borrowed(text)))
}

/// A JSON string: quotes, backslashes and control characters escaped (RFC 8259 section 7).
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\u{1f}' => {
                let digit = |shift: u32| char::from_digit(character as u32 >> shift & 0xf, 16).unwrap_or('0');
                out.push_str("\\u00");
                out.extend([digit(4), digit(0)]);
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
