//! Method and path to answer.

use super::SimConfig;
use super::ask::{Ask, Dialect, Limits, Prompt, check_model, missing, object};
use super::body::Answer;
use super::fault::{self, Board, Faults, Spoil, Trouble};
use super::generate::Host;
use super::metrics;
use super::problem::Problem;
use super::tokens;
use super::wall_clock::unix_seconds;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;

/// The HTTP side of one replica.
#[derive(Debug)]
pub(super) struct Front {
    host: Host,
    faults: Arc<Faults>,
    board: Arc<Board>,
    index: usize,
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
    /// A kept response, by the id at the path's end.
    Kept,
    Embed,
    Fault,
}

/// Path, methods as the `Allow` header lists them, and what is there.
const ROUTES: [(&str, &[Method], &str, Route); 14] = [
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
    ("/v1/messages", &[Method::POST], "POST", Route::Generate(Dialect::Messages)),
    ("/v1/responses", &[Method::POST], "POST", Route::Generate(Dialect::Responses)),
    ("/v1/embeddings", &[Method::POST], "POST", Route::Embed),
    ("/sim/fault", &[Method::GET, Method::POST, Method::DELETE], "GET, POST, DELETE", Route::Fault),
];
/// As the metrics name it.
const KEPT: (&str, &[Method], &str, Route) =
    ("/v1/responses/{response_id}", &[Method::GET], "GET", Route::Kept);

impl Front {
    pub(super) fn new(host: Host, board: Arc<Board>, faults: Arc<Faults>, index: usize) -> Self {
        Self { host, faults, board, index, started: unix_seconds() }
    }

    pub(super) fn config(&self) -> &SimConfig {
        &self.host.config
    }

    /// Answers every request, in vLLM's words where it cannot be served; `None`: its connection is to be reset.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Option<Response<Answer>> {
        let method = request.method().clone();
        let path = request.uri().path();
        let known = ROUTES.iter().find(|(known, ..)| *known == path);
        let known = known.or_else(|| kept_id(path).map(|_| &KEPT));
        let dialect = match known {
            Some((.., Route::Generate(dialect))) => Some(*dialect),
            _ => None,
        };
        let outcome = match known {
            None => Err(Problem::NotFound),
            Some((_, methods, _, route)) if methods.contains(&method) => self.answer(*route, request).await?,
            Some((_, _, allow, _)) => Err(Problem::MethodNotAllowed { allow }),
        };
        let status = outcome.as_ref().map_or_else(Problem::status, |_| 200);
        // Like vLLM's instrumentation, which leaves out what monitors the server.
        let monitoring = matches!(
            known,
            Some((.., Route::Alive | Route::Metrics | Route::Load | Route::Version | Route::Fault))
        );
        if !monitoring {
            let handler = known.filter(|_| status != 405).map_or("none", |(path, ..)| path);
            self.host.realtime.count_response(handler, method_label(&method), status);
        }
        Some(response(outcome, dialect))
    }

    /// `None`: the connection is to be reset.
    async fn answer(&self, route: Route, request: Request<Incoming>) -> Option<Result<Answer, Problem>> {
        match route {
            Route::Generate(dialect) => self.generate(dialect, request).await,
            Route::Embed => self.embed(request).await,
            other => Some(self.answer_besides(other, request).await),
        }
    }

    /// What is not work for the engine.
    async fn answer_besides(&self, route: Route, request: Request<Incoming>) -> Result<Answer, Problem> {
        let Host { config, realtime, stored } = &self.host;
        match route {
            Route::Alive => self.health().await,
            Route::Version => Ok(Answer::json(json!({ "version": "0.32.0" }).to_string())),
            Route::Load => Ok(Answer::json(self.load())),
            Route::Models => Ok(Answer::json(self.models())),
            Route::Metrics => Ok(Answer::Full {
                content_type: Some("text/plain; version=0.0.4; charset=utf-8"),
                body: metrics::page(config, realtime, self.started).into(),
            }),
            Route::Tokenize => self.tokenize(&self.json_body(request).await?),
            Route::Detokenize => self.detokenize(&self.json_body(request).await?),
            Route::Kept => {
                let id = kept_id(request.uri().path()).unwrap_or_default();
                let body = stored.body(id).map(Answer::json);
                body.ok_or_else(|| Problem::UnknownResponse { id: id.to_owned() })
            }
            Route::Fault => {
                let (head, body) = request.into_parts();
                let body = self.body(body).await?;
                let (board, query) = (&self.board, head.uri.query());
                fault::administer(board, self.index, &head.method, query, &body).await.map(Answer::json)
            }
            Route::Generate(_) | Route::Embed => Err(Problem::NotFound),
        }
    }

    async fn health(&self) -> Result<Answer, Problem> {
        let (delay, wrong) = self.faults.health();
        if let Some(delay) = delay {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.faults.until_ended("slow-health") => {}
            }
        }
        wrong.map_or_else(|| Ok(Answer::empty()), Err)
    }

    async fn generate(
        &self,
        dialect: Dialect,
        request: Request<Incoming>,
    ) -> Option<Result<Answer, Problem>> {
        let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let body = match self.json_body(request).await {
            Ok(body) => body,
            Err(problem) => return Some(Err(problem)),
        };
        let spoil = match self.struck().await? {
            Ok(spoil) => spoil,
            Err(problem) => return Some(Err(problem)),
        };
        let config = &self.host.config;
        let limits = Limits {
            model: &config.model,
            max_model_len: config.max_model_len,
            block_tokens: config.profile.block_tokens,
            stored: &self.host.stored,
        };
        let ask = Ask::parse(dialect, &body, limits);
        // The prompt is tokens now; it need not be held while they are computed.
        drop(body);
        Some(match ask {
            Ok(ask) => self.host.generate(ask, id.as_deref(), spoil).await,
            Err(problem) => Err(problem),
        })
    }

    async fn embed(&self, request: Request<Incoming>) -> Option<Result<Answer, Problem>> {
        let body = match self.json_body(request).await {
            Ok(body) => body,
            Err(problem) => return Some(Err(problem)),
        };
        Some(match self.struck().await? {
            Err(problem) | Ok(Some(Spoil { says: Some(problem), .. })) => Err(problem),
            Ok(Some(_)) => self.host.embed(&body).await.map(Answer::torn),
            Ok(None) => self.host.embed(&body).await,
        })
    }

    /// What the faults leave of a request that was read: how its answer is to be spoiled, or what it gets instead of one.
    async fn struck(&self) -> Option<Result<Option<Spoil>, Problem>> {
        match self.faults.strike() {
            None => Some(Ok(None)),
            Some(Trouble::Spoiled(spoil)) => Some(Ok(Some(spoil))),
            Some(Trouble::Refused(problem)) => Some(Err(problem)),
            Some(Trouble::Reset) => None,
            Some(Trouble::Hang) => {
                self.faults.until_ended("hang").await;
                Some(Ok(None))
            }
        }
    }

    async fn json_body(&self, request: Request<Incoming>) -> Result<Bytes, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = content_type.and_then(|value| value.split(';').next()).map(str::trim);
        if !media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json")) {
            return Err(Problem::NotJsonType);
        }
        self.body(request.into_body()).await
    }

    async fn body(&self, body: Incoming) -> Result<Bytes, Problem> {
        let body = Limited::new(body, self.host.config.max_body).collect().await;
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
        let in_flight = self
            .host
            .realtime
            .observe(|counters, _| u64::from(counters.running) + u64::from(counters.waiting));
        json!({ "server_load": in_flight }).to_string()
    }

    fn models(&self) -> String {
        let (model, created) = (json!(self.host.config.model), self.started as u64);
        let max_model_len = self.host.config.max_model_len;
        format!(
            r#"{{"object":"list","data":[{{"id":{model},"object":"model","created":{created},"owned_by":"vllm","root":{model},"parent":null,"max_model_len":{max_model_len},"permission":[{{"id":"modelperm-{created:016x}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}]}}"#
        )
    }

    fn tokenize(&self, body: &[u8]) -> Result<Answer, Problem> {
        let fields = object(body)?;
        check_model(&fields, &self.host.config.model)?;
        let dialect = if fields.contains_key("messages") { Dialect::Chat } else { Dialect::Text };
        let mut ids = Vec::new();
        Prompt::of(dialect, &fields)?.feed(&mut |token| ids.push(token));
        let (count, max_model_len, tokens) = (ids.len(), self.host.config.max_model_len, json!(ids));
        Ok(Answer::json(format!(
            r#"{{"count":{count},"max_model_len":{max_model_len},"tokens":{tokens},"token_strs":null}}"#
        )))
    }

    fn detokenize(&self, body: &[u8]) -> Result<Answer, Problem> {
        let fields = object(body)?;
        check_model(&fields, &self.host.config.model)?;
        let ids = fields.get("tokens").and_then(Value::as_array).ok_or_else(|| missing("tokens", &fields))?;
        let prompt = tokens::text(ids.iter().filter_map(Value::as_u64));
        Ok(Answer::json(json!({ "prompt": prompt }).to_string()))
    }
}

fn kept_id(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/responses/").filter(|id| !id.is_empty() && !id.contains('/'))
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

fn response(outcome: Result<Answer, Problem>, dialect: Option<Dialect>) -> Response<Answer> {
    let (status, allow, answer) = match outcome {
        Ok(answer) => (200, None, answer),
        Err(Problem::Unwell) => (Problem::Unwell.status(), None, Answer::empty()),
        Err(problem) => {
            let allow = if let Problem::MethodNotAllowed { allow } = problem { Some(allow) } else { None };
            (problem.status(), allow, Answer::json(problem.body_in(dialect)))
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
