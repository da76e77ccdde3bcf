//! Normal form of a path (RFC 3986 section 6.2.2), refusing what has more than one reading.

use std::borrow::Cow;

const MODELS: &str = "/v1/models/";

/// `None`: no path that could be in the table. See [`super::endpoint`].
pub(super) fn normalise(path: &str) -> Option<Cow<'_, str>> {
    if !path.starts_with('/') || path.contains(['\\', '\0']) {
        return None;
    }
    let plain = decode_unreserved(path)?;
    let resolved = resolve_segments(&plain)?;
    // A coded slash has one reading only where nothing behind the gateway reads it.
    if has_coded_slash(&resolved) && !resolved.starts_with(MODELS) {
        return None;
    }
    Some(if resolved == path { Cow::Borrowed(path) } else { Cow::Owned(resolved.into_owned()) })
}

/// Percent-decodes everything. `None`: malformed, or not UTF-8.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = if *first == b'%' { coded(after)? } else { (*first, after) };
        out.push(byte);
        rest = after;
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

/// Makes percent-coded unreserved bytes plain and leaves other codes as they are. `None`: a malformed code, a coded
/// backslash or a coded control byte.
fn decode_unreserved(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((plain, after)) = rest.split_once('%') {
        out.push_str(plain);
        let (byte, _) = coded(after.as_bytes())?;
        let (code, after) = after.split_at_checked(2)?;
        match byte {
            b'\\' | b'\0'..=b'\x1f' | b'\x7f' => return None,
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => {
                out.push('%');
                out.push_str(code);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// One slash where there are several, and dot segments resolved. `None`: `..` above the root.
fn resolve_segments(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains("//") && !path.contains("/.") {
        return Some(Cow::Borrowed(path));
    }
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => out.truncate(out.rfind('/')?),
            _ => {
                out.push('/');
                out.push_str(segment);
            }
        }
    }
    // The last segment decides whether the path names a folder: `/a/`, `/a/.` and `/a/..` do.
    if matches!(path.rsplit('/').next(), Some("" | "." | "..")) {
        out.push('/');
    }
    Some(Cow::Owned(out))
}

fn has_coded_slash(path: &str) -> bool {
    path.contains("%2f") || path.contains("%2F")
}

/// The byte that two hexadecimal digits stand for, and what follows them.
fn coded(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = digit(*high)? * 16 + digit(*low)?;
    Some((u8::try_from(byte).ok()?, rest))
}
