//! Secrets: named in the file, read from their place when it is loaded, never shown.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::diagnostics::Origin;
use super::read::{Lookup, Node, Reader, Value};
use crate::bounded_file;

/// A secret, given by reference and read when the file is loaded.
#[derive(Clone)]
pub(super) struct Secret {
    reference: String,
    value: Arc<str>,
}

impl Secret {
    /// The secret itself.
    pub(super) fn reveal(&self) -> &Arc<str> {
        &self.value
    }

    fn resolve(reference: &str, reader: &Reader<'_>) -> Result<Arc<str>, (String, String)> {
        let value = fetch(reference, reader.lookup)?;
        if value.is_empty() || !value.bytes().all(|b| b.is_ascii_graphic()) {
            let what = format!("what {reference} holds cannot be a token");
            return Err((what, "printable ASCII without spaces, at least one character".into()));
        }
        Ok(value.into())
    }
}

/// What to do about a secret that stands in the file.
pub(super) const NAME_ITS_PLACE: &str = "name its place instead: \"env:NAME\" or \"file:PATH\"";

/// Whether `text` names a place of a secret instead of holding it.
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// What the place `reference` holds, without a line end. Errors: what is wrong, and how to mend it.
pub(super) fn fetch(reference: &str, lookup: Lookup<'_>) -> Result<String, (String, String)> {
    let value = match reference.split_once(':') {
        Some(("env", name)) => lookup(name).ok_or_else(|| {
            (format!("the environment variable {name} is not set"), format!("set {name} before the start"))
        })?,
        Some(("file", path)) => bounded_file::read_text(path.as_ref(), bounded_file::WRITTEN_BY_HAND)
            .map_err(|error| {
                (
                    format!("{path} cannot be read: {error}"),
                    "the file holds the secret and nothing else".into(),
                )
            })?,
        _ => return Err(("a secret does not stand in the file itself".into(), NAME_ITS_PLACE.into())),
    };
    Ok(value.trim_end_matches(['\r', '\n']).to_owned())
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.reference)
    }
}

impl Value for Secret {
    fn kind() -> String {
        "a secret by reference, \"env:NAME\" or \"file:PATH\"".into()
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^(env|file):.+" })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(reference) = node.get_ref().as_str() else {
            reader.wrong_type::<Self>(node).hint("write it in quotes: \"env:NAME\"");
            return None;
        };
        match Self::resolve(reference, reader) {
            Ok(value) => Some(Self { reference: reference.into(), value }),
            Err((what, hint)) => {
                let what = format!("{}: {what}", reader.key());
                reader.problems.add(&Origin::File(node.span()), what).hint(hint);
                None
            }
        }
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.reference)
    }
}
