//! Own header fields of a pool's requests.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use sluicegate_proxy::plan::{Credential, carries_a_secret};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostics::Origin;
use super::read::{Node, Reader, Value};
use super::secret;

/// Header fields, in the order of the file.
#[derive(Clone, Default)]
pub(super) struct Headers(pub(super) Vec<Header>);

/// One header field.
#[derive(Clone)]
pub(super) struct Header {
    /// In lower case.
    pub(super) name: Arc<str>,
    pub(super) value: Credential,
    /// `env:NAME` or `file:PATH`, where the value does not stand in the file.
    reference: Option<String>,
}

impl Headers {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|header| &*header.name == name)
    }

    /// Whether one of them may say who asks.
    pub(super) fn authenticate(&self) -> bool {
        self.0.iter().any(|header| carries_a_secret(&header.name))
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reference.as_deref().unwrap_or("..."))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Value for Headers {
    fn kind() -> String {
        "a table: header names and their values, `\"env:NAME\"` or `\"file:PATH\"` for secret ones".into()
    }

    fn schema() -> Json {
        json!({ "type": "object", "additionalProperties": { "type": "string" } })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(table) = node.get_ref().as_table() else {
            let hint = "for example { \"OpenAI-Organization\" = \"my-org\", \"x-api-key\" = \"env:NAME\" }";
            reader.wrong_type::<Self>(node).hint(hint);
            return None;
        };
        let mut headers: Vec<(Header, Origin)> = Vec::new();
        let mut sound = true;
        let mut fields: Vec<_> = table.iter().collect();
        fields.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in fields {
            let at = Origin::File(key.span());
            let Some(header) = header(key, value, reader) else {
                sound = false;
                continue;
            };
            if let Some((_, first)) = headers.iter().find(|(other, _)| other.name == header.name) {
                let what = format!("headers: \"{}\" is named twice", header.name);
                let added = reader.problems.conflict(&at, what, first, "the first time");
                added.hint("upper and lower case make no difference");
                sound = false;
            }
            headers.push((header, at));
        }
        sound.then(|| Self(headers.into_iter().map(|(header, _)| header).collect()))
    }

    fn show(&self) -> String {
        let shown = |header: &Header| {
            format!("\"{}\" = \"{}\"", header.name, header.reference.as_deref().unwrap_or("..."))
        };
        match self.0.as_slice() {
            [] => "none".into(),
            headers => format!("{{ {} }}", headers.iter().map(shown).collect::<Vec<_>>().join(", ")),
        }
    }
}

fn header(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
) -> Option<Header> {
    let (name_at, value_at) = (Origin::File(key.span()), Origin::File(value.span()));
    let name = key.get_ref().to_ascii_lowercase();
    if let Some(why) = refusal(&name) {
        let what = format!("headers: \"{}\" {why}", key.get_ref());
        reader.problems.add(&name_at, what).hint("leave it out");
        return None;
    }
    let Some(text) = value.get_ref().as_str() else {
        let what = format!("headers: the value of \"{name}\" is not text");
        reader.problems.add(&value_at, what).hint("write it in quotes");
        return None;
    };
    let reference = secret::is_reference(text).then(|| text.to_owned());
    if reference.is_none() && carries_a_secret(&name) {
        let what = format!("headers: a secret such as \"{name}\" does not stand in the file itself");
        reader.problems.add(&value_at, what).hint(secret::NAME_ITS_PLACE);
        return None;
    }
    let read = match &reference {
        Some(reference) => secret::fetch(reference, reader.lookup),
        None => Ok(text.to_owned()),
    };
    match read {
        Ok(value) if is_field_value(&value) => {
            Some(Header { name: name.into(), value: Credential(value.into()), reference })
        }
        Ok(_) => {
            let what = format!("headers: the value of \"{name}\" cannot be one");
            let hint = "printable ASCII that is not empty and neither begins nor ends with a space";
            reader.problems.add(&value_at, what).hint(hint);
            None
        }
        Err((what, hint)) => {
            reader.problems.add(&value_at, format!("headers: {what}")).hint(hint);
            None
        }
    }
}

/// Why a field of this name cannot be set here.
fn refusal(name: &str) -> Option<&'static str> {
    match name {
        _ if name.is_empty() || !name.chars().all(is_token) => Some("is no header name"),
        _ if FRAMING.contains(&name) => Some("belongs to the connection"),
        _ if OWN.contains(&name) || name.starts_with("x-forwarded-") => {
            Some("is written by the gateway itself")
        }
        _ => None,
    }
}

/// A character of a token (RFC 9110, section 5.6.2).
pub(super) fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

fn is_field_value(value: &str) -> bool {
    !value.is_empty() && value.trim() == value && value.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
}

/// Fields of one connection or of a message's frame, and the target's name.
const FRAMING: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Fields that describe the body, that say who forwarded for whom, or that the gateway needs for its own work: the
/// usage in a coded answer cannot be read.
const OWN: [&str; 7] =
    ["accept-encoding", "content-encoding", "content-type", "forwarded", "via", "x-real-ip", "x-request-id"];
