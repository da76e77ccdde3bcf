//! Sums as CSV (RFC 4180): for each group a record, no total, so that a reader can sum and pivot.

use super::columns::{COLUMNS, NO_NAME, Number, OTHER};
use super::groups::Grouped;
use super::sums::Sums;

/// A header record, then a record for each group; without groups one for all lines. What is not known is empty.
pub(crate) fn render(grouped: &Grouped) -> anyhow::Result<String> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let names = grouped.by.iter().map(|by| by.name());
    writer.write_record(names.chain(COLUMNS.iter().map(|column| column.name)))?;
    if grouped.by.is_empty() {
        writer.write_record(values(&grouped.total))?;
    } else {
        for group in &grouped.groups {
            let names = group.names.iter().map(|name| name.clone().unwrap_or_else(|| NO_NAME.into()));
            writer.write_record(names.chain(values(&group.sums)))?;
        }
        if let Some(other) = &grouped.other {
            writer.write_record(grouped.by.iter().map(|_| OTHER.to_owned()).chain(values(other)))?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn values(sums: &Sums) -> impl Iterator<Item = String> {
    COLUMNS.iter().map(|column| match (column.value)(sums).number() {
        Some(Number::Whole(number)) => number.to_string(),
        Some(Number::Decimal(number)) => number.to_string(),
        None => String::new(),
    })
}
