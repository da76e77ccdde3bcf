//! The admin side's bearer token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::answer::Failure;

/// Paths that tell only whether the gateway lives and is ready: probes have no token.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Lets a request through that carries the token, or needs none.
pub(super) async fn check(State(token): State<Option<Arc<str>>>, request: Request, next: Next) -> Response {
    let open = OPEN.contains(&request.uri().path());
    let allowed = open || token.is_none_or(|token| carries(request.headers(), &token));
    if allowed {
        return next.run(request).await;
    }
    let message = "this needs the admin token: Authorization: Bearer TOKEN";
    let mut answer = Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", message).into_response();
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    answer
}

/// Compared in constant time for equal lengths; the length of the token is no secret.
fn carries(headers: &HeaderMap, token: &str) -> bool {
    let credentials = headers.get(header::AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
    let Some((scheme, given)) = credentials.split_at_checked(b"Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && given.ct_eq(token.as_bytes()).into()
}
