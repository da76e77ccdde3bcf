//! Configurations as a table: every part of each, one below the other, and how much it changed.

use std::fmt::Write as _;

use super::super::Facts;
use super::super::figures::{COLUMNS, Column, Figures};
use super::super::table::Rows;
use super::Report;
use crate::usage_sums::{align, plain};

/// The conditions, the table, and what was taken for granted.
pub(crate) fn table(facts: &Facts, reports: &[Report]) -> String {
    let mut text = format!("{}\n", plain(&facts.line()));
    for line in lines(reports) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}", plain(&line));
    }
    let Rows { names, rows, .. } = rows(reports);
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    text + "\n" + &align(&rows, names)
}

/// What people have to know of each configuration's run.
pub(super) fn lines(reports: &[Report]) -> Vec<String> {
    let several = reports.len() > 1;
    let of = |report: &Report| {
        let shape = &report.shape;
        let owner = if several { format!("{}: ", shape.name) } else { String::new() };
        let assumed = shape.assumed.iter().map(move |what| format!("note: {owner}{what}"));
        std::iter::once(report.line()).chain(assumed).collect::<Vec<_>>()
    };
    reports.iter().flat_map(of).collect()
}

/// A row for each part and configuration, and for each configuration after the first one with its change against the
/// first.
pub(super) fn rows(reports: &[Report]) -> Rows {
    let several = reports.len() > 1;
    let columns = || COLUMNS.iter().filter(|column| column.heading.is_some());
    let names = if several { vec!["part", "configuration"] } else { vec!["part"] };
    let headings = columns().filter_map(|column| column.heading);
    let mut rows = Rows {
        names: names.len(),
        rows: vec![names.into_iter().chain(headings).map(str::to_owned).collect()],
        colors: Vec::new(),
    };
    let mut add = |names: Vec<String>, color, cell: &dyn Fn(&Column) -> String| {
        rows.rows.push(names.into_iter().chain(columns().map(cell)).collect());
        rows.colors.push(color);
    };
    for part in parts(reports) {
        let mut label = part.clone();
        let mut first: Option<&Figures> = None;
        for (at, report) in reports.iter().enumerate() {
            let Some(figures) = report.part(&part) else { continue };
            let names = |what: &str, label: String| {
                if several { vec![label, what.to_owned()] } else { vec![label] }
            };
            let color = (part == TOTAL).then_some(at);
            add(names(&report.shape.name, std::mem::take(&mut label)), color, &|column| column.cell(figures));
            if at == 0 {
                first = Some(figures);
            } else if let Some(first) = first {
                add(names("change, %", String::new()), None, &|column| change(column, first, figures));
            }
        }
    }
    rows
}

const TOTAL: &str = "total";

fn change(column: &Column, from: &Figures, to: &Figures) -> String {
    column.change(from, to).map_or_else(|| "-".into(), |percent| format!("{percent:+.1}"))
}

/// The names of all parts: the whole, the routes, the pools, each in the order in which they come first.
fn parts(reports: &[Report]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (name, _) in reports.iter().flat_map(Report::parts) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let kind = |name: &String| (name != TOTAL, name.starts_with("pool "));
    all.sort_by_key(kind);
    all
}
