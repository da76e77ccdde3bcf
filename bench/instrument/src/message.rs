//! Heads and bodies of HTTP/1.1 messages, as far as a load and a replica on one machine need them.

use anyhow::{Context, Result, bail};
use httparse::{EMPTY_HEADER, Header, Status};

use crate::chunked::Chunked;

/// More field lines than any peer sends.
const MAX_FIELDS: usize = 64;

/// What is still to come of a body.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    Chunked(Chunked),
}

/// A response's head.
pub struct Answer {
    pub status: u16,
    pub body: Body,
    /// The connection ends with this answer.
    pub closes: bool,
}

/// A request's head.
pub struct Request {
    pub method: String,
    pub path: String,
    pub body: Body,
}

impl Body {
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.is_done(),
        }
    }

    /// Reads on, hands each piece of payload out, and says how many bytes were of this body.
    pub fn read<'a>(&mut self, input: &'a [u8], mut payload: impl FnMut(&'a [u8])) -> Result<usize> {
        match self {
            Self::Length(left) => {
                let taken = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                payload(&input[..taken]);
                Ok(taken)
            }
            Self::Chunked(chunked) => match chunked.read(input, payload) {
                Ok(taken) => Ok(taken),
                Err(_) => bail!("a body that is not in the chunked coding it announces"),
            },
        }
    }

    fn of(fields: &[Header<'_>], without: u64) -> Result<Self> {
        if fields.iter().any(|field| field.name.eq_ignore_ascii_case("transfer-encoding")) {
            return Ok(Self::Chunked(Chunked::new()));
        }
        let length = fields.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
        let Some(length) = length else { return Ok(Self::Length(without)) };
        let digits = std::str::from_utf8(length.value).context("a content-length that is no text")?;
        Ok(Self::Length(digits.trim().parse().context("a content-length that is no number")?))
    }
}

/// The head of an answer and its length, once it is whole.
pub fn answer(bytes: &[u8]) -> Result<Option<(Answer, usize)>> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let Status::Complete(length) = head.parse(bytes).context("an answer without a readable head")? else {
        return Ok(None);
    };
    let status = head.code.unwrap_or_default();
    let closes = head.headers.iter().any(|field| {
        field.name.eq_ignore_ascii_case("connection") && field.value.eq_ignore_ascii_case(b"close")
    });
    // Without a length the body would end with the connection; none of the peers does that.
    let body = Body::of(head.headers, 0)?;
    Ok(Some((Answer { status, body, closes }, length)))
}

/// The head of a request and its length, once it is whole.
pub fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>> {
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let Status::Complete(length) = head.parse(bytes).context("a request without a readable head")? else {
        return Ok(None);
    };
    let body = Body::of(head.headers, 0)?;
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    Ok(Some((Request { method: text(head.method), path: text(head.path), body }, length)))
}

#[cfg(test)]
mod tests {
    use super::{answer, request};

    #[test]
    fn heads_are_read_once_they_are_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
        assert!(answer(&whole[..20]).expect("so far so good").is_none());
        let (head, length) = answer(whole).expect("it is readable").expect("it is whole");
        assert_eq!((head.status, head.closes, length), (200, true, whole.len() - 5));
    }

    #[test]
    fn a_request_without_a_length_has_no_body() {
        let (head, _) = request(b"GET /health HTTP/1.1\r\n\r\n").expect("readable").expect("whole");
        assert!(head.body.is_done());
        assert_eq!((head.method.as_str(), head.path.as_str()), ("GET", "/health"));
    }
}
