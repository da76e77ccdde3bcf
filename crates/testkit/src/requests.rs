//! Requests as clients write them.

/// The path most tests use.
pub const CHAT: &str = "/v1/chat/completions";

/// A chat body for `model` with one short user message; `members` are further top-level members, each with its
/// leading comma.
#[must_use]
pub fn chat(model: &str, members: &str) -> Vec<u8> {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]{members}}}"#).into_bytes()
}

/// A chat body for `model` that asks for a stream and for its usage event.
#[must_use]
pub fn chat_stream(model: &str) -> Vec<u8> {
    chat(model, r#","stream":true,"stream_options":{"include_usage":true}"#)
}

/// `POST path` with a Content-Length.
#[must_use]
pub fn post(path: &str, body: &[u8]) -> Vec<u8> {
    post_with(path, &[], body)
}

/// `POST path` with further fields and a Content-Length.
#[must_use]
pub fn post_with(path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = head(path, fields);
    out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    out.extend_from_slice(body);
    out
}

/// `POST path` with the key of this name and a Content-Length.
#[must_use]
pub fn post_as(key: &str, path: &str, body: &[u8]) -> Vec<u8> {
    post_with(path, &[("Authorization", &format!("Bearer {}", crate::Config::secret(key)))], body)
}

/// `POST path` in chunks.
#[must_use]
pub fn post_chunked<B: AsRef<[u8]>>(path: &str, chunks: impl IntoIterator<Item = B>) -> Vec<u8> {
    let mut out = head(path, &[("Transfer-Encoding", "chunked")]);
    out.extend_from_slice(b"\r\n");
    for chunk in chunks {
        out.extend(crate::answers::chunk(chunk.as_ref()));
    }
    out.extend_from_slice(crate::answers::LAST_CHUNK);
    out
}

/// `GET path`.
#[must_use]
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n").into_bytes()
}

/// `GET path` with the key of this name.
#[must_use]
pub fn get_as(key: &str, path: &str) -> Vec<u8> {
    let secret = crate::Config::secret(key);
    format!("GET {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {secret}\r\n\r\n").into_bytes()
}

fn head(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n");
    for (name, value) in fields {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.into_bytes()
}
