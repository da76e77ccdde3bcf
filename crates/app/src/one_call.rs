//! One HTTP call on a connection of its own.

use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An answer larger than this many bytes is refused.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// For the whole call.
const LIMIT: Duration = Duration::from_secs(10);

/// Status and body of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends `request` to `address` (`HOST:PORT`) and reads the answer. `listener` names who should answer there, for
/// the message if nobody does.
///
/// # Errors
/// Nobody answers, or not within 10 s, or with more than 16 MiB.
pub(crate) async fn call(
    address: &str,
    request: Request<Full<Bytes>>,
    listener: &str,
) -> anyhow::Result<Answer> {
    let whole = tokio::time::timeout(LIMIT, exchange(address, request, listener));
    whole.await.with_context(|| format!("no answer from {address} within {LIMIT:?}"))?
}

async fn exchange(address: &str, request: Request<Full<Bytes>>, listener: &str) -> anyhow::Result<Answer> {
    let place = || format!("no {listener} answers at http://{address}");
    let stream = TcpStream::connect(address).await.with_context(place)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes().to_vec();
        anyhow::Ok(Answer { status, body })
    };
    // The connection's own end carries no news beyond what the exchange says.
    let (answer, _) = tokio::join!(exchange, connection);
    answer
}
