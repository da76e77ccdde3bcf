//! Field names the gateway acts on, and the options of `Connection`.

use httparse::Header;
use smallvec::SmallVec;

/// What a field name means to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Expect,
    ContentType,
    ContentEncoding,
    RetryAfter,
    /// For one connection only (RFC 9110 section 7.6.1); never crosses the gateway.
    HopByHop,
    /// The client's own proof of who it is, or on whose account it asks: for the gateway, not for a replica. Beside
    /// the gateway's own credential it would have a provider book the request elsewhere, or refuse it.
    Credential,
    /// Who forwarded what for whom: the gateway's to state, not the client's.
    Forwarding,
    AcceptEncoding,
    Other,
}

/// Looks a name up, in any case.
pub(super) fn classify(name: &str) -> Field {
    let own = ends(name);
    let is = |known: &'static str| {
        // Up to 16 bytes there is nothing between the ends.
        let short = (8..=16).contains(&known.len());
        name.len() == known.len()
            && (!short || own == ends(known))
            && (short || name.eq_ignore_ascii_case(known))
    };
    match name.len() {
        2 if is("te") => Field::HopByHop,
        3 if is("via") => Field::Forwarding,
        4 if is("host") => Field::Host,
        6 if is("expect") => Field::Expect,
        6 if is("cookie") => Field::Credential,
        7 if is("api-key") || is("cookie2") => Field::Credential,
        7 if is("trailer") || is("upgrade") => Field::HopByHop,
        9 if is("x-api-key") => Field::Credential,
        9 if is("forwarded") || is("x-real-ip") => Field::Forwarding,
        10 if is("connection") => Field::Connection,
        10 if is("keep-alive") => Field::HopByHop,
        11 if is("x-client-ip") || is("x-forwarded") => Field::Forwarding,
        11 if is("retry-after") => Field::RetryAfter,
        12 if is("x-auth-token") => Field::Credential,
        12 if is("content-type") => Field::ContentType,
        13 if is("authorization") => Field::Credential,
        14 if is("x-goog-api-key") || is("openai-project") => Field::Credential,
        14 if is("true-client-ip") => Field::Forwarding,
        14 if is("content-length") => Field::ContentLength,
        14 if is("http2-settings") => Field::HopByHop,
        15 if is("accept-encoding") => Field::AcceptEncoding,
        16 if is("cf-connecting-ip") => Field::Forwarding,
        16 if is("content-encoding") => Field::ContentEncoding,
        16 if is("proxy-connection") => Field::HopByHop,
        17 if is("transfer-encoding") => Field::TransferEncoding,
        18 if is("proxy-authenticate") => Field::HopByHop,
        19 if is("proxy-authorization") => Field::HopByHop,
        19 if is("openai-organization") || is("x-goog-user-project") => Field::Credential,
        19 if is("x-cluster-client-ip") => Field::Forwarding,
        20 if is("x-amz-security-token") => Field::Credential,
        24 if is("x-original-forwarded-for") => Field::Forwarding,
        25 if is("proxy-authentication-info") => Field::HopByHop,
        25 if is("ocp-apim-subscription-key") => Field::Credential,
        // These two say how the body is to be read; the others say who asks, for whom.
        _ if starts_with(name, "anthropic-") && !is("anthropic-version") && !is("anthropic-beta") => {
            Field::Credential
        }
        _ if starts_with(name, "x-forwarded-") => Field::Forwarding,
        _ => Field::Other,
    }
}

/// The first and the last eight bytes of a name without their case: two numbers are compared sooner than letters are.
/// Bit 5 tells nothing else in a token that is made of letters, digits and hyphens.
#[inline(always)]
fn ends(name: &str) -> Option<(u64, u64)> {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) | CASE;
    let bytes = name.as_bytes();
    Some((word(bytes.first_chunk()?), word(bytes.last_chunk()?)))
}

/// Whether a field of a provider's answer is about the account that asked, or about the provider's own servers and
/// their connections: a client would take the gateway's limits for its own, keep cookies that tie it to others, or
/// hold this host to what another one promised.
pub(super) fn is_of_the_account(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "alt-svc",
        "anthropic-organization-id",
        "nel",
        "openai-organization",
        "openai-project",
        "ratelimit",
        "report-to",
        "reporting-endpoints",
        "server",
        "set-cookie",
        "set-cookie2",
        "strict-transport-security",
        "via",
        "www-authenticate",
        "x-powered-by",
        "x-served-by",
    ];
    const PREFIXES: [&str; 5] = ["anthropic-ratelimit-", "cf-", "ratelimit-", "x-envoy-", "x-ratelimit-"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
        || PREFIXES.iter().any(|prefix| starts_with(name, prefix))
}

/// The elements of a comma-separated list, without the white space around them; empty elements are passed over
/// (RFC 9110 section 5.6.1.2).
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// The fields that the `Connection` fields of a head name, so that they stay on that connection.
pub(super) struct Named<'b>(SmallVec<[&'b [u8]; 8]>);

impl<'b> Named<'b> {
    pub(super) fn collect(headers: &[Header<'b>]) -> Self {
        let mut named = SmallVec::new();
        for header in headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection")) {
            named.extend(list(header.value).filter(|option| !is_end_to_end(option)));
        }
        Self(named)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// Fields that say what the body is or how it may be kept. A sender must not name them in `Connection`
/// (RFC 9110 section 7.6.1), and must not get a message past the gateway with its description torn off.
fn is_end_to_end(option: &[u8]) -> bool {
    let describes_body = option.get(..8).is_some_and(|head| head.eq_ignore_ascii_case(b"content-"));
    describes_body || option.eq_ignore_ascii_case(b"cache-control")
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Puts one field line out.
pub(super) fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "a value ends its own line");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Puts out `content-length`.
pub(super) fn write_content_length(out: &mut Vec<u8>, length: u64) {
    write_field(out, "content-length", itoa::Buffer::new().format(length).as_bytes());
}
