//! The rest of a sample line: labels, value, and a time stamp or exemplar that nobody asks for.

/// Longest text taken for a number; a 64-bit float in full takes less.
const MAX_NUMBER: usize = 64;

/// One sample.
pub(super) struct Sample<'t> {
    labels: &'t [u8],
    value: f64,
}

/// Reads what follows a series' name. `None`: malformed.
pub(super) fn sample(rest: &[u8]) -> Option<Sample<'_>> {
    let (labels, rest) = match rest.strip_prefix(b"{") {
        Some(inside) => {
            let end = labels_end(inside)?;
            (inside.get(..end)?, inside.get(end + 1..)?)
        }
        None => (&b""[..], rest),
    };
    let token = rest.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    number(token).map(|value| Sample { labels, value })
}

impl<'t> Sample<'t> {
    /// The value as a count. `None`: NaN, infinite or negative.
    pub(super) fn count(&self) -> Option<u64> {
        as_count(self.value)
    }

    /// The value as a share, held within 0..=1. `None`: NaN, infinite or negative.
    pub(super) fn share(&self) -> Option<f64> {
        (self.value.is_finite() && self.value >= 0.0).then(|| self.value.min(1.0))
    }

    /// The raw text of a label's value. Values with escapes are returned with them.
    pub(super) fn label(&self, name: &[u8]) -> Option<&'t [u8]> {
        let mut rest = self.labels;
        while let Some(equals) = memchr::memchr(b'=', rest) {
            let key = rest.get(..equals)?.trim_ascii();
            let quoted = rest.get(equals + 1..)?.trim_ascii_start().strip_prefix(b"\"")?;
            let end = quote_end(quoted)?;
            if key == name {
                return quoted.get(..end);
            }
            let after = quoted.get(end + 1..)?.trim_ascii_start();
            rest = after.strip_prefix(b",").unwrap_or(after);
        }
        None
    }
}

/// A whole number within a label.
pub(super) fn count(text: &[u8]) -> Option<u64> {
    number(text).and_then(as_count)
}

fn as_count(value: f64) -> Option<u64> {
    // Floats beyond 64 bits become the largest count.
    (value.is_finite() && value >= 0.0).then_some(value.round() as u64)
}

fn number(token: &[u8]) -> Option<f64> {
    let token = Some(token).filter(|token| token.len() <= MAX_NUMBER)?;
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// The closing brace that stands in no label's value.
fn labels_end(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'}', b'"', text.get(from..)?)?;
        if text.get(at) == Some(&b'}') {
            return Some(at);
        }
        from = at + 1;
        from += quote_end(text.get(from..)?)? + 1;
    }
}

/// The closing quote, past escapes.
fn quote_end(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}
