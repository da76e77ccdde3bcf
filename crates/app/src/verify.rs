//! `sluicegate verify`: every promise put to the test, with what was measured and whether it passed.

mod builtin;
mod files;
mod rows;
mod runs;
mod shares;
mod show;

pub(crate) use builtin::builtin;
pub(crate) use files::from_folder;
pub(crate) use rows::Verdict;
pub(crate) use runs::{Plan, run_all};
pub(crate) use show::{json, table};
