//! The watch's stream: JSON objects with blank lines between them, in pieces that end anywhere. Blank lines alone are
//! heartbeats.

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::Instance;
use crate::discovery::http::LARGEST;

/// One change.
#[derive(Debug)]
pub(super) enum Event {
    /// An instance is there, or is another now.
    Is(Instance),
    /// The instance of this number is gone.
    Gone(u64),
}

#[derive(Deserialize)]
struct Told {
    #[serde(rename = "type")]
    kind: u8,
    data: serde_json::Value,
}

/// What has come and is not whole yet.
#[derive(Debug, Default)]
pub(super) struct Events(Vec<u8>);

impl Events {
    /// The changes that are whole with this piece.
    pub(super) fn read(&mut self, piece: &[u8]) -> anyhow::Result<Vec<Event>> {
        self.0.extend_from_slice(piece);
        let mut events = Vec::new();
        let mut objects = serde_json::Deserializer::from_slice(&self.0).into_iter::<Told>();
        let mut read = 0;
        loop {
            match objects.next() {
                Some(Ok(told)) => {
                    read = objects.byte_offset();
                    events.extend(event(told)?);
                }
                Some(Err(error)) if error.is_eof() => break,
                Some(Err(error)) => return Err(error).context("watch: it cannot be read"),
                None => {
                    read = self.0.len();
                    break;
                }
            }
        }
        self.0.drain(..read);
        if self.0.len() > LARGEST {
            bail!("watch: an event is larger than 16 MiB");
        }
        Ok(events)
    }
}

/// Kinds that a later version may have tell nothing.
fn event(told: Told) -> anyhow::Result<Option<Event>> {
    let read = "watch: an instance cannot be read";
    Ok(match told.kind {
        1 | 2 => Some(Event::Is(serde_json::from_value(told.data).context(read)?)),
        3 => Some(Event::Gone(told.data.get("id").and_then(serde_json::Value::as_u64).context(read)?)),
        _ => None,
    })
}
