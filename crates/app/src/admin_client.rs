//! Calls the admin side of a running gateway.

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request};

use crate::one_call::{Answer, call};

/// Where the admin side is and how it is entered.
#[derive(Clone)]
pub(crate) struct AdminClient {
    authority: String,
    token: Option<String>,
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

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Answer> {
        let posts = method == Method::POST;
        let mut request = Request::builder().method(method).uri(path).header("host", &self.authority);
        if posts {
            request = request.header("content-type", "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        call(&self.authority, request.body(Full::new(Bytes::from(body)))?, "admin listener").await
    }
}
