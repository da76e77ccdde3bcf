//! The turns of a conversation: `messages` and `input`, their content and its parts.

use super::cursor::{Cursor, Place, Text};
use super::spans::Spans;
use super::tail::Tail;
use super::{PeekError, Shape};
use crate::text::{inside, unescape};

/// Longest role, type or member name that is compared.
const LONGEST_WORD: usize = 32;

/// Types of parts, and members of parts and prompts, that are not text.
pub(super) const MEDIA: &[&[u8]] = &[
    b"image_url",
    b"image",
    b"input_image",
    b"image_embeds",
    b"input_audio",
    b"audio",
    b"audio_url",
    b"video",
    b"video_url",
    b"input_video",
    b"file",
    b"input_file",
    b"document",
    b"computer_screenshot",
    b"multimodal_data",
];

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    /// Tools, functions and whatever else.
    Another,
}

/// What the turns say, filled in while they are read.
pub(super) struct Turns {
    pub(super) system: Spans,
    pub(super) first_user: Spans,
    pub(super) assistant: bool,
    pub(super) text_bytes: u64,
    /// Of what else engines make a prompt of.
    pub(super) other_bytes: u64,
    pub(super) media_parts: u32,
    /// Where the last texts are wanted as well.
    pub(super) tail: Option<Tail>,
    responses: bool,
    /// A turn that is not the system's was met: later system turns are no prefix.
    begun: bool,
    user_met: bool,
    /// The texts being read may be wanted: later turns' are only counted.
    wanted: bool,
}

/// The members of one turn.
struct Turn {
    role: Option<Role>,
    /// A type of item that only the model's side makes.
    of_model: bool,
    texts: Spans,
}

impl Turns {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            system: Spans::default(),
            first_user: Spans::default(),
            assistant: false,
            text_bytes: 0,
            other_bytes: 0,
            media_parts: 0,
            tail: None,
            responses: shape == Shape::Responses,
            begun: false,
            user_met: false,
            wanted: true,
        }
    }

    /// The array of turns. In Responses the whole may be one string, which is the user's.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), PeekError> {
        if cursor.next() == Some(b'"') && self.responses {
            let text = cursor.string()?;
            self.wanted = true;
            let mut texts = Spans::default();
            self.text(&text, &mut texts);
            self.place(Turn { role: Some(Role::User), of_model: false, texts });
            return Ok(());
        }
        if !cursor.take(b'[') {
            return cursor.skip().map(drop);
        }
        let mut place = Place::First;
        while cursor.element(&mut place)? {
            if cursor.take(b'{') {
                let turn = self.turn(cursor)?;
                self.place(turn);
            } else {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, cursor: &mut Cursor<'_>) -> Result<Turn, PeekError> {
        self.wanted = !self.begun || !self.user_met;
        let mut turn = Turn { role: None, of_model: false, texts: Spans::default() };
        let (mut place, mut word) = (Place::First, String::new());
        while let Some(name) = cursor.member(&mut place)? {
            match word_of(cursor.body, &name, &mut word) {
                b"role" => {
                    let role = cursor.string_or_skip()?;
                    turn.role = role.map(|role| match word_of(cursor.body, &role, &mut word) {
                        b"system" | b"developer" => Role::System,
                        b"user" => Role::User,
                        b"assistant" => Role::Assistant,
                        _ => Role::Another,
                    });
                }
                b"content" => self.content(cursor, &mut turn.texts)?,
                b"type" if self.responses => {
                    let kind = cursor.string_or_skip()?;
                    turn.of_model = kind.is_some_and(|kind| {
                        let kind = word_of(cursor.body, &kind, &mut word);
                        kind == b"reasoning" || kind.ends_with(b"_call") || kind.ends_with(b"_call_output")
                    });
                }
                b"output" if self.responses => self.output(cursor, &mut turn.texts)?,
                name if MEDIA.contains(&name) => {
                    let given = is_given(cursor)?;
                    self.media_parts = self.media_parts.saturating_add(u32::from(given));
                }
                // A tool call, reasoning, a name: chat templates put them into the prompt.
                _ => self.other_bytes += said(cursor)?,
            }
        }
        Ok(turn)
    }

    /// Puts a turn's texts where they belong, now that its role is known.
    fn place(&mut self, turn: Turn) {
        self.assistant |= turn.role == Some(Role::Assistant) || turn.of_model;
        if let Some(tail) = &mut self.tail {
            let of_prefix = turn.role == Some(Role::System) && !self.begun;
            tail.close((!of_prefix).then_some(turn.role.unwrap_or(Role::Another)));
        }
        match turn.role {
            Some(Role::System) if !self.begun => self.system.append(turn.texts),
            Some(Role::System) => {}
            Some(Role::User) if !self.user_met => {
                self.begun = true;
                self.user_met = true;
                self.first_user = turn.texts;
            }
            _ => self.begun = true,
        }
    }

    /// A system prompt that stands outside of the turns.
    pub(super) fn instructions(
        &mut self,
        cursor: &mut Cursor<'_>,
        texts: &mut Spans,
    ) -> Result<(), PeekError> {
        self.wanted = true;
        self.content(cursor, texts)
    }

    /// A string or an array of strings and parts.
    fn content(&mut self, cursor: &mut Cursor<'_>, texts: &mut Spans) -> Result<(), PeekError> {
        self.parts(cursor, texts, true)
    }

    /// As [`Self::content`], or one part.
    fn output(&mut self, cursor: &mut Cursor<'_>, texts: &mut Spans) -> Result<(), PeekError> {
        if !cursor.take(b'{') {
            return self.content(cursor, texts);
        }
        self.beside(|turns| turns.part(cursor, &mut Spans::default(), false))
    }

    /// Counts a content that is none of a turn's.
    pub(super) fn content_beside(&mut self, cursor: &mut Cursor<'_>) -> Result<(), PeekError> {
        self.beside(|turns| turns.content(cursor, &mut Spans::default()))
    }

    /// The texts that `read` meets are counted with what else makes the prompt.
    fn beside(&mut self, read: impl FnOnce(&mut Self) -> Result<(), PeekError>) -> Result<(), PeekError> {
        let (texts, tail) = (self.text_bytes, self.tail.take());
        let result = read(self);
        self.other_bytes += self.text_bytes - texts;
        (self.text_bytes, self.tail) = (texts, tail);
        result
    }

    /// `nested`: parts may have parts of their own (a tool's result), once.
    fn parts(&mut self, cursor: &mut Cursor<'_>, texts: &mut Spans, nested: bool) -> Result<(), PeekError> {
        match cursor.next() {
            Some(b'"') => {
                let text = cursor.string()?;
                self.text(&text, texts);
            }
            Some(b'[') => {
                cursor.at += 1;
                let mut place = Place::First;
                while cursor.element(&mut place)? {
                    if cursor.take(b'{') {
                        self.part(cursor, texts, nested)?;
                    } else if let Some(text) = cursor.string_or_skip()? {
                        self.text(&text, texts);
                    }
                }
            }
            _ => self.other_bytes += said(cursor)?,
        }
        Ok(())
    }

    /// Whatever a part calls itself, its text counts: engines go by its type, by its members, or by both.
    fn part(&mut self, cursor: &mut Cursor<'_>, texts: &mut Spans, nested: bool) -> Result<(), PeekError> {
        let (mut place, mut word) = (Place::First, String::new());
        let (mut of_media, mut media, mut text, mut other) = (false, false, None, 0);
        while let Some(name) = cursor.member(&mut place)? {
            match word_of(cursor.body, &name, &mut word) {
                b"type" => {
                    let kind = cursor.string_or_skip()?;
                    of_media |=
                        kind.is_some_and(|kind| MEDIA.contains(&word_of(cursor.body, &kind, &mut word)));
                }
                b"text" => text = cursor.string_or_skip()?.or(text),
                b"content" if nested => self.parts(cursor, texts, false)?,
                b"source" => self.other_bytes += source(cursor)?,
                name if MEDIA.contains(&name) => media |= is_given(cursor)?,
                _ => other += said(cursor)?,
            }
        }
        // Beside an image stand its format and size.
        self.other_bytes += if of_media { 0 } else { other };
        self.media_parts = self.media_parts.saturating_add(u32::from(of_media || media));
        match text {
            Some(text) if of_media || media => self.other_bytes += text.raw_len() as u64,
            Some(text) => self.text(&text, texts),
            None => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &Text, texts: &mut Spans) {
        self.text_bytes += text.raw_len() as u64;
        if self.wanted {
            texts.push(text);
        }
        if let Some(tail) = &mut self.tail {
            tail.push(text);
        }
    }
}

/// Bytes of the value here, where it is one that says something: a string, list or object.
pub(super) fn said(cursor: &mut Cursor<'_>) -> Result<u64, PeekError> {
    let says = matches!(cursor.next(), Some(b'"' | b'{' | b'['));
    let len = cursor.skip()?.len().saturating_sub(2);
    Ok(if says { len as u64 } else { 0 })
}

/// Whether the value here is anything but null.
pub(super) fn is_given(cursor: &mut Cursor<'_>) -> Result<bool, PeekError> {
    let span = cursor.skip()?;
    Ok(cursor.body.get(span) != Some(b"null"))
}

/// Bytes of text in the `source` of a part: all but the data of an image or file.
fn source(cursor: &mut Cursor<'_>) -> Result<u64, PeekError> {
    if !cursor.take(b'{') {
        return said(cursor);
    }
    let (mut place, mut word) = (Place::First, String::new());
    let (mut is_text, mut data, mut other) = (false, 0, 0);
    while let Some(name) = cursor.member(&mut place)? {
        match word_of(cursor.body, &name, &mut word) {
            b"type" => {
                let kind = cursor.string_or_skip()?;
                is_text = kind.is_some_and(|kind| word_of(cursor.body, &kind, &mut word) == b"text");
            }
            b"data" => data = said(cursor)?,
            b"content" => other = said(cursor)?,
            _ => _ = cursor.skip()?,
        }
    }
    Ok(if is_text { data + other } else { other })
}

/// A short string's text for comparing, decoded into `decoded` only where it holds escapes.
fn word_of<'a>(body: &'a [u8], text: &Text, decoded: &'a mut String) -> &'a [u8] {
    if !text.escaped {
        return inside(body, &text.span);
    }
    decoded.clear();
    unescape(body, &text.span, LONGEST_WORD, decoded);
    decoded.as_bytes()
}
