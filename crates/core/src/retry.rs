//! What a failed attempt means: for its replica, for the request, and whether another attempt follows.

mod attempts;
mod budget;

pub use attempts::{AttemptFailure, Attempts, Booking, Next};
pub use budget::RetryBudget;
