//! Faults switched on and off while it runs, and what follows from them.

mod admin;
mod board;

pub(super) use admin::administer;
pub(super) use board::{Board, Faults, Plan, Spoil, Trouble};
