//! Calls the admin side of a running gateway.

use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An answer larger than this many bytes is refused.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// For the whole call.
const LIMIT: Duration = Duration::from_secs(10);

/// Where the admin side is and how it is entered.
#[derive(Clone, Debug)]
pub(crate) struct AdminClient {
    authority: String,
    token: Option<String>,
}

/// Status and body of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl AdminClient {
    /// `url`: `http://host:port` or only `host:port`.
    pub(crate) fn new(url: &str, token: Option<String>) -> anyhow::Result<Self> {
        anyhow::ensure!(!url.starts_with("https://"), "the admin side speaks http://, not https://");
        let authority = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        let parsed: hyper::http::uri::Authority = authority.parse().context("expected http://HOST:PORT")?;
        anyhow::ensure!(parsed.port_u16().is_some(), "{authority} has no port; expected http://HOST:PORT");
        Ok(Self { authority: authority.into(), token })
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Answer> {
        let whole = tokio::time::timeout(LIMIT, self.exchange(method, path, body));
        whole.await.with_context(|| format!("no answer from {} within {LIMIT:?}", self.authority))?
    }

    async fn exchange(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Answer> {
        let place = || format!("no admin listener answers at http://{}", self.authority);
        let stream = TcpStream::connect(&self.authority).await.with_context(place)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::builder().method(method).uri(path).header("host", &self.authority);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let exchange = async move {
            let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes().to_vec();
            anyhow::Ok(Answer { status, body })
        };
        // The connection's own end carries no news beyond what the exchange says.
        let (answer, _) = tokio::join!(exchange, connection);
        answer
    }
}
