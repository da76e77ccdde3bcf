//! Reads inputs from beginning to end into groups.

use anyhow::Context as _;

use super::files::Input;
use super::filter::Filter;
use super::groups::Groups;
use super::line::Line;
use super::lines::{Found, LONGEST_LINE, Lines};

/// How many lines there were. Blank ones do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All of them.
    pub(crate) lines: u64,
    /// Usage lines that the filter takes.
    pub(crate) counted: u64,
    /// No usage lines.
    pub(crate) bad: u64,
    /// The first bad one: `FILE:LINE: what is wrong`.
    pub(crate) first_bad: Option<String>,
}

/// Adds every line that `filter` takes to `groups`.
///
/// # Errors
/// A source fails, or a compressed one is damaged or cut.
pub(crate) fn read(inputs: Vec<Input>, filter: &Filter, groups: &mut Groups) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    for Input { name, source } in inputs {
        let mut lines = Lines::new(source);
        let mut number = 0_u64;
        while let Some(found) =
            lines.next().with_context(|| format!("cannot read {name} after line {number}"))?
        {
            number += 1;
            if let Err(wrong) = take(found, filter, groups, &mut counts) {
                counts.bad += 1;
                counts.first_bad.get_or_insert_with(|| format!("{name}:{number}: {wrong}"));
            }
        }
    }
    Ok(counts)
}

fn take(found: Found<'_>, filter: &Filter, groups: &mut Groups, counts: &mut Counts) -> Result<(), String> {
    let bytes = match found {
        Found::Line(bytes) if bytes.trim_ascii().is_empty() => return Ok(()),
        Found::Line(bytes) => bytes,
        Found::TooLong => {
            counts.lines += 1;
            return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
        }
    };
    counts.lines += 1;
    let line = Line::read(bytes)?;
    if filter.takes(&line) {
        counts.counted += 1;
        groups.add(&line);
    }
    Ok(())
}
