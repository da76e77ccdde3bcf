//! Pure decisions: no I/O, clock, random source, async or serde. Events in, effects out, one next deadline.
//!
//! [`Pool`] holds one set of replicas behind one model: who is fit to serve ([`Health`]), how loaded each one is, which
//! session or prompt prefix is warm where (pins), and which replica the next request goes to. [`Attempts`] decides
//! what a failed attempt means for its replica and whether another one follows. Where slots are known the pool has
//! requests wait for one, fairly between keys. [`KeyLedger`] keeps what a key may use, [`Price`] says what it costs,
//! [`PoisonList`] remembers requests that fail every replica.

mod board;
mod choose;
mod effect;
mod explain;
mod health;
mod ids;
mod lanes;
mod lease;
mod limits;
mod load;
mod modes;
mod money;
mod pick;
mod pins;
mod poison;
mod policies;
mod pool;
mod predict;
mod prng;
mod queue;
mod rendezvous;
mod replica;
mod retry;
mod scrapes;
mod settings;
mod snapshot;
pub mod time;
mod verdict;
mod window;

pub use effect::{Effect, Transition, TransitionReason};
pub use explain::{Candidate, Chosen, Explanation, NoPlace, Predicted};
pub use health::Health;
pub use ids::{KeyIndex, ModelId, ReplicaId, RouteIndex, Serves, Session, TargetIndex, Weight};
pub use lanes::{Awaited, Entry, Lane, Placed, Turns};
pub use lease::{Lease, Spell};
pub use limits::{
    Ask, Calendar, KeyLedger, KeyLimits, KeyUsage, Limit, LimitRefusal, Remaining, Reservation, Spent,
    WindowLeft,
};
pub use load::EngineLoad;
pub use modes::{Mode, Scoring, Shares};
pub use money::{Micros, Price};
pub use pick::{NoReplica, PickRequest, Picked, Prompt, Reason};
pub use poison::PoisonList;
pub use policies::{Decision, Policies, Policy};
pub use pool::Pool;
pub use queue::{Admission, Denial, QueueDepth, QueueKey, QueueLimits, QueueSnapshot, Ticket, Waiting};
pub use replica::{Origin, ReplicaSpec};
pub use retry::{AttemptFailure, Attempts, Booking, Next, RetryBudget};
pub use settings::{
    AffinityMode, AffinitySettings, HealthSettings, LoadSource, PoolSettings, RetrySettings, WaitingCounts,
};
pub use snapshot::{PoolSnapshot, ReplicaSnapshot};
pub use time::Time;
pub use verdict::{Failure, Scrape, Verdict};
