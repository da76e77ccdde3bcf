//! An incremental reader of the engines' JSON answers and events: any split, any length, a fixed amount of memory.
//!
//! Nothing is kept of a value that is not one of [`places`]; values that are passed over are passed over 64 bytes at a
//! step. It reads as long as it understands, and reads nothing more once it does not. Names and words are read up to 64
//! bytes as written, ids of responses up to 256.

mod facts;
mod places;
mod token;

pub(crate) use facts::{Choices, EventKind, Facts, Word};
pub use token::MAX_RESPONSE_ID;

use crate::bits::{InContainer, InString};
use crate::scalar::scalar_len;
use places::{Field, Place, field_of};
use token::{Token, WORD};

/// Deepest nesting of what is read: event, choices, choice, delta, calls, call, function.
const DEPTH: usize = 7;

/// What is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A whole answer: top-level members and the first choice count.
    Answer,
    /// The same of `/v1/responses`: its `id` counts as well.
    Response,
    /// The data of one event: also what `response`, `message` and `delta` wrap.
    Event,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Ahead of the opening brace.
    Start,
    /// In an object, ahead of a name or the closing brace.
    Member,
    Name(InString),
    Colon,
    Value,
    /// In an array, ahead of an element or the closing bracket.
    Element,
    Text(InString),
    Scalar,
    /// In a container of which only matters whether it is empty.
    Probe,
    Skip(InContainer),
    Done,
    /// Not JSON, or not an object.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Scan {
    form: Form,
    state: State,
    places: [Place; DEPTH],
    depth: u8,
    /// The lowest bit: the innermost place is an array; the next one that around it, and so on.
    arrays: u8,
    /// What the value being read is.
    field: Field,
    /// Of a name, word or number that began in an earlier part.
    token: Token,
    /// Choices begun.
    choices: u32,
}

impl Scan {
    pub(crate) fn new(form: Form) -> Self {
        Self {
            form,
            state: State::Start,
            places: [Place::Top; DEPTH],
            depth: 0,
            arrays: 0,
            field: Field::Nothing,
            token: Token::default(),
            choices: 0,
        }
    }

    /// The whole object was read.
    pub(crate) fn done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], facts: &mut Facts) {
        let mut at = 0;
        while let Some(rest @ [first, ..]) = bytes.get(at..) {
            at += match self.state {
                State::Name(reader) => self.name(reader, rest, facts),
                State::Text(reader) => self.text(reader, rest, facts),
                State::Scalar => self.scalar(rest, facts),
                State::Skip(reader) => self.skip(reader, rest),
                State::Done | State::Lost => return,
                _ if first.is_ascii_whitespace() => 1,
                State::Value => self.value(*first, rest, facts),
                _ => self.structure(*first, rest, facts),
            };
        }
    }

    /// What stands between values; how many bytes were taken.
    fn structure(&mut self, byte: u8, rest: &[u8], facts: &mut Facts) -> usize {
        self.state = match (self.state, byte) {
            (State::Start, b'{') => {
                self.push(Place::Top);
                return 1;
            }
            // Which of the commas are missing is not this reader's business.
            (State::Member, b',') => State::Member,
            (State::Element, b',') => State::Element,
            (State::Member, b'"') => State::Name(InString::default()),
            (State::Colon, b':') => State::Value,
            (State::Member, b'}') | (State::Element, b']') => {
                self.pop(facts);
                return 1;
            }
            (State::Element, _) => {
                self.element(facts);
                return self.value(byte, rest, facts);
            }
            (State::Probe, _) => {
                facts.payload |= !matches!(byte, b']' | b'}');
                return self.skip(InContainer::new(), rest);
            }
            _ => State::Lost,
        };
        1
    }

    /// An element of one of the two arrays that are read begins.
    fn element(&mut self, facts: &mut Facts) {
        if self.place() == Place::ToolCalls {
            self.field = Field::ToolCall;
            facts.payload = true;
        } else {
            self.field = Field::Choice;
            facts.choices = Choices::Some;
        }
    }

    /// The value that `rest` begins with, and `byte` is its first; how many bytes were taken.
    fn value(&mut self, byte: u8, rest: &[u8], facts: &mut Facts) -> usize {
        let inside = rest.get(1..).unwrap_or_default();
        match byte {
            b'"' => 1 + self.text(InString::default(), inside, facts),
            b'{' | b'[' => {
                facts.error |= self.field == Field::Error;
                match self.field.place(byte) {
                    Some(place) => self.enter(place, facts),
                    None if matches!(self.field, Field::Payload | Field::ToolCalls) => {
                        self.state = State::Probe;
                    }
                    None => return 1 + self.skip(InContainer::new(), inside),
                }
                1
            }
            _ => self.scalar(rest, facts),
        }
    }

    fn enter(&mut self, place: Place, facts: &mut Facts) {
        match place {
            Place::Choices => {
                facts.choices = Choices::Empty;
                self.choices = 0;
            }
            Place::Choice => self.choices = self.choices.saturating_add(1),
            Place::Usage => facts.begin_usage(),
            _ => {}
        }
        self.push(place);
    }

    fn push(&mut self, place: Place) {
        match self.places.get_mut(usize::from(self.depth)) {
            Some(slot) => {
                *slot = place;
                self.depth += 1;
                self.arrays = self.arrays << 1 | u8::from(place.is_array());
                self.resume();
            }
            None => self.state = State::Skip(InContainer::new()),
        }
    }

    fn pop(&mut self, facts: &mut Facts) {
        if self.place() == Place::Usage {
            facts.end_usage();
        }
        self.depth = self.depth.saturating_sub(1);
        self.arrays >>= 1;
        self.resume();
    }

    fn place(&self) -> Place {
        let top = usize::from(self.depth).saturating_sub(1);
        self.places.get(top).copied().unwrap_or(Place::Top)
    }

    /// Behind a value: what its container goes on with.
    fn resume(&mut self) {
        self.state = match self.depth {
            0 => State::Done,
            _ if self.arrays & 1 != 0 => State::Element,
            _ => State::Member,
        };
    }

    /// A name, the value behind it where that has begun, and so on as long as each goes on where the last has ended.
    fn name(&mut self, mut reader: InString, bytes: &[u8], facts: &mut Facts) -> usize {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(len) = reader.close(rest) else {
                self.token.push(rest, WORD);
                self.state = State::Name(reader);
                return bytes.len();
            };
            let raw = rest.get(..len - 1).unwrap_or_default();
            let (form, place) = (self.form, self.place());
            self.field = self.token.finish(raw, WORD, reader.escaped, |name, _| field_of(form, place, name));
            let Some([b':', value @ ..]) = rest.get(len..) else {
                self.state = State::Colon;
                return at + len;
            };
            self.state = State::Value;
            at += len + 1;
            match value.first() {
                Some(byte) if !byte.is_ascii_whitespace() => at += self.value(*byte, value, facts),
                _ => return at,
            }
            if !matches!(self.state, State::Name(_)) {
                return at;
            }
            reader = InString::default();
        }
    }

    fn text(&mut self, mut reader: InString, rest: &[u8], facts: &mut Facts) -> usize {
        let closed = reader.close(rest);
        let raw = closed.map_or(rest, |len| rest.get(..len - 1).unwrap_or_default());
        match self.field {
            Field::Payload => {
                facts.payload |= !raw.is_empty();
                facts.text_bytes += raw.len() as u64;
            }
            Field::Delta => {
                facts.delta_text |= !raw.is_empty();
                facts.text_bytes += raw.len() as u64;
            }
            Field::Error => facts.error |= !raw.is_empty(),
            Field::Finish if self.form != Form::Event && self.choices > 1 => {}
            field if field.is_word() => {
                let most = field.longest();
                if closed.is_none() {
                    self.token.push(raw, most);
                } else {
                    self.token.finish(raw, most, reader.escaped, |word, cut| facts.word(field, word, cut));
                }
            }
            _ => {}
        }
        let Some(len) = closed else {
            self.state = State::Text(reader);
            return rest.len();
        };
        self.behind_value(rest, len)
    }

    /// The value ends at `len`: what its container goes on with, over the usual comma and quote if they are there.
    #[inline]
    fn behind_value(&mut self, rest: &[u8], len: usize) -> usize {
        self.resume();
        if matches!(self.state, State::Member) && rest.get(len..len + 2) == Some(b",\"") {
            self.state = State::Name(InString::default());
            return len + 2;
        }
        len
    }

    fn scalar(&mut self, rest: &[u8], facts: &mut Facts) -> usize {
        let len = scalar_len(rest);
        let raw = rest.get(..len).unwrap_or_default();
        if len == rest.len() {
            self.token.push(raw, WORD);
            self.state = State::Scalar;
            return len;
        }
        if len == 0 && self.token.is_empty() {
            self.state = State::Lost;
            return 0;
        }
        let field = self.field;
        self.token.finish(raw, WORD, false, |number, _| facts.number(field, number));
        self.behind_value(rest, len)
    }

    fn skip(&mut self, mut reader: InContainer, rest: &[u8]) -> usize {
        match reader.close(rest) {
            Some(len) => self.behind_value(rest, len),
            None => {
                self.state = State::Skip(reader);
                rest.len()
            }
        }
    }
}
