//! Just enough HTTP to ask and read.

use std::net::SocketAddr;

use serde_json::Value;
use sluicegate_testkit::patiently;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer's status and body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A connection on which one request was sent.
pub(crate) struct Sent(TcpStream);

pub(crate) async fn send(to: SocketAddr, method: &str, path: &str, body: &str) -> Sent {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    Sent(stream)
}

impl Sent {
    /// Reads until the text has come; what was read is gone.
    pub(crate) async fn read_until(&mut self, text: &str) {
        let mut read = String::new();
        while !read.contains(text) {
            let mut bytes = [0; 4096];
            let count = patiently(self.0.read(&mut bytes)).await.unwrap();
            assert_ne!(count, 0, "ended before {text:?}: {read}");
            read.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Reads to the end, whatever the end.
    pub(crate) async fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        let _ = patiently(self.0.read_to_end(&mut bytes)).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) async fn answer(self) -> Answer {
        let text = self.rest().await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Answer { status, body: body.to_owned() }
    }
}

pub(crate) async fn get(from: SocketAddr, path: &str) -> Answer {
    send(from, "GET", path, "").await.answer().await
}

pub(crate) async fn post(to: SocketAddr, path: &str, body: &str) -> Answer {
    send(to, "POST", path, body).await.answer().await
}

pub(crate) fn chat(max_tokens: u32, stream: bool) -> String {
    format!(
        r#"{{"model":"sim","stream":{stream},"max_tokens":{max_tokens},"ignore_eos":true,"messages":[{{"role":"user","content":"Hello"}}]}}"#
    )
}

pub(crate) const CHAT: &str = "/v1/chat/completions";
