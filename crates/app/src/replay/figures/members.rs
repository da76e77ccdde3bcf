//! Figures as members of a JSON object.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{COLUMNS, Column, Figures, Shown};

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        columns(&mut map, |column| match ((column.value)(self), column.shown) {
            (None, _) => Value::Null,
            (Some(value), Shown::Count) => (value as u64).into(),
            (Some(value), Shown::Decimals(_) | Shown::Percent) => value.into(),
        })?;
        map.serialize_entry("ok", &self.ok)?;
        map.serialize_entry("outcomes", &self.outcomes)?;
        map.serialize_entry("untimed", &self.untimed)?;
        map.end()
    }
}

/// How each number changed from one to the other, in per cent.
pub(in super::super) struct Change<'f>(pub(in super::super) &'f Figures, pub(in super::super) &'f Figures);

impl Serialize for Change<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        columns(&mut map, |column| column.change(self.0, self.1).into())?;
        map.end()
    }
}

/// A member for each column, those with the same first name in one object.
fn columns<M: SerializeMap>(map: &mut M, value: impl Fn(&Column) -> Value) -> Result<(), M::Error> {
    for group in COLUMNS.chunk_by(|one, other| one.json.0 == other.json.0) {
        let members: Map<String, Value> =
            group.iter().filter_map(|column| Some((column.json.1?.to_owned(), value(column)))).collect();
        match group {
            [only] if members.is_empty() => map.serialize_entry(only.json.0, &value(only))?,
            [first, ..] => map.serialize_entry(first.json.0, &members)?,
            [] => {}
        }
    }
    Ok(())
}
