//! One connection's bytes, read by us and by hyper.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluicegate_wire::{
    ChunkDecoder, HeadError, RequestFraming, ResponseFraming, parse_request, parse_response,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// A request whose body came in full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    method: String,
    target: String,
    body: Vec<u8>,
}

/// Why we read no further request.
#[derive(Debug)]
#[allow(dead_code, reason = "the error is for the message of a failed assertion")]
pub(crate) enum Ending {
    /// The bytes end here, between requests or within one.
    Bytes,
    /// The last request is the last of its connection.
    Close,
    Refused(HeadError),
}

/// Reads requests with this crate.
pub(crate) fn requests_by_us(bytes: &[u8]) -> (Vec<Request>, Ending) {
    let mut seen = Vec::new();
    let mut rest = bytes;
    loop {
        let head = match parse_request(rest) {
            Ok(Some(head)) => head,
            Ok(None) => return (seen, Ending::Bytes),
            Err(error) => return (seen, Ending::Refused(error)),
        };
        let after = &rest[head.len..];
        let body = match head.framing {
            RequestFraming::None => Ok(Some((Vec::new(), 0))),
            RequestFraming::Length(length) => Ok(by_length(after, length)),
            RequestFraming::Chunked => by_chunks(after),
        };
        let (body, used) = match body {
            Ok(Some(read)) => read,
            Ok(None) => return (seen, Ending::Bytes),
            Err(error) => return (seen, Ending::Refused(error)),
        };
        seen.push(Request { method: head.method.into(), target: head.target.into(), body });
        if !head.keep_alive {
            return (seen, Ending::Close);
        }
        rest = &after[used..];
    }
}

/// Reads the answer to a GET with this crate: status and body, where both came in full.
pub(crate) fn response_by_us(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut rest = bytes;
    loop {
        let head = parse_response(rest, false).ok()??;
        let after = &rest[head.len..];
        if head.status < 200 {
            rest = after;
            continue;
        }
        let body = match head.framing {
            ResponseFraming::None => Vec::new(),
            ResponseFraming::Length(length) => by_length(after, length)?.0,
            ResponseFraming::Chunked => by_chunks(after).ok()??.0,
            ResponseFraming::Close => after.to_vec(),
        };
        return Some((head.status, body));
    }
}

fn by_length(after: &[u8], length: u64) -> Option<(Vec<u8>, usize)> {
    let length = usize::try_from(length).ok()?;
    after.get(..length).map(|body| (body.to_vec(), length))
}

fn by_chunks(after: &[u8]) -> Result<Option<(Vec<u8>, usize)>, HeadError> {
    let mut buf = after.to_vec();
    let decoded = ChunkDecoder::new().decode(&mut buf)?;
    buf.truncate(decoded.payload);
    Ok(decoded.done.then_some((buf, decoded.consumed)))
}

/// Reads requests with hyper's server; each is answered with an empty 200.
pub(crate) fn requests_by_hyper(bytes: &[u8]) -> Vec<Request> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let method = request.method().to_string();
            let target = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
            if let Ok(body) = request.into_body().collect().await {
                seen.borrow_mut().push(Request { method, target, body: body.to_bytes().to_vec() });
            }
            Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new()))
        }
    });
    run(async {
        let (peer, io) = duplex(1 << 20);
        let mut server = hyper::server::conn::http1::Builder::new();
        let connection = server.half_close(true).serve_connection(TokioIo::new(io), service);
        // How it ends is no matter: what it read is.
        let _ = tokio::join!(connection, play(peer, bytes));
    });
    seen.take()
}

/// Reads the answer to a GET with hyper's client: status and body, where both came in full.
pub(crate) fn response_by_hyper(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    run(async {
        let (peer, io) = duplex(1 << 20);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.ok()?;
        let exchange = async move {
            let request = hyper::Request::get("/").header("host", "a").body(Empty::<Bytes>::new()).ok()?;
            let response = sender.send_request(request).await.ok()?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.ok()?.to_bytes().to_vec();
            Some((status, body))
        };
        let (_, answer, ()) = tokio::join!(connection, exchange, answer_once_asked(peer, bytes));
        answer
    })
}

/// Sends the bytes and reads what comes back until the other side is done.
async fn play(mut peer: DuplexStream, bytes: &[u8]) {
    let mut answers = Vec::new();
    // The other side may close at any byte, which is not this side's concern.
    let _ = peer.write_all(bytes).await;
    let _ = peer.shutdown().await;
    let _ = peer.read_to_end(&mut answers).await;
}

/// The same, but only after a request has come: an answer before it is an error to a client.
async fn answer_once_asked(mut peer: DuplexStream, bytes: &[u8]) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") && peer.read_buf(&mut asked).await.is_ok_and(|read| read > 0) {}
    play(peer, bytes).await;
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers").block_on(future)
}
