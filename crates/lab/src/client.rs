//! A client of an OpenAI-compatible server that measures nothing itself: it sends, reads the answer along, and says how it
//! ended.

mod outcome;
mod reused;
mod stream;

pub use outcome::Outcome;
pub use stream::Told;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reused::Reused;
use std::pin::pin;
use std::time::Duration;

/// Idle connections are given up long before the server closes them (uvicorn: after 5 s), so that a busy machine does not
/// turn a request on a closing connection into a failure that is nobody's.
const IDLE: Duration = Duration::from_secs(1);

/// A connection that breaks later than this after a request has gone out on it was not just being closed: the request has
/// been worked on, and its failure is a failure. The gateway gives its replicas as long.
const CLOSING_AT_MOST: Duration = Duration::from_secs(2);
/// A page is there by then, or never.
const PAGE_AT_MOST: Duration = Duration::from_secs(30);
/// Bytes of an answer that is no stream, at most.
const MAX_WHOLE: usize = 16 << 20;

/// The base URL is none that requests can be sent to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// It is no `http://` URL.
    #[error("not an http:// URL with a host: {0}")]
    Url(String),
    /// The key has characters that no header can carry.
    #[error("the key is not a single word of printable ASCII")]
    Key,
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Endpoint {
    client: Client<HttpConnector, Full<Bytes>>,
    reused: Reused,
    base: String,
    authorization: Option<HeaderValue>,
}

/// An answer that is no stream.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

impl Endpoint {
    /// `base_url`: `http://host:port`, with or without `/v1` at its end. `key` is sent as `Authorization: Bearer`.
    ///
    /// # Errors
    /// See [`BadTarget`].
    pub fn new(base_url: &str, key: Option<&str>) -> Result<Self, BadTarget> {
        let base = base_url.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        let bad = || BadTarget::Url(base_url.to_owned());
        let uri: Uri = format!("{base}/").parse().map_err(|_| bad())?;
        if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
            return Err(bad());
        }
        let bearer = |key| HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| BadTarget::Key);
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(Self { client, reused: Reused::default(), base, authorization: key.map(bearer).transpose()? })
    }

    /// A GET; given up after 30 s.
    ///
    /// # Errors
    /// How it ended without a whole answer.
    pub async fn get(&self, path: &str) -> Result<Whole, Outcome> {
        let page = async { whole(self.send(Request::get(self.uri(path)), Bytes::new()).await?).await };
        tokio::time::timeout(PAGE_AT_MOST, page).await.unwrap_or(Err(Outcome::TimedOut))
    }

    /// A POST of JSON whose answer is no stream.
    ///
    /// # Errors
    /// How it ended without a whole answer.
    pub async fn post(&self, path: &str, body: Bytes) -> Result<Whole, Outcome> {
        whole(self.send(self.posted(path), body).await?).await
    }

    /// A POST of JSON whose answer is a stream of completions. `on_events` learns with each piece how many events with
    /// content have come with it.
    pub async fn stream(
        &self,
        path: &str,
        session: &str,
        body: Bytes,
        on_events: impl FnMut(u32),
    ) -> (Outcome, Told) {
        let mut told = Told::default();
        let request = self.posted(path).header("x-session-id", session);
        let outcome = match self.send(request, body).await {
            Err(outcome) => outcome,
            Ok(response) if response.status().as_u16() != 200 => {
                let status = response.status().as_u16();
                // Read to its end so that the connection can be used again; its text is of no interest.
                let _read = whole(response).await;
                Outcome::Status(status)
            }
            Ok(response) => told.read(response.into_body(), on_events).await,
        };
        (outcome, told)
    }

    fn posted(&self, path: &str) -> http::request::Builder {
        Request::post(self.uri(path)).header(header::CONTENT_TYPE, "application/json")
    }

    fn uri(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn send(
        &self,
        mut request: http::request::Builder,
        body: Bytes,
    ) -> Result<Response<Incoming>, Outcome> {
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        // A URI that does not parse, or a session that no header can carry.
        let request = request.body(Full::new(body)).map_err(|_| Outcome::NoAnswer)?;
        loop {
            let mut answer = pin!(self.client.request(request.clone()));
            let (answer, soon) = match tokio::time::timeout(CLOSING_AT_MOST, &mut answer).await {
                Ok(answer) => (answer, true),
                Err(_) => (answer.await, false),
            };
            match answer {
                Ok(response) => {
                    self.reused.answered(&response);
                    return Ok(response);
                }
                Err(error) if error.is_connect() => return Err(Outcome::NotConnected),
                Err(error) if self.reused.broke(&error) && soon => {}
                Err(_) => return Err(Outcome::NoAnswer),
            }
        }
    }
}

async fn whole(response: Response<Incoming>) -> Result<Whole, Outcome> {
    let status = response.status().as_u16();
    match Limited::new(response.into_body(), MAX_WHOLE).collect().await {
        Ok(body) => Ok(Whole { status, body: body.to_bytes() }),
        Err(error) if error.is::<LengthLimitError>() => Err(Outcome::NoAnswer),
        Err(_) => Err(Outcome::Cut),
    }
}

#[cfg(test)]
mod tests;
