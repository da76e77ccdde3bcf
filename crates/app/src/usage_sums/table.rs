//! Sums as a table for people.

use std::fmt::Write as _;

use indicatif::BinaryBytes;

use super::columns::{COLUMNS, Column, NO_NAME, OTHER, Value};
use super::groups::{By, Grouped};
use super::sums::Sums;

/// A row for each group, and one for the total. Columns in which every value is 0 or unknown are left out, apart from
/// the first two; durations are milliseconds.
pub(crate) fn render(grouped: &Grouped) -> String {
    let mut rows = vec![headings(grouped)];
    for group in grouped.groups.iter().filter(|_| !grouped.by.is_empty()) {
        let names = group.names.iter().map(|name| name.as_deref().map_or(NO_NAME.into(), plain)).collect();
        rows.push(row(grouped, names, &group.sums));
    }
    if let Some(other) = &grouped.other {
        rows.push(row(grouped, named(grouped, OTHER), other));
    }
    rows.push(row(grouped, named(grouped, "total"), &grouped.total));
    align(&rows, grouped.by.len().max(1))
}

/// Text without control characters: a client's words must not steer the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().fold(String::new(), |mut plain, c| {
        if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
        plain
    })
}

/// `1234567` as `1,234,567`.
pub(crate) fn with_commas(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn headings(grouped: &Grouped) -> Vec<String> {
    let names: Vec<String> = grouped.by.iter().map(|by: &By| by.name().into()).collect();
    let names = if names.is_empty() { vec![String::new()] } else { names };
    names.into_iter().chain(shown(&grouped.total).map(|column| column.heading.into())).collect()
}

/// `text` in the first of the columns with names.
fn named(grouped: &Grouped, text: &str) -> Vec<String> {
    let mut names = vec![String::new(); grouped.by.len().max(1)];
    if let Some(first) = names.first_mut() {
        text.clone_into(first);
    }
    names
}

fn row(grouped: &Grouped, names: Vec<String>, sums: &Sums) -> Vec<String> {
    names.into_iter().chain(shown(&grouped.total).map(|column| cell((column.value)(sums)))).collect()
}

fn shown(total: &Sums) -> impl Iterator<Item = &'static Column> {
    COLUMNS
        .iter()
        .enumerate()
        .filter(|(place, column)| *place < 2 || !(column.value)(total).is_blank())
        .map(|(_, c)| c)
}

fn cell(value: Value) -> String {
    let known = |text: Option<String>| text.unwrap_or_else(|| NO_NAME.into());
    match value {
        Value::Count(count) => with_commas(count),
        Value::Bytes(bytes) => BinaryBytes(bytes).to_string(),
        Value::Share(share) => known(share.map(|share| format!("{:.1} %", share * 100.0))),
        Value::Money(money) => {
            known(money.map(|money| format!("{}.{:06}", with_commas(money / 1_000_000), money % 1_000_000)))
        }
        Value::Millis(millis) => known(millis.map(|millis| format!("{millis:.1}"))),
    }
}

/// Names to the left, numbers to the right.
pub(crate) fn align(rows: &[Vec<String>], names: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width_of =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width_of(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column > 0 { "  " } else { "" };
            // Writing into a String cannot fail.
            let _ = if column < names {
                write!(line, "{gap}{cell:<width$}")
            } else {
                write!(line, "{gap}{cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas_between_thousands() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_commas(count), text);
        }
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}ä"), "a\\u{1b}[2Jb\\u{202e}ä");
    }
}
