//! The data plane: sockets, connections, phases, leases, relay, scrapes. The only reader of the clock and the only
//! spawner of tasks on the way of a request. Start reading at `request.rs`.

mod answer;
mod attempt;
mod batch;
mod blocks;
mod body;
mod buffers;
mod client;
mod clock;
mod coding;
mod connection;
mod control;
mod credentials;
mod decide;
mod explain;
mod gateway;
mod keys;
mod local;
pub mod plan;
mod pool;
mod rate_fields;
mod record;
mod refusal;
mod relay;
mod request;
mod request_id;
mod resolve;
mod respond;
mod responses;
mod route;
mod scrape;
mod server;
mod targets;
#[cfg(test)]
mod test_plan;
mod timer;
mod tls;
mod upstream;
pub mod usage;

pub use decide::{Abstention, Answers, Criterion, Decisions, Depth, Question, Says};
pub use explain::{Explained, ExplainedDecision, ExplainedWay, ToExplain};
pub use gateway::{Gateway, Gauges, RouteName, TargetName};
pub use keys::Key;
pub use plan::Plan;
pub use pool::{MOST_REPLICAS, Pool, Update};
pub use refusal::Refusal;
pub use server::Running;
pub use tls::{config as tls_config, connect as connect_tls};
pub use usage::{Outcome, UsageLine, UsageSink, UsageSource};
