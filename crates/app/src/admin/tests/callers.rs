//! What a web page can make a browser send, and what others send.

use sluicegate_testkit::patiently;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Bench;

const HOST: &str = "Host: 127.0.0.1:9090\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const TOKEN: &str = "Authorization: Bearer s3cret\r\n";
const DRAIN: &str = r#"{"pool":"big","replica":"http://10.0.0.1:8000"}"#;

impl Bench {
    /// The status of the answer to a request with exactly these header lines.
    async fn status(&self, line: &str, headers: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(self.server.address()).await.unwrap();
        let request =
            format!("{line}\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        patiently(stream.read_to_string(&mut answer)).await.unwrap();
        answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
    }

    async fn get_status(&self, headers: &str) -> u16 {
        self.status("GET /api/state HTTP/1.1", headers, "").await
    }

    async fn drain_status(&self, headers: &str) -> u16 {
        self.status("POST /api/replicas/drain HTTP/1.1", headers, DRAIN).await
    }

    fn drained(&self) -> bool {
        !self.gateway.drained.lock().unwrap().is_empty()
    }
}

#[tokio::test]
async fn without_a_token_only_names_that_nobody_else_can_own_are_answered() {
    let bench = Bench::start(None);
    for (host, status) in [
        ("127.0.0.1:9090", 200),
        ("127.0.0.1", 200),
        ("10.1.2.3:80", 200),
        ("[::1]:9090", 200),
        ("[::1]", 200),
        ("localhost", 200),
        ("LocalHost:1", 200),
        ("evil.example", 403),
        ("evil.example:9090", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:9090", 403),
        ("[evil.example]", 403),
        ("localhost@evil.example", 400),
        ("evil.example@localhost", 400),
        ("", 400),
        (":9090", 400),
        ("a b", 400),
    ] {
        assert_eq!(bench.get_status(&format!("Host: {host}\r\n")).await, status, "{host:?}");
    }
    for path in ["/healthz", "/readyz", "/metrics", "/nowhere"] {
        let line = format!("GET {path} HTTP/1.1");
        assert_eq!(bench.status(&line, "Host: evil.example\r\n", "").await, 403, "{path}");
    }
}

#[tokio::test]
async fn a_request_names_exactly_one_host() {
    for (token, secret) in [(None, ""), (Some("s3cret"), TOKEN)] {
        let bench = Bench::start(token);
        for headers in
            ["", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nHost: evil.example\r\n"]
        {
            assert_eq!(bench.get_status(&format!("{secret}{headers}")).await, 400, "{token:?} {headers:?}");
        }
        let line = "GET http://evil.example/api/state HTTP/1.1";
        assert_eq!(bench.status(line, &format!("{secret}{HOST}"), "").await, 400, "the target's host counts");
    }
}

#[tokio::test]
async fn a_probe_of_http_1_0_may_name_no_host_where_there_is_a_token() {
    for (token, status) in [(None, 400), (Some("s3cret"), 200)] {
        assert_eq!(Bench::start(token).status("GET /healthz HTTP/1.0", "", "").await, status, "{token:?}");
    }
}

#[tokio::test]
async fn a_foreign_page_changes_nothing() {
    for headers in [
        "Origin: http://evil.example\r\n",
        "Origin: https://127.0.0.1:9090\r\n",
        "Origin: http://127.0.0.1:3000\r\n",
        "Origin: http://127.0.0.1\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1:9090\r\nOrigin: http://evil.example\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://127.0.0.1:9090\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        let bench = Bench::start(None);
        assert_eq!(bench.drain_status(&format!("{HOST}{JSON}{headers}")).await, 403, "{headers:?}");
        assert!(!bench.drained(), "{headers:?}");
    }
}

#[tokio::test]
async fn the_administrator_changes_what_it_wants() {
    for headers in [
        "",
        "Origin: http://127.0.0.1:9090\r\n",
        "Origin: http://127.0.0.1:9090\r\nSec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: none\r\n",
    ] {
        let bench = Bench::start(None);
        assert_eq!(bench.drain_status(&format!("{HOST}{JSON}{headers}")).await, 200, "{headers:?}");
        assert!(bench.drained(), "{headers:?}");
    }
}

#[tokio::test]
async fn what_a_form_can_send_is_no_json_with_or_without_a_token() {
    for (content_type, status) in [
        ("", 415),
        ("Content-Type: text/plain\r\n", 415),
        ("Content-Type: application/x-www-form-urlencoded\r\n", 415),
        ("Content-Type: text/plain; application/json\r\n", 415),
        ("Content-Type: application/jsonp\r\n", 415),
        ("Content-Type: application/json\r\nContent-Type: text/plain\r\n", 415),
        ("Content-Type: application/json\r\n", 200),
        ("content-type: Application/JSON ; charset=utf-8\r\n", 200),
    ] {
        for (token, secret) in [(None, ""), (Some("s3cret"), TOKEN)] {
            let bench = Bench::start(token);
            let headers = format!("{HOST}{secret}{content_type}");
            assert_eq!(bench.drain_status(&headers).await, status, "{token:?} {content_type:?}");
            assert_eq!(bench.drained(), status == 200, "{token:?} {content_type:?}");
        }
    }
}

#[tokio::test]
async fn a_token_is_enough_whatever_the_names() {
    let bench = Bench::start(Some("s3cret"));
    let page = "Host: gateway.example\r\nOrigin: http://console.example\r\nSec-Fetch-Site: cross-site\r\n";
    assert_eq!(bench.drain_status(&format!("{page}{JSON}")).await, 401);
    assert!(!bench.drained());
    assert_eq!(bench.drain_status(&format!("{page}{JSON}{TOKEN}")).await, 200);
    assert!(bench.drained());
}

#[tokio::test]
async fn a_refusal_is_json_and_says_what_to_do() {
    let bench = Bench::start(None);
    let mut stream = TcpStream::connect(bench.server.address()).await.unwrap();
    stream
        .write_all(b"GET /api/state HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    patiently(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("content-type: application/json"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["code"], "foreign_host");
    assert!(body["error"]["message"].as_str().unwrap().contains("token"), "{body}");
}
