//! The chunked coding, read as the bytes come.

/// Where in the coding the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the size line, before its end; the size so far.
    Size(u64),
    /// Behind a `;` of the size line.
    Extension(u64),
    /// In the payload; bytes that are left of it.
    Payload(u64),
    /// In the line end after a payload.
    Between,
    /// In a trailer line; whether it is empty so far.
    Trailer(bool),
    Done,
}

/// A body in the chunked coding.
#[derive(Debug, Clone, Copy)]
pub struct Chunked(Place);

/// The bytes are not in the chunked coding.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

impl Chunked {
    pub fn new() -> Self {
        Self(Place::Size(0))
    }

    pub fn is_done(&self) -> bool {
        self.0 == Place::Done
    }

    /// Reads on, hands each piece of payload out, and says how many bytes were of this body.
    pub fn read<'a>(
        &mut self,
        input: &'a [u8],
        mut payload: impl FnMut(&'a [u8]),
    ) -> Result<usize, Malformed> {
        let mut rest = input;
        while let Some((&byte, after)) = rest.split_first() {
            if let Place::Payload(left) = self.0 {
                let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let (piece, behind) = rest.split_at(taken);
                payload(piece);
                let left = left - taken as u64;
                self.0 = if left == 0 { Place::Between } else { Place::Payload(left) };
                rest = behind;
                continue;
            }
            if self.is_done() {
                break;
            }
            self.0 = self.0.after(byte)?;
            rest = after;
        }
        Ok(input.len() - rest.len())
    }
}

impl Place {
    fn after(self, byte: u8) -> Result<Self, Malformed> {
        let end_of_line = |size| if size == 0 { Self::Trailer(true) } else { Self::Payload(size) };
        Ok(match (self, byte) {
            (Self::Size(size) | Self::Extension(size), b'\n') => end_of_line(size),
            (Self::Size(size), b'\r') => Self::Size(size),
            (Self::Size(size), b';' | b' ') => Self::Extension(size),
            (Self::Size(size), _) => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                let size = size.checked_mul(16).ok_or(Malformed)?;
                Self::Size(size + u64::from(digit))
            }
            (Self::Extension(size), _) => Self::Extension(size),
            (Self::Between, b'\r') => Self::Between,
            (Self::Between, b'\n') => Self::Size(0),
            (Self::Trailer(true), b'\n') => Self::Done,
            (Self::Trailer(_), b'\n') => Self::Trailer(true),
            (Self::Trailer(empty), b'\r') => Self::Trailer(empty),
            (Self::Trailer(_), _) => Self::Trailer(false),
            (Self::Between | Self::Payload(_) | Self::Done, _) => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunked, Malformed};

    fn read(pieces: &[&[u8]]) -> Result<(String, bool), Malformed> {
        let (mut body, mut text) = (Chunked::new(), Vec::new());
        for piece in pieces {
            body.read(piece, |payload| text.extend_from_slice(payload))?;
        }
        Ok((String::from_utf8_lossy(&text).into_owned(), body.is_done()))
    }

    #[test]
    fn a_body_cut_at_every_byte_is_the_same_body() {
        let whole = b"4\r\nwiki\r\n1A;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nx: y\r\n\r\n";
        let expected = ("wikiabcdefghijklmnopqrstuvwxyz".to_owned(), true);
        for cut in 0..whole.len() {
            let (first, second) = whole.split_at(cut);
            assert_eq!(read(&[first, second]), Ok(expected.clone()), "cut at {cut}");
        }
    }

    #[test]
    fn what_follows_the_body_is_left_alone() {
        assert_eq!(Chunked::new().read(b"0\r\n\r\nHTTP/1.1", |_| ()), Ok(5));
    }

    #[test]
    fn what_is_not_chunked_is_refused() {
        for bytes in [&b"hello"[..], b"1\r\nab", b"fffffffffffffffff\r\n"] {
            assert_eq!(read(&[bytes]), Err(Malformed), "{bytes:?}");
        }
    }
}
