//! Providers over TLS: through the built binary, because which certificates it trusts is a matter of its process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use sluicegate_testkit::answers::{DONE, Stream, chat_answer, chat_json, error_answer, polite, text_event};
use sluicegate_testkit::{Count, Gate, OnHead, Step, Upstream, send};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::http::{Answer, CHAT, post};
use crate::process::{BINARY, Process};

const BODY: &str = r#"{"model":"m1","messages":[{"role":"user","content":"hi"}]}"#;

/// A scripted replica behind TLS, with a certificate of its own making.
pub(crate) struct Provider {
    pub(crate) upstream: Upstream,
    pub(crate) address: SocketAddr,
    /// Its certificate.
    pub(crate) pem: String,
    /// Handshakes that came to an end.
    handshakes: Count,
    _tasks: JoinSet<()>,
}

impl Provider {
    /// `name` is what its certificate is for.
    pub(crate) async fn start(name: &str) -> Self {
        Self::with_end(name, End::Goodbye).await
    }

    async fn with_end(name: &str, end: End) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (upstream, handshakes) = (Upstream::start("m1"), Count::new());
        let mut tasks = JoinSet::new();
        let to = upstream.address();
        tasks.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), to, handshakes.clone(), end));
        Self { upstream, address, pem: made.cert.pem(), handshakes, _tasks: tasks }
    }
}

/// How a provider's TLS session ends when its replica closes.
#[derive(Clone, Copy)]
enum End {
    /// As it should.
    Goodbye,
    /// The connection ends under it: what an attacker can do who can cut it, and a careless server does.
    Bare,
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, to: SocketAddr, handshakes: Count, end: End) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, handshakes) = (tls.clone(), handshakes.clone());
        connections.spawn(async move {
            // A client that does not trust the certificate ends here.
            let Ok(mut outside) = tls.accept(stream).await else { return };
            handshakes.add();
            let mut inside = TcpStream::connect(to).await.unwrap();
            match end {
                End::Goodbye => {
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                }
                End::Bare => {
                    let (mut from_gateway, mut to_gateway) = tokio::io::split(outside);
                    let (mut answers, mut asks) = inside.split();
                    tokio::select! {
                        _ = tokio::io::copy(&mut from_gateway, &mut asks) => {}
                        _ = tokio::io::copy(&mut answers, &mut to_gateway) => {}
                    }
                }
            }
        });
    }
}

/// The gateway in front of `url`, with the certificates of `trusted` and no others.
fn gateway(folder: &TempDir, url: &str, trusted: &str) -> (Process, SocketAddr) {
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let config = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\nthreads = 1\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [[pools]]\nname = \"p\"\nengine = \"openai\"\nreplicas = [\"{url}\"]\ncredentials = [\"env:PROVIDER_KEY\"]\n\
         [[routes]]\nmodel = \"m1\"\ntargets = [{{ pool = \"p\" }}]\n"
    );
    let config = file("gateway.toml", &config);
    let mut command = Command::new(BINARY);
    command.args([Path::new("serve"), Path::new("--config"), &config]).stdout(Stdio::piped());
    command.env("SSL_CERT_FILE", file("trusted.pem", trusted)).env("PROVIDER_KEY", "sk-of-the-provider");
    let mut process = Process::spawn(&mut command);
    let (address, _) = process.addresses();
    (process, address)
}

#[tokio::test]
async fn a_provider_is_reached_over_tls() {
    let provider = Provider::start("127.0.0.1").await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("https://{}/base", provider.address);
    let (process, address) = gateway(&folder, &url, &provider.pem);
    let whole = post(address, CHAT, BODY).await;
    assert_eq!((whole.status, whole.json()["usage"]["completion_tokens"].clone()), (200, json!(4)));
    let stream = post(address, CHAT, &BODY.replacen('{', r#"{"stream":true,"#, 1)).await;
    let events = Stream::chat(&["hel", "lo"]);
    for event in events.events.iter().enumerate().filter(|(i, _)| Some(*i) != events.usage_at).map(|(_, e)| e)
    {
        assert!(stream.body.contains(std::str::from_utf8(event).unwrap()), "{}", stream.body);
    }
    let large = BODY.replacen('{', &format!(r#"{{"user":"{}","#, "u".repeat(1 << 20)), 1);
    assert_eq!(post(address, CHAT, &large).await.status, 200);
    let received = provider.upstream.received();
    assert_eq!(received.len(), 3);
    assert!(received[0].body == BODY.as_bytes() && received[2].body == large.as_bytes());
    for request in &received {
        assert_eq!(request.head.target(), "/base/v1/chat/completions");
        assert_eq!(request.head.get("host"), Some(provider.address.to_string().as_str()));
        assert_eq!(request.head.get("authorization"), Some("Bearer sk-of-the-provider"));
    }
    assert_eq!(provider.handshakes.get(), 1, "the connection is kept");
    process.terminate();
    let ended = process.ended().await;
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 3, "{}", ended.stdout);
    assert!(!ended.stdout.contains("sk-of") && !ended.stderr.contains("sk-of"));
}

#[track_caller]
fn assert_unreachable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(answer.json()["error"]["code"], json!("no_healthy_instances"));
}

/// A stranger's certificate, one for another name, and none at all: nothing is sent to any of them.
#[tokio::test]
async fn a_provider_that_is_not_who_it_should_be_gets_nothing() {
    let (right, other) = (Provider::start("127.0.0.1").await, Provider::start("elsewhere.example").await);
    let plain = Upstream::start("m1");
    for (to, trusted) in
        [(right.address, &other.pem), (other.address, &other.pem), (plain.address(), &right.pem)]
    {
        let folder = tempfile::tempdir().unwrap();
        let (_process, address) = gateway(&folder, &format!("https://{to}"), trusted);
        assert_unreachable(&post(address, CHAT, BODY).await);
    }
    for upstream in [&right.upstream, &other.upstream, &plain] {
        assert_eq!(upstream.counts().heads.get(), 0);
    }
}

/// Which it would never be able to send to the end.
#[tokio::test]
async fn an_answer_that_comes_while_the_request_is_being_sent_is_the_answer() {
    let provider = Provider::start("127.0.0.1").await;
    let folder = tempfile::tempdir().unwrap();
    let (_process, address) = gateway(&folder, &format!("https://{}", provider.address), &provider.pem);
    let early = vec![send(error_answer(413, "far too much")), Step::Deaf(Gate::new())];
    provider.upstream.on_head(move |_| OnHead::Play(early.clone()));
    let huge = BODY.replacen('{', &format!(r#"{{"user":"{}","#, "u".repeat(16 << 20)), 1);
    let answer = post(address, CHAT, &huge).await;
    assert_eq!((answer.status, answer.json()["error"]["message"].clone()), (413, json!("far too much")));
    // That connection is out of step.
    provider.upstream.on_head(|_| OnHead::ReadBody);
    assert_eq!(post(address, CHAT, BODY).await.status, 200);
    assert_eq!(provider.handshakes.get(), 2);
}

/// Heads of answers that end with their connection.
const CLOSING: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
const CLOSING_STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Anybody on the way can end a connection, but only the provider its TLS session.
#[tokio::test]
async fn only_a_tls_goodbye_ends_an_answer_that_ends_with_its_connection() {
    let whole = chat_json("hello", 11, 4);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{whole}\r\n0\r\n\r\n",
        whole.len()
    );
    let event = String::from_utf8([text_event("hello"), text_event("again")].concat()).unwrap();
    let done = std::str::from_utf8(DONE).unwrap();
    // The answer, and its outcome with and without a goodbye.
    let rows = [
        (String::from_utf8(chat_answer("hello", 11, 4)).unwrap(), ["ok", "ok"]),
        (chunked, ["ok", "ok"]),
        (format!("{CLOSING}{whole}"), ["ok", "upstream_aborted"]),
        // A stream that has said so itself is at its end.
        (format!("{CLOSING_STREAM}{event}{done}"), ["ok", "ok"]),
        (format!("{CLOSING_STREAM}{event}"), ["upstream_aborted", "upstream_aborted"]),
    ];
    for (i, end) in [End::Goodbye, End::Bare].into_iter().enumerate() {
        let provider = Provider::with_end("127.0.0.1", end).await;
        let folder = tempfile::tempdir().unwrap();
        let (process, address) = gateway(&folder, &format!("https://{}", provider.address), &provider.pem);
        for (answer, outcomes) in &rows {
            provider.upstream.answer_with(vec![send(answer), Step::Close]);
            let text = crate::http::send(address, "POST", CHAT, BODY).await.rest().await;
            assert!(text.starts_with("HTTP/1.1 200") && text.contains("hello"), "{text}");
            assert_eq!(text.contains("transfer-encoding"), !answer.contains("content-length"), "{text}");
            let whole = answer.contains("content-length") || text.ends_with("\r\n0\r\n\r\n");
            assert_eq!(whole, outcomes[i] == "ok", "{answer}: {text}");
        }
        process.terminate();
        let ended = process.ended().await;
        let lines = ended.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let outcomes: Vec<_> = lines.map(|line| line["outcome"].clone()).collect();
        assert_eq!(outcomes, rows.each_ref().map(|(_, outcomes)| json!(outcomes[i])));
    }
}

#[tokio::test]
async fn the_log_tells_once_that_a_credential_is_refused_and_once_that_it_is_taken_again() {
    let provider = Provider::start("127.0.0.1").await;
    let folder = tempfile::tempdir().unwrap();
    let (process, address) = gateway(&folder, &format!("https://{}", provider.address), &provider.pem);
    for (refused, status) in [(true, 502), (false, 200), (true, 502)] {
        if refused {
            provider.upstream.answer_with(vec![send(error_answer(401, "no such key"))]);
        } else {
            provider.upstream.on_request(polite);
        }
        for _ in 0..3 {
            assert_eq!(post(address, CHAT, BODY).await.status, status);
        }
    }
    process.terminate();
    let log = process.ended().await.stderr;
    let count = |text: &str| log.matches(text).count();
    let told =
        [count("refuse the pool's credential 1 of 1"), count("take the pool's credential 1 of 1 again")];
    assert_eq!(told, [2, 1], "{log}");
    assert!(!log.contains("sk-of-the-provider"), "{log}");
}
