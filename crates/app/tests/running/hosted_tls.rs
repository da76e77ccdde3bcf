//! Providers over TLS: through the built binary, because which certificates it trusts is a matter of its process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use sluicegate_testkit::answers::Stream;
use sluicegate_testkit::{Count, Upstream};
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
struct Provider {
    upstream: Upstream,
    address: SocketAddr,
    /// Its certificate.
    pem: String,
    /// Handshakes that came to an end.
    handshakes: Count,
    _tasks: JoinSet<()>,
}

impl Provider {
    /// `name` is what its certificate is for.
    async fn start(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (upstream, handshakes) = (Upstream::start("m1"), Count::new());
        let mut tasks = JoinSet::new();
        let to = upstream.address();
        tasks.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), to, handshakes.clone()));
        Self { upstream, address, pem: made.cert.pem(), handshakes, _tasks: tasks }
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, to: SocketAddr, handshakes: Count) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, handshakes) = (tls.clone(), handshakes.clone());
        connections.spawn(async move {
            // A client that does not trust the certificate ends here.
            let Ok(mut outside) = tls.accept(stream).await else { return };
            handshakes.add();
            let mut inside = TcpStream::connect(to).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
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
