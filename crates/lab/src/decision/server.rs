//! The judge behind HTTP: `POST /v1/systemone`, `GET /v1/models`, `GET /health`. Any token is taken.

use super::judge::{Judgement, judge};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The engine that `/v1/models` lists and that answers.
const ENGINE: &str = "jev-latest";
/// Largest question.
const LARGEST: usize = 1 << 20;
const BACKLOG: u32 = 1024;

/// A running decision service. Dropping it stops it.
#[derive(Debug)]
pub struct DecisionSim {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl DecisionSim {
    /// Binds the address (port 0: a free one) and serves. Must be called inside a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn start(wanted: SocketAddr) -> io::Result<Self> {
        let socket = if wanted.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(wanted)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;
        Ok(Self { addr, task: tokio::spawn(serve(listener)) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for DecisionSim {
    fn drop(&mut self) {
        // Its connections are in a set of its own and end with it.
        self.task.abort();
    }
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream))),
                // Out of file descriptors, or a client that left already.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream) {
    let _best_effort = stream.set_nodelay(true);
    let service = service_fn(|request| async { Ok::<_, Infallible>(respond(request).await) });
    // Whatever went wrong, the client has gone or spoke no HTTP: there is nobody to tell.
    let _gone = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/v1/systemone") => {
            let Ok(body) = Limited::new(request.into_body(), LARGEST).collect().await else {
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body breaks off or is larger than 1 MiB");
            };
            match answer(&body.to_bytes()) {
                Some(answer) => json_response(StatusCode::OK, &answer),
                None => refusal(
                    StatusCode::BAD_REQUEST,
                    "expected {\"model\", \"state\": text, \"questions\": {NAME: {\"type\": \"choice\", \"criteria\": {...}}}}",
                ),
            }
        }
        (&Method::GET, "/v1/models") => {
            let engine = json!({ "id": ENGINE, "object": "model", "owned_by": "sluicegate-sim" });
            json_response(StatusCode::OK, &json!({ "object": "list", "data": [engine] }))
        }
        (&Method::GET, "/health") => json_response(StatusCode::OK, &json!({})),
        _ => refusal(StatusCode::NOT_FOUND, "POST /v1/systemone, GET /v1/models and GET /health are served"),
    }
}

/// Answers every question of a request; `None` where it is not one.
fn answer(body: &[u8]) -> Option<Value> {
    let asked: Value = serde_json::from_slice(body).ok()?;
    let state = asked.get("state")?.as_str()?;
    let answers: Option<Map<String, Value>> = asked
        .get("questions")?
        .as_object()?
        .iter()
        .map(|(name, question)| Some((name.clone(), choice(state, question.get("criteria")?.as_object()?)?)))
        .collect();
    let tokens = state.len().div_ceil(4);
    Some(
        json!({ "model": ENGINE, "answers": answers?, "usage": { "input_tokens": tokens, "output_tokens": 0 } }),
    )
}

fn choice(state: &str, criteria: &Map<String, Value>) -> Option<Value> {
    let models: Vec<(&str, Option<&str>)> =
        criteria.iter().map(|(model, text)| (model.as_str(), text.as_str())).collect();
    let Judgement { probabilities, confidence, .. } = judge(state, &models);
    let most = probabilities.iter().copied().fold(0.0, f64::max);
    let (chosen, _) = models.iter().zip(&probabilities).find(|(_, p)| **p == most)?.0;
    let all: Map<String, Value> =
        models.iter().zip(&probabilities).map(|((model, _), p)| ((*model).to_owned(), json!(p))).collect();
    Some(json!({ "type": "choice", "choice": chosen, "probabilities": all, "confidence": confidence }))
}

fn refusal(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    json_response(status, &json!({ "error": { "message": message, "type": "invalid_request_error" } }))
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
