//! A small HTTP client for the tests.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::net::SocketAddr;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The `data:` of every event.
    pub(crate) fn events(&self) -> Vec<&str> {
        self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect()
    }

    /// Every event that is JSON; checks that `[DONE]` is the last event of all.
    pub(crate) fn json_events(&self) -> Vec<Value> {
        let events = self.events();
        let (last, events) = events.split_last().expect("a stream has events");
        assert_eq!(*last, "[DONE]");
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

pub(crate) async fn send(
    addr: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let mut request = Request::builder().method(method).uri(format!("http://{addr}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response =
        client.request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

pub(crate) async fn get(addr: SocketAddr, path: &str) -> Answer {
    send(addr, Method::GET, path, &[], "").await
}

pub(crate) async fn post(addr: SocketAddr, path: &str, body: &Value) -> Answer {
    send(addr, Method::POST, path, &[("content-type", "application/json")], &body.to_string()).await
}
