//! A pure model of one vLLM replica.
//!
//! No clock, I/O or randomness: moments are `Duration`s since an origin the caller chooses, so that an hour can be
//! replayed in a second or played in real time. The scheduler follows vLLM's V1 engine (its design documents on
//! scheduling and automatic prefix caching): one pass over the running requests in order of admission, then admissions
//! from the waiting queue while the token budget lasts.

mod blocks;
mod counters;
mod profile;
mod replica;
mod request;
mod sequence;

pub use counters::Counters;
pub use profile::{Profile, StepCost, common_block_tokens};
pub use replica::Replica;
pub use request::{FinishReason, Output, Progress, Request, RequestId, SubmitError};

#[cfg(test)]
mod tests;
