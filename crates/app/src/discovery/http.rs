//! Calls to an API that knows replicas, each on a connection of its own.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use sluicegate_proxy::connect_tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::ApiPlan;

/// To connect, and for the head of an answer where nothing is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// A larger answer is a mistake.
pub(super) const LARGEST: usize = 16 << 20;

/// Sends `GET path`, with `token` as this field. `wait`: how long the head may take. Only a 200 is an answer.
pub(super) async fn get(
    api: &ApiPlan,
    path: &str,
    token: (&str, &str),
    wait: Duration,
) -> anyhow::Result<Answer> {
    let connect = connect(api);
    let mut sender = tokio::time::timeout(LIMIT, connect).await.context("it cannot be reached in time")??;
    let mut request = Request::get(format!("{}{path}", api.url.prefix))
        .header(HOST, &*api.url.authority)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")));
    if let Some(secret) = &api.token {
        let (name, scheme) = token;
        request = request.header(name, format!("{scheme}{}", secret.0));
    }
    let request = request.body(Empty::new())?;
    let answer = tokio::time::timeout(wait, sender.send_request(request));
    let response = answer.await.context("it does not answer in time")?.context("its answer breaks off")?;
    let status = response.status();
    if status != 200 {
        let hint = if [401, 403].contains(&status.as_u16()) { ": is the token right?" } else { "" };
        bail!("it answers {status}{hint}");
    }
    Ok(Answer { response, _sender: sender })
}

/// An answer whose body is still to come.
pub(super) struct Answer {
    response: Response<Incoming>,
    /// Dropped, it would end the connection.
    _sender: SendRequest<Empty<Bytes>>,
}

impl Answer {
    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body; None at its end.
    pub(super) async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            match self.response.body_mut().frame().await {
                None => return Ok(None),
                Some(frame) => match frame.context("its answer breaks off")?.into_data() {
                    Ok(piece) => return Ok(Some(piece)),
                    Err(_trailers) => {}
                },
            }
        }
    }

    /// The whole body.
    pub(super) async fn body(mut self) -> anyhow::Result<Vec<u8>> {
        let whole = async move {
            let mut body = Vec::new();
            while let Some(piece) = self.piece().await? {
                if body.len() + piece.len() > LARGEST {
                    bail!("its answer is larger than 16 MiB");
                }
                body.extend_from_slice(&piece);
            }
            Ok(body)
        };
        tokio::time::timeout(LIMIT, whole).await.context("its answer does not end in time")?
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

async fn connect(api: &ApiPlan) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
    let (host, port) = (&*api.url.host, api.url.port);
    let tcp = TcpStream::connect((host, port)).await.context("it cannot be reached")?;
    let stream: Box<dyn Io> = match api.url.tls {
        true => Box::new(connect_tls(host, tcp).await.context("TLS")?),
        false => Box::new(tcp),
    };
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with its sender.
    tokio::spawn(connection);
    Ok(sender)
}
