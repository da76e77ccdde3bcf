//! What must hold for any bytes: the bodies of the fuzz targets, and of the tests that replay their corpora.
//! Each panics where a rule is broken. The first byte of the data chooses among shapes and kinds.

mod plain;

use crate::{
    AnswerScan, Edits, IncludeUsage, Observer, Peek, PeekError, Shape, StreamError, StreamKind, Uncounted,
    Usage, Value, conversation_key, conversation_state, peek as read, prefix_key, unescape,
};

const SHAPES: [Shape; 5] = [Shape::Chat, Shape::Completions, Shape::Messages, Shape::Responses, Shape::Other];
const KINDS: [StreamKind; 5] = [
    StreamKind::Chat,
    StreamKind::Completions,
    StreamKind::Messages,
    StreamKind::Responses,
    StreamKind::Other,
];
/// Streams up to here are cut at every place by the fuzz target, where runs per second count.
const SHORT_STREAM: usize = 100;
/// And up to here by the tests: time grows with the square.
const LONG_STREAM: usize = 2048;
const SESSION: &[&str] = &["conversation_id", "thread_id"];

/// A body that is read tells the truth: its spans hold what a reader that goes byte by byte finds.
pub fn peek(data: &[u8]) {
    let Some((&first, body)) = data.split_first() else {
        return;
    };
    let shape = SHAPES[usize::from(first) % SHAPES.len()];
    let members = plain::members(body);
    let peek = match read(body, shape, SESSION) {
        Ok(peek) => peek,
        Err(PeekError::Syntax { at, .. }) => return assert!(at <= body.len()),
        Err(PeekError::Doubled { name, .. }) => {
            // The body may end wrongly behind the second one: then the other reader has no members to tell.
            let twice = |members: &[plain::Member]| members.iter().filter(|m| m.name == name).count() > 1;
            return assert!(members.is_none_or(|members| twice(&members)), "{name} is there once");
        }
    };
    let members = members.expect("what was read has members");
    let value_of = |name: &str| members.iter().find(|member| member.name == name).map(|m| m.value.clone());
    let model = peek.model.as_ref().map(|value| value.span().clone());
    assert_eq!(model, value_of("model"));
    assert_eq!(peek.stream_options.as_ref().map(|options| options.span.clone()), value_of("stream_options"));
    assert_eq!(peek.stream, value_of("stream").is_some_and(|span| body[span] == *b"true"));
    assert_eq!(peek.empty, members.is_empty());
    for (index, span) in &peek.session {
        assert_eq!(value_of(SESSION[*index]).as_ref(), Some(span));
    }
    check_spans(body, &peek);
    for limit in [0, 7, 100] {
        assert!(conversation_state(body, &peek, shape, limit).len() <= limit);
    }
}

fn check_spans(body: &[u8], peek: &Peek) {
    let strings = peek.session.iter().map(|(_, span)| span);
    for span in strings.chain(&peek.system).chain(&peek.first_user).chain(&peek.previous_response_id) {
        let text = &body[span.clone()];
        assert!(text.len() >= 3 && text.starts_with(b"\"") && text.ends_with(b"\""));
        let mut whole = String::new();
        unescape(body, span, usize::MAX, &mut whole);
        for limit in [0, 1, 5, 64] {
            let mut cut = String::new();
            unescape(body, span, limit, &mut cut);
            assert_eq!(cut, whole[..whole.floor_char_boundary(limit)]);
        }
    }
    assert!(body[..peek.members_at].ends_with(b"{"));
    assert!(peek.text_bytes + peek.token_ids + peek.prompts <= body.len() as u64);
    assert_eq!(prefix_key(body, peek, 64, 7).is_some(), !peek.system.is_empty());
    assert_eq!(conversation_key(body, peek, 64, 7).is_some(), !peek.first_user.is_empty());
}

/// Edits change what they are asked to change; reading the result says so, and asks for nothing more.
pub fn splice(data: &[u8]) {
    let Some((&first, body)) = data.split_first() else {
        return;
    };
    let Ok(peek) = read(body, Shape::Chat, SESSION) else {
        return;
    };
    let upstream = [None, Some("up"), Some("a\"\\\n\u{4e2d}")][usize::from(first) % 3];
    let ask = first & 0x80 != 0;
    let edits = Edits::new(&peek, upstream, ask);
    let sent = edits.slices(body).concat();
    assert_eq!(sent.len(), edits.len(body.len()));
    if edits.is_empty() {
        assert_eq!(sent, body);
    }
    let after = read(&sent, Shape::Chat, SESSION).expect("an edited body is read like the one before");
    assert!(!after.bom);
    assert_eq!(
        (after.stream, after.max_tokens, after.n, after.text_bytes, after.token_ids, after.media_parts),
        (peek.stream, peek.max_tokens, peek.n, peek.text_bytes, peek.token_ids, peek.media_parts)
    );
    assert_eq!(after.session.len(), peek.session.len());
    if let (Some(upstream), Some(_)) = (upstream, &peek.model) {
        let Some(Value::Text { span, .. }) = &after.model else {
            panic!("the model is a string now");
        };
        let mut model = String::new();
        unescape(&sent, span, usize::MAX, &mut model);
        assert_eq!(model, upstream);
    }
    match &after.stream_options {
        Some(options) if ask && peek.stream && (options.object || options.null) => {
            assert_eq!(options.include_usage, IncludeUsage::True);
        }
        Some(_) => {}
        None => assert!(!(ask && peek.stream)),
    }
    assert!(Edits::new(&after, None, ask).is_empty(), "one pass is enough");
}

/// Everything an observer says about a stream.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    bytes: Vec<u8>,
    complete: u64,
    events: u64,
    content_events: u64,
    uncounted: Uncounted,
    first_content: usize,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    error: Option<StreamError>,
    ended: bool,
}

fn observe(kind: StreamKind, hide: bool, stream: &[u8], mut next: impl FnMut() -> usize) -> Said {
    let mut observer = Observer::new(kind, hide);
    let (mut bytes, mut first_content, mut rest) = (Vec::new(), 0, stream);
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(next().clamp(1, rest.len()));
        let mut part = part.to_vec();
        let pass = observer.feed(&mut part);
        bytes.extend(pass.held);
        bytes.extend(&part[..pass.keep]);
        first_content += usize::from(pass.first_content);
        if observer.at_boundary() {
            let so_far = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            assert!(
                so_far.is_empty() || so_far.ends_with(b"\n") || so_far.ends_with(b"\r") || is_bom(so_far)
            );
        }
        rest = behind;
    }
    bytes.extend(observer.finish());
    Said {
        bytes,
        complete: observer.complete(),
        events: observer.events(),
        content_events: observer.content_events(),
        uncounted: observer.uncounted(),
        first_content,
        usage: observer.usage(),
        finish_reason: observer.finish_reason().map(str::to_owned),
        error: observer.error().cloned(),
        ended: observer.ended(),
    }
}

/// A lone line end is stripped above; what may be left of a mark-only stream is the mark.
fn is_bom(bytes: &[u8]) -> bool {
    bytes == b"\xef\xbb\xbf" || bytes == b"\xef\xbb\xbf\r"
}

/// A stream says the same and passes the same bytes in every split; without hiding, all of its bytes.
pub fn sse(data: &[u8]) {
    let Some((&first, stream)) = data.split_first() else {
        return;
    };
    let kind = KINDS[usize::from(first & 0x0f) % KINDS.len()];
    let seed = usize::from(first >> 4);
    if stream.len() <= SHORT_STREAM {
        every_split(kind, stream, seed);
    } else {
        let cut = stream.len() * (seed + 1) / 17;
        splits(kind, stream, seed, &[cut]);
    }
}

/// The same with one cut at every place.
pub fn every_split(kind: StreamKind, stream: &[u8], seed: usize) {
    let most = if stream.len() <= LONG_STREAM { stream.len() } else { 0 };
    let cuts: Vec<usize> = (1..most).collect();
    splits(kind, stream, seed, &cuts);
}

fn splits(kind: StreamKind, stream: &[u8], seed: usize, cuts: &[usize]) {
    for hide in [false, true] {
        let whole = observe(kind, hide, stream, || stream.len());
        // An event that `finish` alone completes is counted, but no feed is left to tell.
        let told = whole.content_events.min(1) as usize;
        assert!(whole.first_content == told || whole.first_content == 0 && whole.content_events == 1);
        let Uncounted { events, bytes } = whole.uncounted;
        assert!(u64::from(events) <= whole.content_events && bytes as usize <= stream.len());
        if !hide {
            assert_eq!(whole.bytes, stream);
            let (events, comments) = plain::events_and_comments(stream);
            // An event that lacks its blank line counts if its data is complete, which the plain reader cannot say.
            assert!((events + comments..=events + comments + 1).contains(&(whole.complete as usize)));
        } else {
            assert!(plain::is_subsequence(&whole.bytes, stream));
        }
        assert_eq!(observe(kind, hide, stream, || 1), whole, "byte by byte");
        let mut size = seed;
        let uneven = observe(kind, hide, stream, || {
            size = (size * 7 + 3) % 61;
            size
        });
        assert_eq!(uneven, whole, "in uneven parts");
        for &cut in cuts {
            let mut sizes = [cut].into_iter();
            assert_eq!(
                observe(kind, hide, stream, || sizes.next().unwrap_or(stream.len())),
                whole,
                "cut at {cut}"
            );
        }
    }
}

/// An answer says the same in every split.
pub fn answer(data: &[u8]) {
    let said = |size: usize| {
        let mut scan = AnswerScan::new();
        for part in data.chunks(size.max(1)) {
            scan.feed(part);
        }
        (scan.usage(), scan.finish_reason().map(str::to_owned), scan.error_type().map(str::to_owned))
    };
    let whole = said(data.len());
    for size in [1, 2, 3, 7, 63, 64, 65] {
        assert_eq!(said(size), whole, "in parts of {size}");
    }
    for word in [&whole.1, &whole.2].into_iter().flatten() {
        assert!(word.len() <= 64 && word.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
    }
}
