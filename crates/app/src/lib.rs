//! The gateway as a library: configuration, usage log, metrics, admin side, and the commands of the binary.

pub mod usage_log;
pub mod inspect;
pub mod metrics;
#[cfg(test)]
mod plain_gateway;
