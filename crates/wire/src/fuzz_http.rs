//! What must hold for any bytes: the bodies of the fuzz targets, and of the tests that replay their corpora.
//! Each panics where a rule is broken.

use crate::{
    ChunkDecoder, ClientFraming, Decoded, HeadError, MAX_HEAD, MAX_HEADERS, RequestFraming, ResponseFraming,
    UpstreamHead, endpoint, engine_metrics as read_metrics, model_id, parse_request, parse_response,
    write_client_head, write_upstream_head,
};

/// Fields that may never reach the other side.
const HOP_BY_HOP: [&str; 6] =
    ["keep-alive", "te", "trailer", "upgrade", "proxy-connection", "proxy-authorization"];

/// A request head is read the same whatever follows it, and not before it is complete; what is sent on is one
/// request with one framing.
pub fn request_head(data: &[u8]) {
    let longer = [data, b"X"].concat();
    let head = match parse_request(data) {
        Err(_) => return assert!(parse_request(&longer).is_err(), "more bytes mend no head"),
        Ok(None) => return assert!(data.len() < 2 * MAX_HEAD, "a head has an end"),
        Ok(Some(head)) => head,
    };
    assert!(head.len <= data.len() && head.headers.len() <= MAX_HEADERS);
    assert!(head.target.starts_with('/') && head.target.is_ascii());
    let exact = data.get(..head.len).unwrap_or_default();
    let again =
        parse_request(exact).ok().flatten().map(|again| (again.len, again.framing, again.target.len()));
    assert_eq!(again, Some((head.len, head.framing, head.target.len())));
    for cut in [1, 2, 3, head.len / 2, head.len] {
        let short = exact.get(..exact.len().saturating_sub(cut)).unwrap_or_default();
        assert!(matches!(parse_request(short), Ok(None)), "a cut head is incomplete");
    }
    let body = usize::from(head.framing != RequestFraming::None);
    let up = UpstreamHead {
        authority: "replica:8000",
        path: head.target,
        extra: &[("x-request-id", "r")],
        content_length: (body > 0).then_some(body),
    };
    let mut out = Vec::new();
    write_upstream_head(&mut out, &head, &up);
    out.extend_from_slice(b"\r\n");
    // The gateway's own fields may take a head of a client over the bound.
    if out.len() > MAX_HEAD || head.headers.len() > MAX_HEADERS - 3 {
        return;
    }
    let sent = parse_request(&out).expect("what is sent on is well-formed").expect("and complete");
    assert_eq!(
        (sent.len, sent.method, sent.target, sent.http11),
        (out.len(), head.method, head.target, true)
    );
    let framing = if body > 0 { RequestFraming::Length(1) } else { RequestFraming::None };
    assert_eq!(sent.framing, framing);
    assert!(
        HOP_BY_HOP
            .iter()
            .chain(&["connection", "authorization", "cookie"])
            .all(|name| sent.header(name).is_none())
    );
}

/// A response head is read the same whatever follows it; what the client gets says the same and closes where the
/// body has no other end.
pub fn response_head(data: &[u8]) {
    for head_request in [false, true] {
        let longer = [data, b"X"].concat();
        let head = match parse_response(data, head_request) {
            Err(_) => {
                return assert!(parse_response(&longer, head_request).is_err(), "more bytes mend no head");
            }
            Ok(None) => return assert!(data.len() < MAX_HEAD, "a head has an end"),
            Ok(Some(head)) => head,
        };
        assert!(head.len <= data.len() && head.headers.len() <= MAX_HEADERS);
        assert!(!(head_request && head.framing != ResponseFraming::None));
        let framing = match head.framing {
            ResponseFraming::None => ClientFraming::None,
            ResponseFraming::Length(length) => ClientFraming::Length(length),
            ResponseFraming::Chunked => ClientFraming::Chunked,
            ResponseFraming::Close => ClientFraming::Close,
        };
        let mut out = Vec::new();
        write_client_head(&mut out, &head, framing, true, head.keep_alive, &[("x-request-id", "r")]);
        if out.len() > MAX_HEAD || head.headers.len() > MAX_HEADERS - 3 {
            continue;
        }
        let sent = parse_response(&out, head_request)
            .expect("what is sent on is well-formed")
            .expect("and complete");
        assert_eq!((sent.len, sent.status, sent.framing), (out.len(), head.status, head.framing));
        assert_eq!((sent.keep_alive, sent.event_stream), (head.keep_alive, head.event_stream));
        assert_eq!((sent.content_encoded, sent.retry_after), (head.content_encoded, head.retry_after));
        assert!(HOP_BY_HOP.iter().all(|name| sent.header(name).is_none()));
    }
}

/// A chunked body is read the same in any split: the first byte says how the rest is cut.
pub fn chunked(data: &[u8]) {
    let Some((step, body)) = data.split_first() else { return };
    let whole = decode_in_steps(body, body.len().max(1));
    assert_eq!(decode_in_steps(body, usize::from(*step) + 1), whole);
    assert_eq!(decode_in_steps(body, 1), whole);
}

/// The payload, the bytes used and whether the end was reached.
fn decode_in_steps(body: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), HeadError> {
    let mut decoder = ChunkDecoder::new();
    let mut payload = Vec::new();
    let mut used = 0;
    let mut done = false;
    for piece in body.chunks(step) {
        let mut buf = piece.to_vec();
        let Decoded { consumed, payload: len, done: now } = decoder.decode(&mut buf)?;
        assert!(len <= consumed && consumed <= piece.len());
        assert!(now || consumed == piece.len(), "only the end leaves bytes over");
        assert_eq!(buf.get(consumed..), piece.get(consumed..), "what follows is untouched");
        payload.extend_from_slice(buf.get(..len).unwrap_or_default());
        used += consumed;
        done = now;
        if done {
            break;
        }
    }
    Ok((payload, used, done))
}

/// Shares are shares, line ends do not matter, and a text twice over counts twice.
pub fn engine_metrics(data: &[u8]) {
    let once = read_metrics(data);
    for share in [once.kv_usage, once.prefix_hit_rate].into_iter().flatten() {
        assert!((0.0..=1.0).contains(&share));
    }
    let twice = read_metrics(&[data, b"\n", data].concat());
    assert_eq!(twice.engine, once.engine);
    assert_eq!(twice.running, once.running.map(|count| count.saturating_mul(2)));
    assert_eq!((twice.kv_usage, twice.block_size), (once.kv_usage, once.block_size));
}

/// What is sent on is normal: looked up again it stays as it is, and holds nothing with a second reading.
pub fn path(data: &[u8]) {
    let Ok(target) = std::str::from_utf8(data) else { return };
    for method in ["GET", "POST", "DELETE"] {
        let Ok((found, normal)) = endpoint(method, target) else { continue };
        assert_eq!(endpoint(method, &normal), Ok((found, normal.clone())));
        let path = normal.split('?').next().unwrap_or_default();
        assert!(path.starts_with('/') && !path.contains("//") && !path.contains('\\'));
        assert!(path.split('/').all(|segment| segment != "." && segment != ".."));
        if model_id(path).is_none() {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.');
            assert!(path.bytes().all(plain) || path.starts_with("/v1/models/"));
        }
    }
}
