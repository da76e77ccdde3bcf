#![allow(missing_docs)]
use crate::peek::Peek;
// ==== splice.rs: edits that leave every other byte alone ==============================================================
/// A bounded list of (span, replacement), applied while sending: the body itself is never copied or rewritten.
pub struct Edits {}
impl Edits {
    pub fn none() -> Self {
        unimplemented!()
    }
    /// BOM stripped; `upstream_model` put in place of the model value when given; include_usage asked for when `ask_usage`.
    pub fn new(_peek: &Peek, _upstream_model: Option<&str>, _ask_usage: bool) -> Self {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// Length after the edits.
    pub fn len(&self, _body_len: usize) -> usize {
        unimplemented!()
    }
    /// The edited body as slices, in order (for one writev).
    pub fn slices<'a>(&'a self, _body: &'a [u8]) -> smallvec::SmallVec<[&'a [u8]; 8]> {
        unimplemented!()
    }
}

