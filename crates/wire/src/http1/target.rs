//! Request targets (RFC 9112 section 3.2) and authorities.

use super::HeadError;

/// The target in origin form. Absolute form (`http://host/path`) is accepted and cut to its path, as section 3.2.2
/// demands of a server; its authority decides nothing here. Authority form, asterisk form, an absolute form with a
/// query but no path, and any byte outside RFC 3986 (a fragment, a backslash, raw UTF-8) are refused.
pub(super) fn origin_form<'b>(method: &str, target: &'b str) -> Result<&'b str, HeadError> {
    if method.eq_ignore_ascii_case("CONNECT") {
        return Err(HeadError::Bad("CONNECT is not served"));
    }
    if !target.bytes().all(is_uri_byte) {
        return Err(HeadError::Bad("a byte that no request target may have"));
    }
    if target.starts_with('/') {
        return Ok(target);
    }
    let Some(rest) = strip_scheme(target) else {
        return Err(HeadError::Bad("the request target is not a path"));
    };
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    if authority.is_empty() || !is_authority(authority.as_bytes()) {
        return Err(HeadError::Bad("malformed authority in the request target"));
    }
    if path.starts_with('/') { Ok(path) } else { Err(HeadError::Bad("the request target has no path")) }
}

/// A `Host` value: empty, or host and optional port. User names, commas and blanks are refused.
pub(super) fn check_host(value: &[u8]) -> Result<(), HeadError> {
    if value.is_empty() || is_authority(value) { Ok(()) } else { Err(HeadError::Bad("malformed Host")) }
}

fn strip_scheme(target: &str) -> Option<&str> {
    let strip = |scheme: &str| {
        let (head, rest) = target.split_at_checked(scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    strip("http://").or_else(|| strip("https://"))
}

fn is_authority(text: &[u8]) -> bool {
    let (host_ok, rest) = match text.strip_prefix(b"[") {
        Some(literal) => {
            let end = memchr::memchr(b']', literal).unwrap_or(literal.len());
            let (address, rest) = literal.split_at(end);
            let address_ok = address.contains(&b':')
                && address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
            match rest.strip_prefix(b"]") {
                Some(rest) => (address_ok, rest),
                None => (false, rest),
            }
        }
        None => {
            let end = memchr::memchr(b':', text).unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            (!name.is_empty() && name.iter().all(|byte| is_host_byte(*byte)), rest)
        }
    };
    let port_ok = match rest.strip_prefix(b":") {
        Some(port) => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        None => rest.is_empty(),
    };
    host_ok && port_ok
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Reserved, unreserved and `%` of RFC 3986 without `#`: a target has no fragment.
fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'$'..=b'/' | b':' | b';' | b'=' | b'?' | b'@' | b'[' | b']' | b'_' | b'~')
}
