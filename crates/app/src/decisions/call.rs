//! One question on the network, with whichever token is taken.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sluicegate_proxy::{Abstention, tls_config};
use tokio::time::Instant;

use super::tokens::Tokens;
use crate::config::DecisionServicePlan;

/// A longer answer is a mistake.
const LARGEST: usize = 64 << 10;
/// Connections that are kept without use, and for how long.
const KEPT: usize = 32;
const KEPT_FOR: Duration = Duration::from_secs(30);
/// How a service says that this token may not ask, or not now.
const REFUSALS: [u16; 3] = [401, 403, 429];

/// The way to one service.
pub(super) struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    tokens: Tokens,
    timeout: Duration,
}

impl Caller {
    pub(super) fn new(plan: &DecisionServicePlan) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // A connection that is still being made when its question is over would be made for ever.
        http.set_connect_timeout(Some(plan.timeout));
        let tls = (*tls_config()).clone();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT_FOR)
            .pool_max_idle_per_host(KEPT)
            .build(connector.enable_http1().wrap_connector(http));
        let tokens = Tokens::new(&plan.tokens);
        Self { client, uri: plan.uri.clone(), tokens, timeout: plan.timeout }
    }

    /// Sends the question, to as many tokens as it takes, and returns the body of a 200.
    pub(super) async fn call(&self, question: Vec<u8>) -> Result<Bytes, Abstention> {
        let answer = tokio::time::timeout(self.timeout, self.with_a_token(question.into()));
        answer.await.unwrap_or(Err(Abstention::Timeout))
    }

    async fn with_a_token(&self, question: Bytes) -> Result<Bytes, Abstention> {
        if self.tokens.is_empty() {
            let response = self.send(&question, None).await?;
            return match REFUSALS.contains(&response.status().as_u16()) {
                true => Err(Abstention::Refused),
                false => body(response).await,
            };
        }
        // Each that is refused rests, so the turns end.
        while let Some((number, field)) = self.tokens.choose(Instant::now()) {
            let response = self.send(&question, Some(field)).await?;
            let status = response.status().as_u16();
            if !REFUSALS.contains(&status) {
                return body(response).await;
            }
            self.tokens.refused(number, Instant::now());
            let service = self.uri.host().unwrap_or_default();
            tracing::warn!(service, status, "the decision service refuses token {}", number + 1);
        }
        Err(Abstention::Refused)
    }

    async fn send(
        &self,
        question: &Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, Abstention> {
        let mut request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")));
        if let Some(field) = authorization {
            request = request.header(AUTHORIZATION, field);
        }
        let request = request.body(Full::new(question.clone())).map_err(|_| Abstention::Unreachable)?;
        self.client.request(request).await.map_err(|error| {
            tracing::debug!(%error, "the decision service cannot be asked");
            Abstention::Unreachable
        })
    }
}

/// The whole body of a 200.
async fn body(response: Response<Incoming>) -> Result<Bytes, Abstention> {
    if response.status() != 200 {
        return Err(Abstention::Status);
    }
    match Limited::new(response.into_body(), LARGEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Abstention::TooLarge),
        Err(_) => Err(Abstention::Unreachable),
    }
}
