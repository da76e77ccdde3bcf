//! The rules of heads and chunks, as tables.

mod chunks;
mod request_heads;
mod response_heads;
mod written_heads;

/// One request head that must be complete.
fn request(text: &str) -> super::RequestHead<'_> {
    match super::parse_request(text.as_bytes()) {
        Ok(Some(head)) => head,
        other => panic!("{other:?} for {text:?}"),
    }
}

/// One response head that must be complete.
fn response(text: &str) -> super::ResponseHead<'_> {
    match super::parse_response(text.as_bytes(), false) {
        Ok(Some(head)) => head,
        other => panic!("{other:?} for {text:?}"),
    }
}
