//! Paths of the admin side.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use super::answer::Failure;
use super::state::StateView;
use super::{Shown, callers, explain, token};
use crate::inspect::{ExplainedView, Readiness};
use crate::metrics;

/// Largest request body in bytes: a long chat to explain.
pub(super) const MAX_BODY: usize = 8 * 1024 * 1024;

/// What `GET /` answers: whoever opens the address in a browser learns where to go.
const PATHS: &str = "\
GET  /healthz                answers while the process lives; needs no token
GET  /readyz                 503 while requests are not welcome; needs no token
GET  /metrics                OpenMetrics
GET  /api/state              pools, replicas, queues and keys, as JSON
POST /api/explain            where a request would go, and why
POST /api/replicas/drain     {\"pool\",\"replica\"}: no new requests there
POST /api/replicas/undrain   the end of a drain
";

/// Everything the admin listener serves.
pub(super) fn router(shown: Shown, token: Option<Arc<str>>) -> Router {
    Router::new()
        .route("/", get(|| async { PATHS }))
        .route("/healthz", get(|| async { Json(json!({ "alive": true })) }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_page))
        .route("/api/state", get(|State(shown): State<Shown>| async move { Json(StateView::of(&shown)) }))
        .route("/api/explain", post(explain))
        .route("/api/replicas/drain", post(|State(shown), body| drain(shown, body, true)))
        .route("/api/replicas/undrain", post(|State(shown), body| drain(shown, body, false)))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(token.clone(), callers::check))
        .layer(middleware::from_fn_with_state(token, token::check))
        .with_state(shown)
}

async fn readyz(State(shown): State<Shown>) -> Response {
    let readiness = shown.gateway.readiness();
    let ready = readiness == Readiness::Ready;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": ready, "reason": readiness.reason() }))).into_response()
}

async fn metrics_page(State(shown): State<Shown>) -> Result<Response, Failure> {
    let (sources, decisions) = (shown.sources.sources(), shown.decisions.views());
    let page = shown.metrics.page(&*shown.gateway, &sources, &decisions, shown.lost_lines());
    let page = page.map_err(|_| {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the metrics could not be written")
    })?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response())
}

type Body = Result<Bytes, BytesRejection>;

async fn explain(State(shown): State<Shown>, body: Body) -> Result<Json<ExplainedView>, Failure> {
    let request = explain::read(&read(body)?)?;
    shown.gateway.explain(&request).await.map(Json).map_err(|refused| {
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Failure::new(status, &refused.code, refused.message)
    })
}

/// Which replica: its pool's name and its base URL.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    pool: String,
    replica: String,
}

async fn drain(shown: Shown, body: Body, draining: bool) -> Result<Response, Failure> {
    let which: Which = serde_json::from_slice(&read(body)?)
        .map_err(|error| Failure::bad_request(format!("expected {{\"pool\",\"replica\"}}: {error}")))?;
    let found = shown.gateway.set_draining(&which.pool, &which.replica, draining);
    found.map_err(|error| Failure::new(StatusCode::NOT_FOUND, "not_found", error.to_string()))?;
    tracing::info!(pool = which.pool, replica = which.replica, draining, "asked for by the administrator");
    Ok(Json(json!({ "pool": which.pool, "replica": which.replica, "draining": draining })).into_response())
}

fn read(body: Body) -> Result<Bytes, Failure> {
    body.map_err(|refused| match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("the body is larger than {MAX_BODY} bytes");
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
        }
        _ => Failure::bad_request(refused.body_text()),
    })
}

async fn no_such_path(uri: Uri) -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("there is no {} here; GET / lists the paths", uri.path()),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    let message = format!("{} does not take {method}", uri.path());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
