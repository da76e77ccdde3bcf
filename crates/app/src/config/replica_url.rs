//! Why a replica's URL was refused, and what was probably meant.

use std::net::Ipv6Addr;

use sluicegate_proxy::plan::{ReplicaUrl, UrlError};

use super::values::{Refusal, Text};

/// Reads a replica's URL.
pub(super) fn parse(text: &str) -> Result<ReplicaUrl, Refusal> {
    // A second URL behind a slash would pass as a path.
    if text.contains(',') && text.matches("://").count() > 1 {
        let hint =
            "one text each: replicas = [\"URL\", \"URL\"] in the file, --replica URL --replica URL as flags";
        return Err(Refusal::wrong("several URLs in one text", hint));
    }
    text.parse().map_err(|error| refusal(text, error))
}

/// What is wrong with `text`, which is only repeated where it cannot hold a password.
fn refusal(text: &str, error: UrlError) -> Refusal {
    let example = || format!("for example {}", ReplicaUrl::EXAMPLE);
    if text.contains('@') {
        let hint =
            "leave out what stands before the @; credentials = [\"env:NAME\"] in [[pools]] sends a token";
        return Refusal::wrong("a replica URL has no user and password", hint);
    }
    if text.contains(',') {
        return Refusal::wrong("a replica URL has no comma", "one --replica for each, or a list in the file");
    }
    match error {
        UrlError::Scheme => Refusal::wrong(error.to_string(), with_a_scheme(text).unwrap_or_else(example)),
        UrlError::Tail => Refusal::wrong(error.to_string(), example()),
        UrlError::Host => {
            let (what, hint) = host_or_port(text);
            Refusal::wrong(what, hint.unwrap_or_else(example))
        }
    }
}

/// The same with `http://` before it and no blanks around, where that is all that was wrong.
fn with_a_scheme(text: &str) -> Option<String> {
    let text = text.trim();
    let url = match text.split_once("://") {
        Some(_) => text.to_owned(),
        None if text.parse::<Ipv6Addr>().is_ok() => format!("http://[{text}]"),
        None => format!("http://{text}"),
    };
    url.parse::<ReplicaUrl>().is_ok().then(|| format!("did you mean \"{url}\"?"))
}

/// What is wrong behind the scheme, and how to mend it where that can be told.
fn host_or_port(text: &str) -> (String, Option<String>) {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let authority = rest.split('/').next().unwrap_or(rest);
    if let Some(url) = with_brackets(scheme, authority) {
        return ("an IPv6 address stands in brackets".into(), Some(format!("did you mean \"{url}\"?")));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    match (host, port) {
        ("", _) => ("the host is missing".into(), None),
        (_, Some("")) => ("the port behind the colon is missing".into(), None),
        (_, Some(port)) if port.parse::<u16>().is_err() => {
            (format!("\"{port}\" is not a port"), Some("ports are numbers from 1 to 65535".into()))
        }
        _ => (UrlError::Host.to_string(), None),
    }
}

/// `::1` and `::1:8000` as they must be written; the last group counts as the port where the rest is an address too.
fn with_brackets(scheme: &str, authority: &str) -> Option<String> {
    let url = match authority.rsplit_once(':') {
        Some((host, port)) if host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok() => {
            format!("{scheme}://[{host}]:{port}")
        }
        _ if authority.parse::<Ipv6Addr>().is_ok() => format!("{scheme}://[{authority}]"),
        _ => return None,
    };
    Some(url)
}
