//! The members of the body itself.

mod prompts;

use smallvec::SmallVec;

use super::cursor::{Cursor, Place, Text};
use super::spans::Spans;
use super::turns::{Turns, said};
use super::{IncludeUsage, Peek, PeekError, Shape, Span, StreamOptions, Value};
use crate::number::{is_negative, stated};
use crate::text::{blank, inside, unescape};
use prompts::{Side, repeated};

const BOM: &[u8] = b"\xef\xbb\xbf";
/// Longer names are none of ours, unless a session key's name is.
const LONGEST_NAME: usize = 64;

/// Members that may be there once.
#[derive(Clone, Copy)]
enum Once {
    Model,
    Stream,
    StreamOptions,
    MaxTokens,
    /// The newer name, which differs by shape.
    MaxAnswerTokens,
    /// llama.cpp's own name.
    Predict,
    N,
    BestOf,
    Background,
    PreviousResponseId,
}

pub(super) fn read(body: &[u8], shape: Shape, session_names: &[&str]) -> Result<Peek, PeekError> {
    let mut top = Top {
        cursor: Cursor { body, at: 0 },
        shape,
        session_names,
        seen: 0,
        sessions: SmallVec::new(),
        max_tokens: None,
        max_answer_tokens: None,
        predict: None,
        instructions: Spans::default(),
        turns: Turns::new(shape),
        sides: [Side::default(); 2],
        peek: empty_peek(),
    };
    top.object()?;
    let Top {
        mut peek, turns, instructions: mut system, max_tokens, max_answer_tokens, predict, sides, ..
    } = top;
    system.append(turns.system);
    peek.system = system.into_vec();
    peek.first_user = turns.first_user.into_vec();
    peek.has_assistant_turn = turns.assistant;
    peek.text_bytes += turns.text_bytes;
    peek.other_bytes += turns.other_bytes;
    peek.media_parts = peek.media_parts.saturating_add(turns.media_parts);
    peek.repeated_bytes = repeated(sides);
    // Engines differ in which of them counts: what is reserved must be enough for any.
    peek.max_tokens = max_answer_tokens.max(max_tokens).max(predict);
    Ok(peek)
}

struct Top<'b, 'n> {
    cursor: Cursor<'b>,
    shape: Shape,
    session_names: &'n [&'n str],
    /// Bits of [`Once`].
    seen: u32,
    /// Indexes of session names met so far, whatever their values.
    sessions: SmallVec<[usize; 8]>,
    max_tokens: Option<u64>,
    max_answer_tokens: Option<u64>,
    predict: Option<u64>,
    instructions: Spans,
    turns: Turns,
    sides: [Side; 2],
    peek: Peek,
}

impl Top<'_, '_> {
    fn object(&mut self) -> Result<(), PeekError> {
        self.peek.bom = self.cursor.body.starts_with(BOM);
        self.cursor.at = if self.peek.bom { BOM.len() } else { 0 };
        if !self.cursor.take(b'{') {
            return self.cursor.fail("expected an object");
        }
        self.peek.members_at = self.cursor.at;
        self.peek.empty = self.cursor.next() == Some(b'}');
        let longest = self.session_names.iter().map(|name| name.len()).fold(LONGEST_NAME, usize::max);
        let mut place = Place::First;
        let mut decoded = String::new();
        while let Some(text) = self.cursor.member(&mut place)? {
            let body = self.cursor.body;
            let name = if text.escaped {
                decoded.clear();
                unescape(body, &text.span, longest + 1, &mut decoded);
                decoded.as_bytes()
            } else {
                inside(body, &text.span)
            };
            self.member(name, text.span.start)?;
        }
        match self.cursor.next() {
            None => Ok(()),
            Some(_) => self.cursor.fail("expected nothing behind the object"),
        }
    }

    fn member(&mut self, name: &[u8], at: usize) -> Result<(), PeekError> {
        let value_at = self.cursor.at;
        self.value(name, at)?;
        self.region(name, value_at);
        if let Some(index) = self.session_names.iter().position(|wanted| wanted.as_bytes() == name) {
            if self.sessions.contains(&index) {
                return doubled(name, at);
            }
            self.sessions.push(index);
            let span = value_at..self.cursor.at;
            if self.said(&span) {
                self.peek.session.push((index, span));
            }
        }
        Ok(())
    }

    /// Notes the parts of the body that make the prompt. Of one that is given twice the last counts, as engines read it.
    fn region(&mut self, name: &[u8], from: usize) {
        use Shape::{Chat, Completions, Messages, Other, Responses};
        let region = match (name, self.shape) {
            (b"tools", Chat | Messages | Responses | Other) => &mut self.peek.tools,
            (b"system", Messages) | (b"instructions", Responses) => &mut self.peek.instructions,
            (b"messages", Chat | Messages | Other)
            | (b"input", Responses)
            | (b"prompt", Completions | Other) => &mut self.peek.turns,
            _ => return,
        };
        *region = Some(from..self.cursor.at);
    }

    fn value(&mut self, name: &[u8], at: usize) -> Result<(), PeekError> {
        use Shape::{Chat, Completions, Messages, Other, Responses};
        let once = match (name, self.shape) {
            (b"model", _) => Once::Model,
            (b"stream", _) => Once::Stream,
            (b"stream_options", _) => Once::StreamOptions,
            (b"max_tokens", _) => Once::MaxTokens,
            (b"max_output_tokens", Responses) => Once::MaxAnswerTokens,
            (b"max_completion_tokens", Chat | Completions | Messages | Other) => Once::MaxAnswerTokens,
            (b"n_predict", Chat | Completions) => Once::Predict,
            (b"n", _) => Once::N,
            (b"best_of", Completions) => Once::BestOf,
            (b"background", Responses) => Once::Background,
            (b"previous_response_id", _) => Once::PreviousResponseId,
            (b"messages", Chat | Messages | Other) | (b"input", Responses) => {
                return self.turns.read(&mut self.cursor);
            }
            (b"system", Messages) | (b"instructions", Responses) => {
                return self.turns.instructions(&mut self.cursor, &mut self.instructions);
            }
            (b"prompt", Completions | Other) | (b"input" | b"content", Other) => return self.texts(),
            (b"query" | b"queries" | b"text_1" | b"data_1", Other) => return self.side(0),
            (b"documents" | b"text_2" | b"data_2" | b"items", Other) => return self.side(1),
            // Chat templates put them into the prompt.
            (b"tools" | b"functions" | b"documents" | b"chat_template" | b"chat_template_kwargs", _)
            | (b"prompt", Responses) => {
                self.peek.other_bytes += said(&mut self.cursor)?;
                return Ok(());
            }
            _ => return self.cursor.skip().map(drop),
        };
        let bit = 1 << once as u32;
        if self.seen & bit != 0 {
            return doubled(name, at);
        }
        self.seen |= bit;
        self.single(once)
    }

    fn single(&mut self, once: Once) -> Result<(), PeekError> {
        match once {
            Once::Model => {
                self.peek.model = Some(match self.cursor.next() {
                    Some(b'"') => {
                        let Text { span, escaped } = self.cursor.string()?;
                        Value::Text { span, escaped }
                    }
                    _ => Value::Other { span: self.cursor.skip()? },
                });
            }
            Once::Stream => {
                let value = self.raw()?;
                let (stream, odd) = (value == b"true", !matches!(value, b"true" | b"false" | b"null"));
                (self.peek.stream, self.peek.odd_stream) = (stream, odd);
            }
            Once::StreamOptions => self.peek.stream_options = Some(self.stream_options()?),
            Once::MaxTokens => self.max_tokens = self.maximum()?,
            Once::MaxAnswerTokens => self.max_answer_tokens = self.maximum()?,
            Once::Predict => self.predict = self.maximum()?,
            Once::N => self.peek.n = stated(self.raw()?),
            Once::BestOf => self.peek.best_of = stated(self.raw()?),
            Once::Background => self.peek.background = self.raw()? == b"true",
            Once::PreviousResponseId => {
                let span = self.cursor.skip()?;
                self.peek.previous_response_id = self.said(&span).then_some(span);
            }
        }
        Ok(())
    }

    /// One of the members that state a maximum.
    fn maximum(&mut self) -> Result<Option<u64>, PeekError> {
        let raw = self.raw()?;
        let (most, endless) = (stated(raw), is_negative(raw));
        self.peek.endless |= endless;
        Ok(most)
    }

    fn stream_options(&mut self) -> Result<StreamOptions, PeekError> {
        self.cursor.next();
        let start = self.cursor.at;
        let mut options = StreamOptions {
            span: start..start,
            include_usage: IncludeUsage::Absent,
            object: false,
            null: false,
            empty: false,
        };
        if self.cursor.take(b'{') {
            options.object = true;
            options.empty = self.cursor.next() == Some(b'}');
            let mut place = Place::First;
            while let Some(name) = self.cursor.member(&mut place)? {
                let span = self.cursor.skip()?;
                if is_named(self.cursor.body, &name, "include_usage") {
                    options.include_usage = match self.cursor.body.get(span.clone()) {
                        Some(b"true") => IncludeUsage::True,
                        _ => IncludeUsage::Other(span),
                    };
                }
            }
        } else {
            options.null = self.raw()? == b"null";
        }
        options.span.end = self.cursor.at;
        Ok(options)
    }

    /// The bytes of the value here.
    fn raw(&mut self) -> Result<&[u8], PeekError> {
        let span = self.cursor.skip()?;
        Ok(self.cursor.body.get(span).unwrap_or_default())
    }

    /// A string with something in it.
    fn said(&self, span: &Span) -> bool {
        let value = self.cursor.body.get(span.clone()).unwrap_or_default();
        value.first() == Some(&b'"') && !blank(inside(self.cursor.body, span))
    }
}

/// Whether a member's name, unescaped, is `wanted`.
pub(super) fn is_named(body: &[u8], name: &Text, wanted: &str) -> bool {
    if !name.escaped {
        return inside(body, &name.span) == wanted.as_bytes();
    }
    let mut decoded = String::new();
    unescape(body, &name.span, LONGEST_NAME, &mut decoded);
    decoded == wanted
}

fn doubled(name: &[u8], at: usize) -> Result<(), PeekError> {
    Err(PeekError::Doubled { name: String::from_utf8_lossy(name).into_owned(), at })
}

/// Nothing read yet.
pub(crate) fn empty_peek() -> Peek {
    Peek {
        bom: false,
        model: None,
        stream: false,
        odd_stream: false,
        stream_options: None,
        max_tokens: None,
        endless: false,
        n: None,
        best_of: None,
        prompts: 0,
        background: false,
        session: Vec::new(),
        previous_response_id: None,
        system: Vec::new(),
        first_user: Vec::new(),
        tools: None,
        instructions: None,
        turns: None,
        has_assistant_turn: false,
        text_bytes: 0,
        other_bytes: 0,
        repeated_bytes: 0,
        token_ids: 0,
        media_parts: 0,
        members_at: 0,
        empty: false,
        form: false,
    }
}
