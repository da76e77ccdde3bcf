//! Names, addresses, URLs and session key sources.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use sluicegate_proxy::plan::{ReplicaUrl, SessionSource};

use super::headers::is_token;
use super::replica_url;
use super::values::{Refusal, Text};

/// A name: neither empty nor blank at its ends, without control characters, at most 256 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(pub(super) Arc<str>);

impl Text for Name {
    const KIND: &'static str = "a name";
    const EXAMPLE: &'static str = r#""qwen3""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        let wrong = |what: &str| Err(Refusal::wrong(what, "write a name of 1 to 256 bytes"));
        match text {
            "" => wrong("the name is empty"),
            _ if text.trim() != text => wrong("the name begins or ends with white space"),
            _ if text.chars().any(char::is_control) => wrong("the name holds a control character"),
            _ if text.len() > 256 => wrong("the name is longer than 256 bytes"),
            _ => Ok(Self(text.into())),
        }
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": 256 })
    }
}

/// Text for a reader: not blank, at most 4096 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words(pub(super) Arc<str>);

impl Text for Words {
    const KIND: &'static str = "a text";
    const EXAMPLE: &'static str = r#""Good at code and mathematics""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        let wrong = |what: &str| Err(Refusal::wrong(what, "write a text of 1 to 4096 bytes"));
        match text {
            _ if text.trim().is_empty() => wrong("the text is empty"),
            _ if text.len() > 4096 => wrong("the text is longer than 4096 bytes"),
            _ => Ok(Self(text.into())),
        }
    }

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": 4096 })
    }
}

impl Text for SocketAddr {
    const KIND: &'static str = "an IP address and a port";
    const EXAMPLE: &'static str = r#""127.0.0.1:8080""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        text.parse().map_err(|_| {
            let what = format!("\"{text}\" is not an IP address and a port");
            Refusal::wrong(what, address_hint(text))
        })
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

/// What was probably meant by a text that is no address.
fn address_hint(text: &str) -> String {
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest).trim_end_matches('/');
    let (host, port) = bare.rsplit_once(':').unwrap_or(("", bare));
    if port.parse::<u16>().is_err() {
        let example = "for example \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::1]:8080\"";
        return match (host, port.parse::<u64>()) {
            ("", Err(_)) => example.into(),
            (_, Ok(_)) => "ports end at 65535".into(),
            (_, Err(_)) => format!("the port is a number; {example}"),
        };
    }
    match host {
        "" if bare.starts_with(':') => format!("did you mean \"0.0.0.0:{port}\" or \"127.0.0.1:{port}\"?"),
        "" => format!("did you mean \"127.0.0.1:{port}\"?"),
        _ if host.eq_ignore_ascii_case("localhost") => format!("did you mean \"127.0.0.1:{port}\"?"),
        "*" => format!("did you mean \"0.0.0.0:{port}\"?"),
        _ if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) => {
            format!("did you mean \"[{host}]:{port}\"?")
        }
        _ if bare.parse::<SocketAddr>().is_ok() => format!("did you mean \"{bare}\"?"),
        _ => format!("names are not looked up: write an IP address, for example \"0.0.0.0:{port}\""),
    }
}

impl Text for ReplicaUrl {
    const KIND: &'static str = "a base URL";
    const EXAMPLE: &'static str = r#""http://10.0.0.11:8000""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        replica_url::parse(text)
    }

    fn text(&self) -> String {
        self.text.to_string()
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://" })
    }
}

impl Text for SessionSource {
    const KIND: &'static str = "a session key source";
    const EXAMPLE: &'static str = r#""header:x-session-id""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        match text.split_once(':') {
            Some(("header", name)) if !name.is_empty() && name.chars().all(is_token) => {
                Ok(Self::Header(name.to_ascii_lowercase().into()))
            }
            Some(("body", name)) if !name.is_empty() => Ok(Self::Body(name.into())),
            Some(("auto", "conversation")) => Ok(Self::Conversation),
            _ => Err(Refusal::wrong(
                format!("\"{text}\" is not a session key source"),
                "\"header:NAME\", \"body:NAME\" (a top-level member, or a text part of a form) or \"auto:conversation\"",
            )),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Header(name) => format!("header:{name}"),
            Self::Body(name) | Self::BodyOfTalks(name) => format!("body:{name}"),
            Self::Conversation => "auto:conversation".into(),
        }
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "pattern": "^(header:.+|body:.+|auto:conversation)$" })
    }
}
