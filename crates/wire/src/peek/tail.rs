//! The last texts of a conversation, and who said them.

use std::collections::VecDeque;

use super::cursor::{Cursor, Text};
use super::turns::{Role, Turns};
use super::{Peek, Shape, Span};

/// Most texts that are kept: what is said in shorter pieces is cut earlier.
const MAX_TEXTS: usize = 4096;

/// The last texts of the turns, bounded by their bytes as written and by their number.
pub(super) struct Tail {
    texts: VecDeque<Said>,
    /// Bytes of all of them.
    raw: usize,
    /// So many bytes are enough.
    enough: usize,
    /// Texts of the turn that is being read: who says them is not known yet.
    open: usize,
}

/// One text of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) by: &'static str,
    /// The string, quotes included.
    pub(crate) span: Span,
    /// No text of its turn stands before it.
    pub(crate) first: bool,
}

/// The texts of the conversation's end, in order: at least `enough` bytes of them as written, where there are as many.
/// Not among them: the system prompt ahead of the turns, which is in [`Peek::system`].
pub(crate) fn last_texts(body: &[u8], peek: &Peek, shape: Shape, enough: usize) -> Vec<Said> {
    let Some(region) = &peek.turns else { return Vec::new() };
    let mut turns = Turns::new(shape);
    turns.tail = Some(Tail { texts: VecDeque::new(), raw: 0, enough, open: 0 });
    // The peek has read it without an error before.
    let _read = turns.read(&mut Cursor { body, at: region.start });
    turns.tail.map(|tail| tail.texts.into()).unwrap_or_default()
}

impl Tail {
    pub(super) fn push(&mut self, text: &Text) {
        if text.raw_len() == 0 {
            return;
        }
        self.texts.push_back(Said { by: "", span: text.span.clone(), first: self.open == 0 });
        self.open += 1;
        self.raw += text.raw_len();
        while let Some(oldest) = self.texts.front().map(Said::raw_len)
            && (self.raw - oldest >= self.enough || self.texts.len() > MAX_TEXTS)
        {
            self.raw -= oldest;
            self.texts.pop_front();
        }
    }

    /// The turn that is being read ends. `by`: who said it; None: it is not wanted.
    pub(super) fn close(&mut self, by: Option<Role>) {
        let open = std::mem::take(&mut self.open).min(self.texts.len());
        let begins = self.texts.len() - open;
        match by {
            Some(by) => self.texts.range_mut(begins..).for_each(|said| said.by = name(by)),
            None => self.raw -= self.texts.drain(begins..).map(|said| said.raw_len()).sum::<usize>(),
        }
    }
}

impl Said {
    fn raw_len(&self) -> usize {
        self.span.len().saturating_sub(2)
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Another => "tool",
    }
}
