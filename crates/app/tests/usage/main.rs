//! Commands that read and print: `sluicegate usage`, `sluicegate key`, `sluicegate replay`, as the built binary.

mod against;
mod binary;
mod keys;
mod replay;
mod replay_configs;
mod replay_docs;
mod replay_page;
mod sums;
