//! What a request asks for, read from the edges of its body: gateways that write it anew put the fields on either side
//! of the messages.

use memchr::memmem;

/// How much of each edge is kept.
const EDGE: usize = 512;

/// The first and the last bytes of a body, and how long it is.
#[derive(Default)]
pub(super) struct Asked {
    start: Vec<u8>,
    end: Vec<u8>,
    pub(super) received: usize,
}

impl Asked {
    pub(super) fn read(&mut self, piece: &[u8]) {
        self.received += piece.len();
        let missing = EDGE - self.start.len();
        self.start.extend_from_slice(&piece[..missing.min(piece.len())]);
        let last = &piece[piece.len().saturating_sub(EDGE)..];
        let surplus = (self.end.len() + last.len()).saturating_sub(EDGE);
        self.end.drain(..surplus);
        self.end.extend_from_slice(last);
    }

    pub(super) fn stream(&self) -> bool {
        self.is_true("\"stream\"")
    }

    pub(super) fn usage(&self) -> bool {
        self.is_true("\"include_usage\"")
    }

    /// Tokens of the answer; 100 where nothing is said.
    pub(super) fn max_tokens(&self) -> u32 {
        let value = self.value("\"max_tokens\"").or_else(|| self.value("\"max_completion_tokens\""));
        let digits: Vec<u8> =
            value.unwrap_or_default().iter().copied().take_while(u8::is_ascii_digit).collect();
        std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(100)
    }

    fn is_true(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.starts_with(b"true"))
    }

    fn value(&self, name: &str) -> Option<&[u8]> {
        [&self.start, &self.end].into_iter().find_map(|edge| {
            let after = &edge[memmem::find(edge, name.as_bytes())? + name.len()..];
            Some(after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, EDGE};

    #[test]
    fn fields_are_found_on_either_side_of_the_messages_and_across_pieces() {
        let prompt = "x".repeat(3 * EDGE);
        let bodies = [
            format!(r#"{{"stream":true,"max_tokens":7,"messages":"{prompt}"}}"#),
            format!(r#"{{"messages":"{prompt}","max_tokens": 7, "stream": true}}"#),
        ];
        for body in bodies {
            for size in [1, 100, 10_000] {
                let mut asked = Asked::default();
                body.as_bytes().chunks(size).for_each(|piece| asked.read(piece));
                assert!(asked.stream() && !asked.usage(), "{body}");
                assert_eq!((asked.max_tokens(), asked.received), (7, body.len()));
            }
        }
    }
}
