//! Sums of usage logs of any size: read line by line with bounded memory, grouped, and written as a table, CSV or JSON.

mod columns;
mod csv;
mod files;
mod filter;
mod groups;
mod json;
mod line;
mod lines;
mod moment;
mod quantiles;
mod reading;
mod sums;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use files::{in_order, open};
pub(crate) use filter::Filter;
pub(crate) use groups::{By, Grouped, Groups, MOST_GROUPS};
pub(crate) use lines::{Found, LONGEST_LINE, Lines};
pub(crate) use moment::Moment;
pub(crate) use reading::{Counts, read};
pub(crate) use table::{align, plain, with_commas};

pub(crate) use csv::render as csv;
pub(crate) use json::render as json;
pub(crate) use table::render as table;
