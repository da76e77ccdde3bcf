//! Keeps web pages away from the admin side. A browser on the administrator's machine reaches every port of it, and
//! sends there what any page asks for: simple cross-site requests as they are, and others after the page's own name
//! was made to point here (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::Failure;

/// Lets requests through that no foreign page can have made. Where there is a token no page knows it, and names of
/// hosts and origins may be anything.
pub(super) async fn check(State(token): State<Option<Arc<str>>>, request: Request, next: Next) -> Response {
    match refusal(&request, token.is_some()) {
        Some(refused) => refused.into_response(),
        None => next.run(request).await,
    }
}

fn refusal(request: &Request, has_token: bool) -> Option<Failure> {
    let host = match host(request, has_token) {
        Ok(host) => host,
        Err(refused) => return Some(refused),
    };
    let (headers, changes) = (request.headers(), changes(request.method()));
    let refuse = |status, code, message: &str| Some(Failure::new(status, code, message));
    if !has_token && !host.as_ref().is_some_and(is_this_machine) {
        let message = "without an admin token the Host must be an IP address or localhost; \
                       set [admin] token to use other names";
        return refuse(StatusCode::FORBIDDEN, "foreign_host", message);
    }
    if !has_token && changes && is_foreign(headers, host.as_ref()) {
        let message = "requests of other sites' pages are refused; set [admin] token to allow them";
        return refuse(StatusCode::FORBIDDEN, "foreign_origin", message);
    }
    if changes && !is_json(headers) {
        let message = "this needs content-type: application/json";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message);
    }
    None
}

/// RFC 9110 section 9.2.1: the safe methods change nothing.
fn changes(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// The one host asked for (RFC 9112 section 3.2); None for an HTTP/1.0 probe that names none, which only a token lets in.
fn host(request: &Request, has_token: bool) -> Result<Option<Authority>, Failure> {
    let wrong = || Failure::bad_request("expected exactly one Host header, with HOST or HOST:PORT");
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => authority(host).ok_or_else(wrong)?,
        (None, _) if has_token && request.version() == Version::HTTP_10 => return Ok(None),
        _ => return Err(wrong()),
    };
    // A target that names its host stands above the header; no client of ours sends one.
    match request.uri().authority() {
        Some(target) if !target.as_str().eq_ignore_ascii_case(host.as_str()) => Err(wrong()),
        _ => Ok(Some(host)),
    }
}

fn authority(host: &HeaderValue) -> Option<Authority> {
    let authority = Authority::try_from(host.as_bytes()).ok()?;
    (!authority.host().is_empty() && !authority.as_str().contains('@')).then_some(authority)
}

/// No page's name: rebinding needs a name that its owner can point elsewhere.
fn is_this_machine(host: &Authority) -> bool {
    let host = host.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// What a browser says of the page that made it send the request; other clients say nothing.
fn is_foreign(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    let foreign_origin = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        !own.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host.as_str()))
    });
    let of_this_site = |site: &HeaderValue| site == "same-origin" || site == "none";
    foreign_origin || !headers.get_all("sec-fetch-site").iter().all(of_this_site)
}

/// A type that a browser sends across sites only after asking first, which nothing here answers with yes.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else { return false };
    let essence = first.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
