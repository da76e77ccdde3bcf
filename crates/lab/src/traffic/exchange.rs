//! One request and its stream, measured.

use super::TrafficConfig;
use super::conversation::Body;
use super::totals::{Outcome, Totals};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Idle connections are given up long before the server closes them (uvicorn: after 5 s), so that a busy machine does not
/// turn a request on a closing connection into a failure that is nobody's.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes of one event, at most; a longer one is not ours to understand.
const MAX_EVENT: usize = 1 << 20;

/// Where requests go.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    authorization: Option<HeaderValue>,
}

impl Endpoint {
    /// `None` where the base URL is not `http://` and a host, or the key cannot be a header.
    pub(super) fn new(config: &TrafficConfig) -> Option<Self> {
        let base = config.base_url.trim_end_matches('/');
        let uri: Uri = format!("{base}/v1/chat/completions").parse().ok()?;
        if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
            return None;
        }
        let authorization = match &config.api_key {
            Some(key) => Some(HeaderValue::from_str(&format!("Bearer {key}")).ok()?),
            None => None,
        };
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Some(Self { client, uri, authorization })
    }

    /// Sends a request and reads its stream; the answer's text where it ended well.
    pub(super) async fn exchange(&self, session: &str, body: Body, totals: &Mutex<Totals>) -> Option<String> {
        lock(totals).sent(body.json.len(), body.heavy);
        let mut sent = Sent { totals, at: Instant::now(), outcome: Outcome::BrokenOff };
        let answer = self.send(session, body.json).await;
        let response = match answer {
            None => {
                sent.outcome = Outcome::NoAnswer;
                return None;
            }
            Some(response) if response.status().as_u16() != 200 => {
                sent.outcome = Outcome::Status(response.status().as_u16());
                // Read to its end so that the connection can be used again; its text is of no interest.
                let _read = response.into_body().collect().await;
                return None;
            }
            Some(response) => response,
        };
        let mut stream = ChatStream::default();
        let outcome =
            stream.read(response.into_body(), || lock(totals).first_token.record(sent.at.elapsed())).await;
        sent.outcome = outcome;
        let mut totals = lock(totals);
        totals.prompt_tokens += stream.prompt_tokens;
        totals.cached_tokens += stream.cached_tokens;
        totals.completion_tokens += stream.completion_tokens;
        drop(totals);
        (outcome == Outcome::Ok).then_some(stream.text)
    }

    async fn send(&self, session: &str, body: String) -> Option<Response<Incoming>> {
        let mut request = Request::post(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-session-id", session);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(Bytes::from(body))).ok()?;
        self.client.request(request).await.ok()
    }
}

/// A request under way. Its drop books the outcome, so that one whose future is dropped is counted too.
struct Sent<'a> {
    totals: &'a Mutex<Totals>,
    at: Instant,
    outcome: Outcome,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        lock(self.totals).end(self.outcome, self.at.elapsed());
    }
}

fn lock(totals: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a chat stream has said so far.
#[derive(Debug, Default)]
pub(super) struct ChatStream {
    /// Bytes of an event that is not complete.
    rest: Vec<u8>,
    text: String,
    finished: bool,
    done: bool,
    error: Option<u16>,
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
}

impl ChatStream {
    async fn read(&mut self, mut body: Incoming, on_first_content: impl FnOnce()) -> Outcome {
        let mut on_first_content = Some(on_first_content);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Outcome::Cut };
            let Ok(bytes) = frame.into_data() else { continue };
            self.feed(&bytes);
            if !self.text.is_empty()
                && let Some(first) = on_first_content.take()
            {
                first();
            }
            if self.rest.len() > MAX_EVENT {
                return Outcome::Cut;
            }
        }
        self.outcome()
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self.error {
            Some(code) => Outcome::ErrorEvent(code),
            None if self.done && self.finished => Outcome::Ok,
            None => Outcome::Cut,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut lines = rest.split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next_if(|line| line.ends_with(b"\n")) {
            // Engines put an event's whole data on one line.
            if let Some(data) = line.strip_prefix(b"data:") {
                self.data(data.trim_ascii());
            }
        }
        self.rest.extend(lines.flatten());
    }

    fn data(&mut self, data: &[u8]) {
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        if let Some(error) = event.get("error") {
            let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            self.error = Some(code.unwrap_or(0));
        }
        if let Some(choice) = event.pointer("/choices/0") {
            self.text.push_str(choice.pointer("/delta/content").and_then(Value::as_str).unwrap_or_default());
            // A server that shuts down says "abort": the answer is not whole.
            self.finished |=
                choice.get("finish_reason").and_then(Value::as_str).is_some_and(|end| end != "abort");
        }
        if let Some(usage) = event.get("usage") {
            let tokens = |path| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
            self.prompt_tokens = tokens("/prompt_tokens");
            self.cached_tokens = tokens("/prompt_tokens_details/cached_tokens");
            self.completion_tokens = tokens("/completion_tokens");
        }
    }
}
