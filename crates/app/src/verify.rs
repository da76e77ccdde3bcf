//! `sluicegate verify`: every promise put to the test, with what was measured and whether it passed.

mod builtin;
mod files;
mod live;
mod rows;
mod runs;
mod shares;
mod show;
mod trial;

pub(crate) use builtin::builtin;
pub(crate) use files::from_folder;
pub(crate) use live::{asked as live_promises, run as run_live};
pub(crate) use rows::{Row, Verdict};
pub(crate) use runs::{Plan, run_all};
pub(crate) use show::{json, table};
