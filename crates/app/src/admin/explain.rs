//! The body of `POST /api/explain`: a whole request, or only the body of a chat.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::answer::Failure;
use crate::inspect::ExplainRequest;

/// `{"method","path","headers","body","key","decide"}`; `key` is the name of the key that asks, never a key; the body's
/// bytes are kept as they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<'a> {
    method: Option<String>,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    key: Option<String>,
    #[serde(default)]
    decide: bool,
}

/// No request body of an API has a top-level `path`, so it tells the two forms apart.
#[derive(Deserialize)]
struct Probe {
    path: Option<IgnoredAny>,
}

/// Reads either form. Without a `path` the bytes are the body of a chat completion, whatever they are: that it is no
/// JSON is then for the gateway to say, as it would to a client.
pub(super) fn read(bytes: &[u8]) -> Result<ExplainRequest, Failure> {
    let whole = serde_json::from_slice::<Probe>(bytes).is_ok_and(|probe| probe.path.is_some());
    if !whole {
        return Ok(ExplainRequest {
            method: "POST".into(),
            target: "/v1/chat/completions".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: bytes.to_vec(),
            key: None,
            decide: false,
        });
    }
    let whole: Whole<'_> = serde_json::from_slice(bytes).map_err(|error| {
        Failure::bad_request(format!("expected method, path, headers, body, key and decide: {error}"))
    })?;
    Ok(ExplainRequest {
        method: whole.method.unwrap_or_else(|| "POST".into()),
        target: whole.path,
        headers: whole.headers.into_iter().collect(),
        body: whole.body.map(|body| body.get().as_bytes().to_vec()).unwrap_or_default(),
        key: whole.key,
        decide: whole.decide,
    })
}
