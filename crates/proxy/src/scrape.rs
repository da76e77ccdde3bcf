//! Scrapes: `/health`, then the metrics path, over an ordinary HTTP client and a connection of their own, so that a
//! closed port is seen as one. And the canary: one token asked of a replica that has stalled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sluicegate_core::{EngineLoad, ReplicaId, Scrape};
use sluicegate_wire::{EngineMetrics, engine_metrics};
use tokio::net::TcpStream;

use crate::gateway::{Gateway, Models};
use crate::pool::{Pool, Replica};

/// Largest answer of a scrape that is read. Real ones are about 60 KB.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Time limit of a canary: one token, on an engine that was just seen healthy.
const CANARY_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Why a call came to nothing.
enum CallError {
    Refused,
    Other,
}

/// Scrapes one replica and tells the pool's core; then asks it for its models.
pub(crate) async fn scrape(gateway: Arc<Gateway>, pool: Arc<Pool>, id: ReplicaId) {
    let Some(replica) = pool.replica(id).cloned() else { return };
    let limit = pool.plan().scrape_timeout;
    let (result, call) = match tokio::time::timeout(limit, scrape_once(&pool, &replica)).await {
        Err(_) => (Scrape::TimedOut, None),
        Ok(Err(CallError::Refused)) => (Scrape::Refused, None),
        Ok(Err(CallError::Other)) => (Scrape::Failed, None),
        Ok(Ok((result, call))) => (result, Some(call)),
    };
    let healthy = matches!(result, Scrape::Healthy { .. });
    if let (true, Some(mut call)) = (healthy, call) {
        // Before the core hears of it: a replica that becomes LIVE should be known with what it serves.
        let _ = tokio::time::timeout(limit, ask_models(&gateway, &pool, &replica, &mut call)).await;
    }
    pool.with_core(|core, now| core.scraped(now, id, result, replica.last_byte()));
}

/// Asks a stalled replica for one token.
pub(crate) async fn canary(pool: Arc<Pool>, id: ReplicaId) {
    let Some(replica) = pool.replica(id).cloned() else { return };
    let answered = async {
        let mut call = Call::open(&pool, &replica).await.ok()?;
        let models = call.models().await.ok()??;
        let (model, _) = models.first()?;
        let body = serde_json::json!({ "model": &**model, "prompt": "1", "max_tokens": 1 }).to_string();
        let (status, _) = call.send(Method::POST, "/v1/completions", body).await.ok()?;
        Some(status.is_success())
    };
    let answered = tokio::time::timeout(CANARY_LIMIT, answered).await.ok().flatten().unwrap_or(false);
    pool.with_core(|core, now| core.canary(now, id, answered));
}

async fn scrape_once(pool: &Pool, replica: &Replica) -> Result<(Scrape, Call), CallError> {
    let mut call = Call::open(pool, replica).await?;
    let (status, body) = call.send(Method::GET, "/health", String::new()).await?;
    if !status.is_success() {
        // llama-server listens while it loads its model, and says so.
        let loading =
            status == StatusCode::SERVICE_UNAVAILABLE && memchr::memmem::find(&body, b"oading").is_some();
        return Ok((if loading { Scrape::Loading } else { Scrape::Failed }, call));
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
        (prompt, generated) => Some(prompt.unwrap_or(0) + generated.unwrap_or(0)),
    };
    Some(EngineLoad {
        running: count(metrics.running)?,
        waiting: count(metrics.waiting).unwrap_or(0),
        tokens_total: tokens,
        #[allow(clippy::cast_possible_truncation)]
        kv_usage: metrics.kv_usage.map(|u| u as f32),
    })
}

async fn ask_models(gateway: &Gateway, pool: &Arc<Pool>, replica: &Replica, call: &mut Call) {
    let Ok(models) = call.models().await else { return };
    let models = match models {
        None => Models::Any,
        Some(models) => {
            if let Some(context) = models.iter().filter_map(|(_, context)| *context).min() {
                replica.context.store(context, Ordering::Relaxed);
            }
            Models::Named(models.into_iter().map(|(name, _)| name).collect())
        }
    };
    gateway.learn_models(pool, replica.id, models);
}

/// Name and context length.
type ModelEntry = (Arc<str>, Option<u64>);

/// One connection for the few calls of a scrape.
struct Call {
    sender: SendRequest<Full<Bytes>>,
    authority: Arc<str>,
    prefix: Arc<str>,
    credential: Option<Arc<str>>,
}

impl Call {
    /// Resolves and connects. The address found is what the data plane uses from then on.
    async fn open(pool: &Pool, replica: &Replica) -> Result<Self, CallError> {
        let url = &replica.url;
        let address = match url.host.parse() {
            Ok(ip) => std::net::SocketAddr::new(ip, url.port),
            Err(_) => {
                let found =
                    tokio::net::lookup_host((&*url.host, url.port)).await.map_err(|_| CallError::Other)?;
                // Sorted, so that a name with several addresses does not jump between them.
                let address = found.min().ok_or(CallError::Other)?;
                replica.set_address(address);
                address
            }
        };
        let stream = TcpStream::connect(address).await.map_err(|e| match e.kind() {
            io::ErrorKind::ConnectionRefused => CallError::Refused,
            _ => CallError::Other,
        })?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| CallError::Other)?;
        tokio::spawn(connection);
        let credential = pool.plan().credential.clone();
        Ok(Self { sender, authority: url.authority.clone(), prefix: url.prefix.clone(), credential })
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Bytes), CallError> {
        self.sender.ready().await.map_err(|_| CallError::Other)?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, &*self.authority)
            .header(header::USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")));
        if let Some(credential) = &self.credential {
            request = request.header(header::AUTHORIZATION, format!("Bearer {credential}"));
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|_| CallError::Other)?;
        let answer = self.sender.send_request(request).await.map_err(|_| CallError::Other)?;
        let status = answer.status();
        let body =
            Limited::new(answer.into_body(), ANSWER_MAX).collect().await.map_err(|_| CallError::Other)?;
        Ok((status, body.to_bytes()))
    }

    /// Model names and their context lengths, where the engine tells them. None: it has no such list.
    async fn models(&mut self) -> Result<Option<Vec<ModelEntry>>, CallError> {
        let (status, body) = self.send(Method::GET, "/v1/models", String::new()).await?;
        if matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        ) {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(CallError::Other);
        }
        let answer: serde_json::Value = serde_json::from_slice(&body).map_err(|_| CallError::Other)?;
        let data = answer.get("data").and_then(|d| d.as_array()).ok_or(CallError::Other)?;
        Ok(Some(data.iter().filter_map(model).collect()))
    }
}

fn model(entry: &serde_json::Value) -> Option<ModelEntry> {
    let name = entry.get("id")?.as_str()?;
    // vLLM and SGLang say `max_model_len`, llama-server `meta.n_ctx`.
    let context =
        entry.get("max_model_len").or_else(|| entry.get("meta")?.get("n_ctx")).and_then(|c| c.as_u64());
    (name.len() <= 256 && !name.trim().is_empty()).then(|| (name.into(), context))
}
