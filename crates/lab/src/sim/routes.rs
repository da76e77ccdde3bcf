//! Method and path to answer.

use super::SimConfig;
use super::ask::{Ask, Dialect, Limits, Prompt, check_model, missing, object};
use super::body::Answer;
use super::generate::generate;
use super::metrics;
use super::problem::Problem;
use super::realtime::Realtime;
use super::tokens;
use super::wall_clock::unix_seconds;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The HTTP side of one replica.
#[derive(Debug)]
pub(super) struct Front {
    config: Arc<SimConfig>,
    realtime: Arc<Realtime>,
    started: f64,
}

#[derive(Clone, Copy, Debug)]
enum Route {
    Alive,
    Version,
    Load,
    Models,
    Metrics,
    Tokenize,
    Detokenize,
    Generate(Dialect),
}

/// Path, methods as the `Allow` header lists them, and what is there.
const ROUTES: [(&str, &[Method], &str, Route); 10] = [
    ("/health", &[Method::GET], "GET", Route::Alive),
    ("/ping", &[Method::GET, Method::POST], "GET, POST", Route::Alive),
    ("/version", &[Method::GET], "GET", Route::Version),
    ("/load", &[Method::GET], "GET", Route::Load),
    ("/v1/models", &[Method::GET], "GET", Route::Models),
    ("/metrics", &[Method::GET], "GET", Route::Metrics),
    ("/tokenize", &[Method::POST], "POST", Route::Tokenize),
    ("/detokenize", &[Method::POST], "POST", Route::Detokenize),
    ("/v1/chat/completions", &[Method::POST], "POST", Route::Generate(Dialect::Chat)),
    ("/v1/completions", &[Method::POST], "POST", Route::Generate(Dialect::Text)),
];

impl Front {
    pub(super) fn new(config: Arc<SimConfig>, realtime: Arc<Realtime>) -> Self {
        Self { config, realtime, started: unix_seconds() }
    }

    pub(super) fn keep_alive(&self) -> Duration {
        self.config.keep_alive
    }

    /// Answers every request, in vLLM's words where it cannot be served.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Response<Answer> {
        let method = request.method().clone();
        let known = ROUTES.iter().find(|(path, ..)| *path == request.uri().path());
        let outcome = match known {
            None => Err(Problem::NotFound),
            Some((_, methods, _, route)) if methods.contains(&method) => self.answer(*route, request).await,
            Some((_, _, allow, _)) => Err(Problem::MethodNotAllowed { allow }),
        };
        let status = outcome.as_ref().map_or_else(Problem::status, |_| 200);
        // Like vLLM's instrumentation, which leaves out what monitors the server.
        let monitoring =
            matches!(known, Some((.., Route::Alive | Route::Metrics | Route::Load | Route::Version)));
        if !monitoring {
            let handler = known.filter(|_| status != 405).map_or("none", |(path, ..)| path);
            self.realtime.count_response(handler, method_label(&method), status);
        }
        response(outcome)
    }

    async fn answer(&self, route: Route, request: Request<Incoming>) -> Result<Answer, Problem> {
        match route {
            Route::Alive => Ok(Answer::empty()),
            Route::Version => Ok(Answer::json(json!({ "version": "0.32.0" }).to_string())),
            Route::Load => Ok(Answer::json(self.load())),
            Route::Models => Ok(Answer::json(self.models())),
            Route::Metrics => Ok(Answer::Full {
                content_type: Some("text/plain; version=0.0.4; charset=utf-8"),
                body: metrics::page(&self.config, &self.realtime, self.started).into(),
            }),
            Route::Tokenize => self.tokenize(&self.json_body(request).await?),
            Route::Detokenize => self.detokenize(&self.json_body(request).await?),
            Route::Generate(dialect) => {
                let id =
                    request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
                let body = self.json_body(request).await?;
                let limits = Limits {
                    model: &self.config.model,
                    max_model_len: self.config.max_model_len,
                    block_tokens: self.config.profile.block_tokens,
                };
                let ask = Ask::parse(dialect, &body, limits)?;
                // The prompt is tokens now; it need not be held while they are computed.
                drop(body);
                generate(&self.config, &self.realtime, ask, id.as_deref()).await
            }
        }
    }

    async fn json_body(&self, request: Request<Incoming>) -> Result<Bytes, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = content_type.and_then(|value| value.split(';').next()).map(str::trim);
        if !media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json")) {
            return Err(Problem::NotJsonType);
        }
        let body = Limited::new(request.into_body(), self.config.max_body).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| {
            if error.is::<LengthLimitError>() {
                Problem::BodyTooLarge
            } else {
                // The client broke off; nobody reads this.
                Problem::BadJson { position: 0, reason: "Expecting value" }
            }
        })
    }

    fn load(&self) -> String {
        let in_flight =
            self.realtime.observe(|counters, _| u64::from(counters.running) + u64::from(counters.waiting));
        json!({ "server_load": in_flight }).to_string()
    }

    fn models(&self) -> String {
        let (model, created) = (json!(self.config.model), self.started as u64);
        let max_model_len = self.config.max_model_len;
        format!(
            r#"{{"object":"list","data":[{{"id":{model},"object":"model","created":{created},"owned_by":"vllm","root":{model},"parent":null,"max_model_len":{max_model_len},"permission":[{{"id":"modelperm-{created:016x}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}]}}"#
        )
    }

    fn tokenize(&self, body: &[u8]) -> Result<Answer, Problem> {
        let fields = object(body)?;
        check_model(&fields, &self.config.model)?;
        let dialect = if fields.contains_key("messages") { Dialect::Chat } else { Dialect::Text };
        let mut ids = Vec::new();
        Prompt::of(dialect, &fields)?.feed(&mut |token| ids.push(token));
        let (count, max_model_len, tokens) = (ids.len(), self.config.max_model_len, json!(ids));
        Ok(Answer::json(format!(
            r#"{{"count":{count},"max_model_len":{max_model_len},"tokens":{tokens},"token_strs":null}}"#
        )))
    }

    fn detokenize(&self, body: &[u8]) -> Result<Answer, Problem> {
        let fields = object(body)?;
        check_model(&fields, &self.config.model)?;
        let ids = fields.get("tokens").and_then(Value::as_array).ok_or_else(|| missing("tokens", &fields))?;
        let prompt = tokens::text(ids.iter().filter_map(Value::as_u64));
        Ok(Answer::json(json!({ "prompt": prompt }).to_string()))
    }
}

/// Clients may invent methods; series must stay bounded.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn response(outcome: Result<Answer, Problem>) -> Response<Answer> {
    let (status, allow, answer) = match outcome {
        Ok(answer) => (200, None, answer),
        Err(problem) => {
            let allow = if let Problem::MethodNotAllowed { allow } = problem { Some(allow) } else { None };
            (problem.status(), allow, Answer::json(problem.body()))
        }
    };
    let content_type = answer.content_type();
    let mut response = Response::new(answer);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("uvicorn"));
    if let Some(allow) = allow {
        headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    response
}
