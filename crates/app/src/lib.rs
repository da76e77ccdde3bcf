//! The gateway as a library: configuration, usage log, metrics, admin side, and the commands of the binary.

pub mod admin;
mod admin_client;
pub mod config;
pub mod inspect;
pub mod metrics;
#[cfg(test)]
mod plain_gateway;
pub mod usage_log;
