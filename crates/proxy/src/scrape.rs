//! Scrapes: `/health`, then the metrics path, over an ordinary HTTP client and a connection of their own, so that a
//! closed port is seen as one. And the canary: one token asked of a replica that has stalled.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sluicegate_core::{EngineLoad, ReplicaId, Scrape};
use sluicegate_wire::{Endpoint, EngineMetrics, engine_metrics};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout_at;

use crate::clock;
use crate::credentials::{Chosen, Judged, Said, Trial};
use crate::gateway::{Gateway, Models};
use crate::plan::Slots;
use crate::pool::{Control, Pool, Replica, ServedModel};
use crate::tls;
use crate::upstream;

/// Largest answer of a scrape that is read. Real ones are about 60 KB.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Time limit of a canary: one token, on an engine that was just seen healthy.
const CANARY_LIMIT: Duration = Duration::from_secs(10);
/// Models of one replica that are taken note of.
const MODELS_MAX: usize = 1000;
/// How often the names of hosted replicas are looked up.
const LOOK_UP: Duration = Duration::from_secs(30);
/// The models are asked for at the first good scrape and at every so many later ones.
const ASK_MODELS: u64 = 20;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("connection refused")]
    Refused,
    #[error("its name cannot be looked up: {0}")]
    Name(io::Error),
    #[error("{0}")]
    Connect(io::Error),
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("GET {0}: {1}")]
    Http(Box<str>, String),
    #[error("GET {0} answered {1}{2}")]
    Status(&'static str, StatusCode, &'static str),
}

/// Scrapes one replica and tells the pool's core; asks it for its models now and then.
pub(crate) async fn scrape(gateway: Arc<Gateway>, pool: Arc<Pool>, id: ReplicaId) {
    let Some(replica) = pool.replica(id) else { return };
    let mut report =
        Report { pool: Arc::clone(&pool), replica: Arc::clone(&replica), result: Scrape::Failed };
    let end = clock::tokio_instant(clock::now() + pool.plan().scrape_timeout);
    let (result, call) = match timeout_at(end, scrape_once(&pool, &replica)).await {
        Err(_) => {
            replica.trouble.tell(&replica.url.text, "no answer within health.scrape_timeout");
            (Scrape::TimedOut, None)
        }
        Ok(Err(error)) => {
            replica.trouble.tell(&replica.url.text, &error.to_string());
            (if matches!(error, CallError::Refused) { Scrape::Refused } else { Scrape::Failed }, None)
        }
        Ok(Ok((result, call))) => (result, Some(call)),
    };
    report.result = result;
    let Some(mut call) = call.filter(|_| matches!(report.result, Scrape::Healthy { .. })) else {
        // It may come back as another engine.
        replica.good_scrapes.store(0, Ordering::Relaxed);
        return;
    };
    if !replica.good_scrapes.fetch_add(1, Ordering::Relaxed).is_multiple_of(ASK_MODELS) {
        return;
    }
    // Before the core hears of it: a replica that becomes LIVE should be known with what it serves.
    match timeout_at(end, ask_models(&gateway, &pool, &replica, &mut call)).await {
        Ok(Ok(())) => replica.trouble.over(),
        failed => {
            replica.good_scrapes.store(0, Ordering::Relaxed);
            let why = match failed {
                Ok(Err(error)) => error.to_string(),
                _ => "GET /v1/models gave no answer within health.scrape_timeout".to_owned(),
            };
            replica.trouble.tell(&replica.url.text, &why);
        }
    }
}

/// Tells the core of a scrape on every path, a panic included: one that is never answered would be the last.
struct Report {
    pool: Arc<Pool>,
    replica: Arc<Replica>,
    result: Scrape,
}

impl Drop for Report {
    fn drop(&mut self) {
        let (id, result, last_byte) = (self.replica.id, self.result.clone(), self.replica.last_byte());
        self.pool.with_core(Control::Always, |core, now| core.scraped(now, id, result, last_byte));
    }
}

/// Asks a stalled replica for the least that proves its engine at work.
pub(crate) async fn canary(pool: Arc<Pool>, id: ReplicaId) {
    let Some(replica) = pool.replica(id) else { return };
    let answered = async {
        let proven = replica.proven.load_full();
        let (endpoint, model) = match proven.as_deref() {
            Some((endpoint, model)) => (*endpoint, model.clone()),
            None => (Endpoint::ChatCompletions, replica.models.load().first()?.name.clone()),
        };
        let (path, body) = least_call(endpoint, &model);
        let mut call = Call::open(&pool, &replica).await.ok()?;
        let (status, _) = call.send(Method::POST, path, body.to_string()).await.ok()?;
        Some(status.is_success())
    };
    // One at a time: the next is sent with the next scrape.
    let limit = pool.plan().settings.health.scrape_interval.min(CANARY_LIMIT);
    let answered = tokio::time::timeout(limit, answered).await.ok().flatten().unwrap_or(false);
    pool.with_core(Control::Always, |core, now| core.canary(now, id, answered));
}

/// The shortest valid call of a kind.
fn least_call(endpoint: Endpoint, model: &str) -> (&'static str, Value) {
    match endpoint {
        Endpoint::Completions => {
            ("/v1/completions", json!({ "model": model, "prompt": "1", "max_tokens": 1 }))
        }
        Endpoint::Responses => {
            ("/v1/responses", json!({ "model": model, "input": "1", "max_output_tokens": 16 }))
        }
        Endpoint::Embeddings => ("/v1/embeddings", json!({ "model": model, "input": "1" })),
        Endpoint::Pooling => ("/pooling", json!({ "model": model, "input": "1" })),
        Endpoint::Classify => ("/classify", json!({ "model": model, "input": "1" })),
        Endpoint::Rerank => ("/v1/rerank", json!({ "model": model, "query": "1", "documents": ["1"] })),
        Endpoint::Score => ("/v1/score", json!({ "model": model, "text_1": "1", "text_2": "1" })),
        // A chat model answers chat; what else it may do needs more than a line to ask for.
        _ => {
            let messages = json!([{ "role": "user", "content": "1" }]);
            ("/v1/chat/completions", json!({ "model": model, "messages": messages, "max_tokens": 1 }))
        }
    }
}

async fn scrape_once<'p>(pool: &'p Pool, replica: &'p Replica) -> Result<(Scrape, Call<'p>), CallError> {
    let mut call = Call::open(pool, replica).await?;
    let (status, body) = call.send(Method::GET, "/health", String::new()).await?;
    if !status.is_success() {
        // llama-server listens while it loads its model, and says so.
        let loading =
            status == StatusCode::SERVICE_UNAVAILABLE && memchr::memmem::find(&body, b"oading").is_some();
        if !loading {
            return Err(CallError::Status("/health", status, hint(status)));
        }
        replica.trouble.tell(&replica.url.text, "it is loading its model");
        return Ok((Scrape::Loading, call));
    }
    let load = match call.send(Method::GET, "/metrics", String::new()).await {
        Ok((status, text)) if status.is_success() => engine_load(&engine_metrics(&text)),
        _ => None,
    };
    Ok((Scrape::Healthy { load }, call))
}

fn engine_load(metrics: &EngineMetrics) -> Option<EngineLoad> {
    let count = |n: Option<u64>| n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let tokens = match (metrics.prompt_tokens_total, metrics.generation_tokens_total) {
        (None, None) => None,
        (prompt, generated) => Some(prompt.unwrap_or(0).saturating_add(generated.unwrap_or(0))),
    };
    Some(EngineLoad {
        running: count(metrics.running)?,
        waiting: count(metrics.waiting).unwrap_or(0),
        tokens_total: tokens,
        #[allow(clippy::cast_possible_truncation)]
        kv_usage: metrics.kv_usage.map(|u| u as f32),
        kv_tokens: metrics.kv_blocks.zip(metrics.block_size).and_then(|(n, size)| n.checked_mul(size)),
    })
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": set credentials in [[pools]]",
        StatusCode::NOT_FOUND => ": is this an engine's base URL, without /v1?",
        _ => "",
    }
}

async fn ask_models(
    gateway: &Gateway,
    pool: &Arc<Pool>,
    replica: &Replica,
    call: &mut Call<'_>,
) -> Result<(), CallError> {
    let models = call.models().await?;
    let learned = match &models {
        None => Models::Any,
        Some(models) => Models::Named(models.iter().map(|m| m.name.clone()).collect()),
    };
    replica.models.store(Arc::new(models.unwrap_or_default()));
    gateway.learn_models(pool, replica.id, learned);
    if pool.plan().slots == Slots::Ask {
        // What cannot be read now stays as it was: forgotten slots would let the whole queue go at once.
        if let Ok(slots) = call.slots().await {
            replica.note_slots(&pool.plan().name, slots);
            pool.with_core(Control::IfEffects, |core, _| core.set_slots(replica.id, slots));
        }
    }
    Ok(())
}

/// Where the replica may be. A name that cannot be looked up now is where it was before: a name server's failure is
/// not the replica's.
async fn addresses(replica: &Replica) -> Result<Vec<SocketAddr>, CallError> {
    match upstream::look_up(&replica.url).await {
        Ok(found) => Ok(found),
        Err(error) => {
            let known = replica.addresses();
            if known.is_empty() { Err(CallError::Name(error)) } else { Ok(known.to_vec()) }
        }
    }
}

/// Keeps the addresses of a hosted pool fresh.
pub(crate) async fn look_up(pool: Arc<Pool>) {
    let mut ticker = tokio::time::interval(LOOK_UP);
    loop {
        ticker.tick().await;
        for replica in pool.replicas().iter() {
            match addresses(replica).await {
                Ok(found) => {
                    replica.trouble.over();
                    replica.set_addresses(found);
                }
                Err(error) => replica.trouble.tell(&replica.url.text, &error.to_string()),
            }
        }
    }
}

/// A plain or a TLS connection.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// One connection for the few calls of a scrape.
struct Call<'p> {
    sender: SendRequest<Full<Bytes>>,
    pool: &'p Pool,
    replica: &'p Replica,
    chosen: Chosen,
}

impl<'p> Call<'p> {
    /// Resolves and connects. The address that answered is what the data plane uses from then on.
    async fn open(pool: &'p Pool, replica: &'p Replica) -> Result<Self, CallError> {
        let url = &replica.url;
        let mut stream = Err(CallError::Connect(io::ErrorKind::NotFound.into()));
        for address in addresses(replica).await? {
            stream = TcpStream::connect(address).await.map_err(|e| match e.kind() {
                io::ErrorKind::ConnectionRefused => CallError::Refused,
                _ => CallError::Connect(e),
            });
            if stream.is_ok() {
                // Elsewhere under this name may be another engine, whose load is not what is scraped here.
                replica.set_addresses(vec![address]);
                break;
            }
        }
        let stream: Box<dyn Io> = if url.tls {
            let tls = tls::connect(&url.host, stream?).await;
            Box::new(tls.map_err(CallError::Tls)?)
        } else {
            Box::new(stream?)
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| CallError::Http("".into(), e.to_string()))?;
        tokio::spawn(connection);
        let chosen = pool.credentials().choose(clock::now());
        Ok(Self { sender, pool, replica, chosen })
    }

    /// With another credential where the replica refuses the first.
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let body = Bytes::from(body);
        let mut trial = Trial::of_probe(self.pool.credentials());
        loop {
            let (retry_after, answer) = self.send_once(method.clone(), path, body.clone()).await?;
            let said = Said { status: answer.0.as_u16(), retry_after };
            match trial.judge(&self.chosen, Some(said), answer, clock::now()) {
                Judged::Answered(answer) => return Ok(answer),
                Judged::Again(other) => self.chosen = other,
                Judged::Refused => return Ok((StatusCode::UNAUTHORIZED, Bytes::new())),
            }
        }
    }

    async fn send_once(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Option<u32>, (StatusCode, Bytes)), CallError> {
        let failed = |what: String| CallError::Http(path.into(), what);
        self.sender.ready().await.map_err(|e| failed(e.to_string()))?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.replica.url.prefix))
            .header(header::HOST, &*self.replica.url.authority)
            .header(header::USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")));
        if let Some(credential) = &self.chosen.credential {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", credential.0));
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let mut request = request.body(Full::new(body)).map_err(|e| failed(e.to_string()))?;
        for (name, value) in self.pool.plan().headers.iter().chain(&self.replica.headers) {
            let name = HeaderName::try_from(&**name).map_err(|e| failed(e.to_string()))?;
            let value = HeaderValue::try_from(&*value.0).map_err(|e| failed(e.to_string()))?;
            request.headers_mut().insert(name, value);
        }
        let answer = self.sender.send_request(request).await.map_err(|e| failed(e.to_string()))?;
        let status = answer.status();
        let retry_after =
            answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(answer.into_body(), ANSWER_MAX)
            .collect()
            .await
            .map_err(|e| failed(e.to_string()))?;
        Ok((retry_after, (status, body.to_bytes())))
    }

    /// Requests that the engine serves at the same time, where it tells: llama-server's `/props`, SGLang's server info.
    async fn slots(&mut self) -> Result<Option<u32>, CallError> {
        for (path, member) in [("/props", "total_slots"), ("/get_server_info", "max_running_requests")] {
            let (status, body) = self.send(Method::GET, path, String::new()).await?;
            if matches!(
                status,
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
            ) {
                continue;
            }
            if !status.is_success() {
                return Err(CallError::Status(path, status, hint(status)));
            }
            let answer: Value =
                serde_json::from_slice(&body).map_err(|e| CallError::Http(path.into(), e.to_string()))?;
            if let Some(slots) = answer.get(member).and_then(Value::as_u64).filter(|&n| n > 0) {
                return Ok(u32::try_from(slots).ok());
            }
        }
        Ok(None)
    }

    /// Model names and their context lengths, where the engine tells them. None: it has no such list.
    async fn models(&mut self) -> Result<Option<Vec<ServedModel>>, CallError> {
        let (status, body) = self.send(Method::GET, "/v1/models", String::new()).await?;
        if matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        ) {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(CallError::Status("/v1/models", status, hint(status)));
        }
        let unreadable = || CallError::Http("/v1/models".into(), "its answer is no list of models".into());
        let answer: Value = serde_json::from_slice(&body).map_err(|_| unreadable())?;
        let data = answer.get("data").and_then(|d| d.as_array()).ok_or_else(unreadable)?;
        Ok(Some(data.iter().filter_map(model).take(MODELS_MAX).collect()))
    }
}

fn model(entry: &Value) -> Option<ServedModel> {
    let name = entry.get("id")?.as_str()?;
    // vLLM and SGLang say `max_model_len`, llama-server `meta.n_ctx`.
    let context =
        entry.get("max_model_len").or_else(|| entry.get("meta")?.get("n_ctx")).and_then(Value::as_u64);
    let usable = name.len() <= 256 && !name.trim().is_empty() && !name.chars().any(char::is_control);
    usable.then(|| ServedModel { name: name.into(), context })
}
