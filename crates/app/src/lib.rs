//! The gateway as a library: configuration, usage log, metrics, admin side, and the commands of the binary.

// They panic where nobody reads; `cli::print` and `cli::tell` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod admin;
mod admin_client;
pub mod app;
mod bounded_file;
pub mod cli;
pub mod config;
mod decisions;
mod demo;
mod discovery;
mod every_sink;
mod gateway_view;
pub mod inspect;
pub mod metrics;
mod one_call;
#[cfg(test)]
mod plain_gateway;
mod reconcile;
mod replay;
pub mod usage_log;
mod usage_sums;
mod verify;

pub use app::{App, StartError};
pub use usage_log::MemorySink;
