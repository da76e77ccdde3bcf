//! `sluicegate usage` and `sluicegate key`, as the built binary.

mod against;
mod binary;
mod keys;
mod sums;
