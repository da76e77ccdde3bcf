//! Server-sent events (WHATWG HTML, section 9.2): an observer that reads along without delaying or changing a byte.
//!
//! No event is kept to be parsed: its data runs through an incremental scanner, so an event of many MiB costs as much
//! memory as a small one (about half a KiB while it is unfinished, nothing between events). The one exception is a
//! stream whose usage-only event has to be taken out: there an unfinished event is held back, up to [`HOLD_LIMIT`].

mod event;
mod meaning;

use crate::scan::{EventKind, Facts, Word};
use crate::usage::{Counts, Usage};
use event::{Event, Read};

/// Longest event that can be taken out, and most that is held back: 16 KiB. A longer event is passed on.
pub const HOLD_LIMIT: usize = 16 * 1024;

/// A failure told inside a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The event's own code where it is like an HTTP status (400 to 599); in Messages the status that belongs to the
    /// error's type (`overloaded_error` is 529); else 500.
    pub code: u16,
    /// `type`, cut to 64 bytes of printable ASCII; else a code in words; else `error`.
    pub kind: String,
}

/// Whose events they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// `chat.completion.chunk`
    Chat,
    /// `text_completion`
    Completions,
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// Not a known kind: events are counted and read as far as they look like a known one; the stream ends by framing
    /// alone.
    Other,
}

/// What may be sent on after one `feed`: `held` (kept back by earlier feeds, usually empty) and then the first `keep`
/// bytes of the buffer.
#[derive(Debug, Default)]
pub struct Pass {
    /// Bytes kept back by earlier feeds. They go first.
    pub held: Vec<u8>,
    /// Bytes of the buffer that follow.
    pub keep: usize,
    /// A token-bearing event (content, reasoning or tool call) was completed for the first time in this feed. Where
    /// that event lacks its blank line and only [`Observer::finish`] completes it, no feed tells.
    pub first_content: bool,
}

/// Generated content that no usage has counted yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Events that carried content, reasoning or a tool call. Saturates.
    pub events: u32,
    /// Bytes of their texts: content, reasoning, refusals, names and arguments of tool calls; as written, escapes not
    /// decoded. Sound is no text. Saturates.
    pub bytes: u32,
}

/// Reads along a stream of events fed in any split. Between events it holds no heap, save the error, an unusual
/// finish reason or a response's id once there was one.
#[derive(Debug)]
pub struct Observer {
    complete: u64,
    events: u64,
    content_events: u64,
    uncounted: Uncounted,
    counts: Option<Counts>,
    finish: Option<Word>,
    error: Option<Box<StreamError>>,
    response_id: Option<Box<str>>,
    /// The event in progress.
    open: Option<Box<Event>>,
    kind: StreamKind,
    hide_usage: bool,
    begun: bool,
    ended: bool,
    /// The last byte was a CR: an LF right behind it belongs to it.
    after_cr: bool,
    /// That LF is the end of an event that was taken out.
    drop_lf: bool,
}

impl Uncounted {
    fn add(&mut self, bytes: u64) {
        self.events = self.events.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

/// What became of the bytes up to `len`.
struct Step {
    len: usize,
    hidden: bool,
}

impl Observer {
    /// `hide_usage`: take out the usage-only event (`choices: []` with usage) that the gateway asked for and the client
    /// did not. It is in chat and completions streams alone.
    pub fn new(kind: StreamKind, hide_usage: bool) -> Self {
        Self {
            complete: 0,
            events: 0,
            content_events: 0,
            uncounted: Uncounted::default(),
            counts: None,
            finish: None,
            error: None,
            response_id: None,
            open: None,
            kind,
            hide_usage: hide_usage && matches!(kind, StreamKind::Chat | StreamKind::Completions),
            begun: false,
            ended: false,
            after_cr: false,
            drop_lf: false,
        }
    }

    /// Bytes of the body (framing already removed). The buffer is compacted in place where an event is taken out.
    pub fn feed(&mut self, buf: &mut [u8]) -> Pass {
        let mut pass = Pass::default();
        let content_before = self.content_events;
        let mut at = 0;
        while at < buf.len() {
            let held = self.open.as_mut().map(|event| std::mem::take(&mut event.held));
            let Some(step) = self.step(buf.get(at..).unwrap_or_default()) else {
                self.hold_or_pass(buf, at, held.unwrap_or_default(), &mut pass);
                break;
            };
            let end = at + step.len;
            if !step.hidden {
                if let Some(held) = held {
                    pass.held = held;
                }
                if at != pass.keep {
                    buf.copy_within(at..end, pass.keep);
                }
                pass.keep += step.len;
            }
            at = end;
        }
        pass.first_content = content_before == 0 && self.content_events > 0;
        pass
    }

    /// At the end of the body: what was still held back. An event whose blank line is missing counts if its data is
    /// complete.
    pub fn finish(&mut self) -> Vec<u8> {
        let Some(mut event) = self.open.take() else {
            return Vec::new();
        };
        let held = std::mem::take(&mut event.held);
        if event.data_complete() && self.close(&event) {
            return Vec::new();
        }
        // It goes out unfinished: what is passed on does not end at a boundary.
        event.released = true;
        self.open = Some(event);
        held
    }

    /// Complete events with data and complete comments so far (a complete comment releases the head as well).
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// Events with data so far (comments and `[DONE]` not counted).
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events that carried content, reasoning or a tool call.
    pub fn content_events(&self) -> u64 {
        self.content_events
    }

    /// What was generated since the last usage that counted completion tokens: all of it where there was none. An event
    /// that has both is counted by its usage.
    pub fn uncounted(&self) -> Uncounted {
        self.uncounted
    }

    /// The last usage seen: running totals are not summed. Messages tell it in two parts, which are merged.
    pub fn usage(&self) -> Option<Usage> {
        self.counts.and_then(|counts| counts.usage())
    }

    /// The last finish reason seen of any choice, but an `abort` stays; `stop_reason` in Messages; the final status in
    /// Responses.
    pub fn finish_reason(&self) -> Option<&str> {
        self.finish.as_deref()
    }

    /// The first error told in the stream.
    pub fn error(&self) -> Option<&StreamError> {
        self.error.as_deref()
    }

    /// Responses: the `id` of the first event that holds a response, printable ASCII, at most [`MAX_RESPONSE_ID`](crate::MAX_RESPONSE_ID) bytes as written.
    pub fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// The kind's own end was seen: `[DONE]`, `message_stop`, `response.completed`, `.incomplete` or `.failed`.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// True between events: what was passed on ends with a blank line (so an error event can be put in without closing
    /// a partial line), or is nothing yet.
    pub fn at_boundary(&self) -> bool {
        self.open.as_ref().is_none_or(|event| self.hide_usage && !event.released)
    }

    /// Reads to the end of the event; `None` when it goes on beyond `bytes`.
    fn step(&mut self, bytes: &[u8]) -> Option<Step> {
        let lf = std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n');
        if lf && self.open.is_none() {
            return Some(Step { len: 1, hidden: self.drop_lf });
        }
        if let Some(mut event) = self.open.take() {
            let step = self.read(&mut event, bytes, lf);
            self.open = step.is_none().then_some(event);
            return step;
        }
        let mut event = Event::new(!std::mem::replace(&mut self.begun, true));
        let step = self.read(&mut event, bytes, lf);
        if step.is_none() {
            self.open = Some(Box::new(event));
        }
        step
    }

    /// `lf`: the first byte belongs to what was before it.
    fn read(&mut self, event: &mut Event, bytes: &[u8], lf: bool) -> Option<Step> {
        let from = usize::from(lf);
        let read = event.read(bytes.get(from..).unwrap_or_default());
        event.len += from as u64;
        self.complete += std::mem::take(&mut event.comments);
        match read {
            Read::Open { after_cr } => {
                self.after_cr = after_cr;
                None
            }
            Read::End { len, after_cr } => {
                self.after_cr = after_cr;
                let hidden = self.close(event);
                self.drop_lf = hidden;
                Some(Step { len: from + len, hidden })
            }
        }
    }

    /// The rest of the buffer belongs to an unfinished event.
    fn hold_or_pass(&mut self, buf: &mut [u8], at: usize, mut held: Vec<u8>, pass: &mut Pass) {
        let Some(event) = self.open.as_mut().filter(|event| self.hide_usage && !event.released) else {
            buf.copy_within(at.., pass.keep);
            pass.keep += buf.len() - at;
            return;
        };
        if event.len >= HOLD_LIMIT as u64 {
            event.released = true;
            pass.held = held;
            buf.copy_within(at.., pass.keep);
            pass.keep += buf.len() - at;
        } else {
            held.extend_from_slice(buf.get(at..).unwrap_or_default());
            event.held = held;
        }
    }

    /// Takes the facts of a finished event; whether it is to be taken out.
    fn close(&mut self, event: &Event) -> bool {
        if !event.has_data {
            return false;
        }
        self.complete += 1;
        if event.is_done_marker() {
            self.ended |= meaning::ends_with_done(self.kind);
            return false;
        }
        self.events += 1;
        self.take(&event.facts, event.name());
        self.hide_usage
            && event.len <= HOLD_LIMIT as u64
            && event.scan.done()
            && meaning::usage_only(&event.facts)
    }

    fn take(&mut self, facts: &Facts, name: &[u8]) {
        let kind = match facts.kind {
            EventKind::Untold if !name.is_empty() => EventKind::of(name),
            kind => kind,
        };
        if self.kind == StreamKind::Responses && self.response_id.is_none() {
            self.response_id.clone_from(&facts.id);
        }
        if meaning::content(self.kind, kind, facts) {
            self.content_events += 1;
            self.uncounted.add(meaning::content_bytes(kind, facts));
        }
        self.ended |= meaning::ends(self.kind, kind);
        if let Some(counts) = &facts.counts {
            if counts.has_completion() {
                self.uncounted = Uncounted::default();
            }
            match &mut self.counts {
                Some(earlier) if self.kind == StreamKind::Messages => earlier.merge(counts),
                earlier => *earlier = Some(*counts),
            }
        }
        if let Some(reason) = meaning::finish(self.kind, kind, facts)
            && self.finish.as_deref() != Some("abort")
        {
            self.finish = Some(reason.clone());
        }
        if self.error.is_none() && meaning::is_error(kind, name, facts) {
            self.error = Some(Box::new(meaning::error(self.kind, facts)));
        }
    }
}

#[cfg(test)]
mod tests;
