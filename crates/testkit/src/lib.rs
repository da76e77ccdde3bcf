//! The bench of the field cases: the whole app in process, replicas scripted byte for byte, raw clients. Nothing here
//! sleeps: every wait is for an event, under a generous guard that only ever fails a test.

pub mod answers;
mod app;
mod bench;
mod client;
mod config;
mod connection;
pub mod discovery;
mod gate;
mod message;
pub mod requests;
mod upstream;

pub use bench::Bench;
pub use client::{Answer, End, RawClient};
pub use config::{Config, Setting};
pub use gate::{Count, Feed, Gate, PATIENCE, patiently, until, within};
pub use message::Head;
pub use sluicegate_core::{Health, KeyUsage, ReplicaSnapshot};
pub use upstream::{Counts, Load, OnHead, Received, Step, Upstream, send};
