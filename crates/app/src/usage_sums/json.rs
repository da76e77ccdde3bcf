//! Sums as one JSON object.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::columns::{COLUMNS, Number};
use super::filter::Filter;
use super::groups::{By, Grouped};
use super::reading::Counts;
use super::sums::Sums;

/// The object, indented, and a line feed. A name or number that is not known is null.
pub(crate) fn render(grouped: &Grouped, counts: &Counts, filter: &Filter) -> anyhow::Result<String> {
    let names: Vec<&str> = grouped.by.iter().map(|by| by.name()).collect();
    let groups = if grouped.by.is_empty() { &[][..] } else { &grouped.groups };
    let whole = Whole {
        by: &names,
        since: filter.since.as_ref().map(|since| since.as_str()),
        until: filter.until.as_ref().map(|until| until.as_str()),
        lines: counts.lines,
        counted: counts.counted,
        bad_lines: counts.bad,
        first_bad_line: counts.first_bad.as_deref(),
        groups: groups
            .iter()
            .map(|group| Row { by: &grouped.by, names: &group.names, sums: &group.sums })
            .collect(),
        other: grouped.other.as_ref().map(unnamed),
        total: unnamed(&grouped.total),
    };
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

#[derive(Serialize)]
struct Whole<'a> {
    by: &'a [&'a str],
    since: Option<&'a str>,
    until: Option<&'a str>,
    lines: u64,
    counted: u64,
    bad_lines: u64,
    first_bad_line: Option<&'a str>,
    groups: Vec<Row<'a>>,
    other: Option<Row<'a>>,
    total: Row<'a>,
}

struct Row<'a> {
    by: &'a [By],
    names: &'a [Option<String>],
    sums: &'a Sums,
}

const fn unnamed(sums: &Sums) -> Row<'_> {
    Row { by: &[], names: &[], sums }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (by, name) in self.by.iter().zip(self.names) {
            map.serialize_entry(by.name(), name)?;
        }
        for column in COLUMNS {
            match (column.value)(self.sums).number() {
                Some(Number::Whole(number)) => map.serialize_entry(column.name, &number)?,
                Some(Number::Decimal(number)) => map.serialize_entry(column.name, &number)?,
                None => map.serialize_entry(column.name, &())?,
            }
        }
        map.end()
    }
}
