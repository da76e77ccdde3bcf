//! Lines of any source through one buffer of a fixed size.

use std::io::{self, ErrorKind, Read};

/// The longest line that is read. The gateway's own are below 8 KiB: each text that a client chooses is cut.
pub(crate) const LONGEST_LINE: usize = 1024 * 1024;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Without its line feed.
    Line(&'a [u8]),
    /// Longer than the buffer; the next call passes it over.
    TooLong,
}

/// Cuts what a source gives into lines. Nothing is copied but the part of a line at the buffer's end.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Box<[u8]>,
    /// What was read and not yet given out.
    start: usize,
    end: usize,
    ended: bool,
    /// Whether the rest of a line that was too long comes next.
    inside_long: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self::with_longest(source, LONGEST_LINE)
    }

    fn with_longest(source: R, longest: usize) -> Self {
        Self {
            source,
            buffer: vec![0; longest + 1].into(),
            start: 0,
            end: 0,
            ended: false,
            inside_long: false,
        }
    }

    /// The next line; a last one without a line feed counts. None at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Found<'_>>> {
        // Only when somebody asks for what is behind it: a file may be one line without an end.
        if std::mem::take(&mut self.inside_long) {
            self.skip_line()?;
        }
        let Some((length, whole)) = self.find_line()? else { return Ok(None) };
        let from = self.start;
        self.start += length;
        if !whole {
            self.inside_long = true;
            return Ok(Some(Found::TooLong));
        }
        let bytes = self.buffer.get(from..from + length).unwrap_or_default();
        Ok(Some(Found::Line(bytes.strip_suffix(b"\n").unwrap_or(bytes))))
    }

    /// Length with the line feed, and whether it is the whole line.
    fn find_line(&mut self) -> io::Result<Option<(usize, bool)>> {
        let mut looked_at = 0;
        loop {
            let held = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', held.get(looked_at..).unwrap_or_default()) {
                return Ok(Some((looked_at + at + 1, true)));
            }
            looked_at = held.len();
            if self.ended {
                return Ok((looked_at > 0).then_some((looked_at, true)));
            }
            if looked_at == self.buffer.len() {
                return Ok(Some((looked_at, false)));
            }
            self.fill()?;
        }
    }

    /// Forgets everything up to and with the next line feed.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let held = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', held) {
                self.start += at + 1;
                return Ok(());
            }
            self.start = self.end;
            if self.ended {
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let space = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read = loop {
            match self.source.read(space) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.end += read;
        self.ended = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives out a few bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
            let step = self.1.min(space.len()).min(self.0.len());
            let (now, later) = self.0.split_at(step);
            space[..step].copy_from_slice(now);
            self.0 = later;
            Ok(step)
        }
    }

    #[test]
    fn a_line_without_an_end_is_too_long_and_not_read_to_its_end() {
        let mut lines = Lines::with_longest(io::repeat(b'x'), 8);
        assert_eq!(lines.next().unwrap(), Some(Found::TooLong));
    }

    proptest! {
        #[test]
        fn lines_are_cut_at_line_feeds_however_the_source_gives_them(
            lines in proptest::collection::vec("[a-c]{0,12}", 0..12), last in "[a-c]{0,12}", step in 1_usize..9,
        ) {
            let longest = 8;
            let mut text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            text.push_str(&last);
            let mut reader = Lines::with_longest(Drip(text.as_bytes(), step), longest);
            for line in lines.iter().chain((!last.is_empty()).then_some(&last)) {
                let expected = if line.len() > longest { Found::TooLong } else { Found::Line(line.as_bytes()) };
                prop_assert_eq!(reader.next().unwrap(), Some(expected));
            }
            prop_assert_eq!(reader.next().unwrap(), None);
        }
    }
}
