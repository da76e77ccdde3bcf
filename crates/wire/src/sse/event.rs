//! One event, line by line, in any split.

use crate::scan::{Facts, Form, Scan};

const BOM: &[u8] = b"\xef\xbb\xbf";
const DATA: &[u8] = b"data";
const EVENT: &[u8] = b"event";
const DONE: &[u8] = b"[DONE]";
/// Longest field name that is compared, and one byte to tell longer ones.
const NAME: usize = EVENT.len() + 1;
/// Longest `event:` value that is kept; the ones we know are shorter.
const EVENT_NAME: usize = 32;
/// As much data as tells `[DONE]`, with a blank or two behind it, from anything longer.
const HEAD: usize = DONE.len() + 2;

/// Up to `N` bytes that arrive in parts; what is more is counted but not kept.
#[derive(Clone, Debug)]
struct Short<const N: usize> {
    bytes: [u8; N],
    /// Saturates one above `N`.
    len: usize,
}

impl<const N: usize> Short<N> {
    const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    fn push(&mut self, part: &[u8]) {
        for (slot, &byte) in self.bytes.get_mut(self.len..).unwrap_or_default().iter_mut().zip(part) {
            *slot = byte;
        }
        self.len = self.len.saturating_add(part.len()).min(N + 1);
    }

    /// The bytes, or nothing where there were too many.
    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// What a line holds behind its field name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    /// No field: the line begins with a colon.
    Comment,
    /// `id:`, `retry:` and unknown ones.
    Other,
}

#[derive(Clone, Debug)]
enum Line {
    /// In the byte-order mark that a stream may begin with; bytes of it so far.
    Bom(usize),
    Start,
    Name(Short<NAME>),
    /// Just behind the colon, where one blank does not count.
    Blank(Field),
    Value(Field),
}

/// How far one read got.
pub(super) enum Read {
    /// All bytes were taken, the event is not finished.
    Open { after_cr: bool },
    /// The blank line ends at `len`. `after_cr`: an LF may follow that belongs to it.
    End { len: usize, after_cr: bool },
}

/// An event in progress.
#[derive(Clone, Debug)]
pub(super) struct Event {
    line: Line,
    pub(super) has_data: bool,
    pub(super) scan: Scan,
    pub(super) facts: Facts,
    head: Short<HEAD>,
    name: Short<EVENT_NAME>,
    /// Comment lines finished and not yet counted.
    pub(super) comments: u64,
    /// Bytes read so far, up to and with the first byte of the end of its blank line.
    pub(super) len: u64,
    /// Bytes that were not passed on.
    pub(super) held: Vec<u8>,
    /// Too long to be held back: passed on as it comes.
    pub(super) released: bool,
}

impl Event {
    /// `first`: the stream's first, ahead of which a byte-order mark may stand.
    pub(super) fn new(first: bool) -> Self {
        Self {
            line: if first { Line::Bom(0) } else { Line::Start },
            has_data: false,
            scan: Scan::new(Form::Event),
            facts: Facts::default(),
            head: Short::EMPTY,
            name: Short::EMPTY,
            comments: 0,
            len: 0,
            held: Vec::new(),
            released: false,
        }
    }

    pub(super) fn is_done_marker(&self) -> bool {
        self.head.get().trim_ascii_end() == DONE
    }

    /// The data is one whole JSON object or the end marker.
    pub(super) fn data_complete(&self) -> bool {
        self.has_data && (self.scan.done() || self.is_done_marker())
    }

    /// The value of the `event:` field, empty where it is absent or long.
    pub(super) fn name(&self) -> &[u8] {
        self.name.get()
    }

    /// Reads to the blank line, or all of `bytes`.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Read {
        let mut at = 0;
        while let Some(rest @ [first, ..]) = bytes.get(at..) {
            at += match &mut self.line {
                Line::Bom(met) if BOM.get(*met) == Some(first) => {
                    *met += 1;
                    if *met == BOM.len() {
                        self.line = Line::Start;
                    }
                    1
                }
                Line::Bom(met) => {
                    self.line = if *met == 0 { Line::Start } else { Line::Value(Field::Other) };
                    0
                }
                Line::Start if is_eol(*first) => {
                    let (len, after_cr) = eol(rest);
                    self.len += at as u64 + 1;
                    return Read::End { len: at + len, after_cr };
                }
                Line::Start => self.begin(rest),
                Line::Name(_) => self.field_name(rest),
                Line::Blank(field) => {
                    self.line = Line::Value(*field);
                    usize::from(*first == b' ')
                }
                Line::Value(field) => {
                    let field = *field;
                    self.value(field, rest)
                }
            };
        }
        self.len += bytes.len() as u64;
        Read::Open { after_cr: bytes.last() == Some(&b'\r') }
    }

    /// The first byte of a line that is not blank. The usual line is told without a detour.
    fn begin(&mut self, rest: &[u8]) -> usize {
        if rest.starts_with(b"data:") {
            self.begin_data();
            self.line = Line::Blank(Field::Data);
            DATA.len() + 1
        } else if rest.first() == Some(&b':') {
            self.line = Line::Value(Field::Comment);
            1
        } else {
            self.line = Line::Name(Short::EMPTY);
            0
        }
    }

    fn field_name(&mut self, rest: &[u8]) -> usize {
        let Line::Name(name) = &mut self.line else {
            return 0;
        };
        let end = memchr::memchr3(b':', b'\n', b'\r', rest).unwrap_or(rest.len());
        name.push(rest.get(..end).unwrap_or_default());
        let Some(last) = rest.get(end) else {
            return end;
        };
        let field = match name.get() {
            DATA => Field::Data,
            EVENT => Field::Event,
            _ => Field::Other,
        };
        match field {
            Field::Data => self.begin_data(),
            Field::Event => self.name = Short::EMPTY,
            Field::Comment | Field::Other => {}
        }
        if *last == b':' {
            self.line = Line::Blank(field);
            return end + 1;
        }
        self.line = Line::Start;
        end + eol(rest.get(end..).unwrap_or_default()).0
    }

    /// Lines of data are joined by a line feed, which is white space to JSON.
    fn begin_data(&mut self) {
        if self.has_data {
            self.data(b"\n");
        }
        self.has_data = true;
    }

    fn data(&mut self, part: &[u8]) {
        self.scan.feed(part, &mut self.facts);
        self.head.push(part);
    }

    fn value(&mut self, field: Field, rest: &[u8]) -> usize {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let part = rest.get(..end).unwrap_or_default();
        match field {
            Field::Data => self.data(part),
            Field::Event => self.name.push(part),
            Field::Comment | Field::Other => {}
        }
        if end == rest.len() {
            return end;
        }
        self.comments += u64::from(field == Field::Comment);
        self.line = Line::Start;
        end + eol(rest.get(end..).unwrap_or_default()).0
    }
}

fn is_eol(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// Length of the end of line at the beginning of `rest`, and whether its LF may still follow.
fn eol(rest: &[u8]) -> (usize, bool) {
    match rest {
        [b'\r', b'\n', ..] => (2, false),
        [b'\r'] => (1, true),
        _ => (1, false),
    }
}
