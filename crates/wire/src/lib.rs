//! Bytes <-> values: pure, incremental, bounded. No sockets, no async.

mod engine_metrics;
mod error_body;
#[doc(hidden)]
pub mod fuzz_http;
mod http1;
mod path;

pub use engine_metrics::*;
pub use error_body::*;
pub use http1::*;
pub use path::*;

mod affinity;
mod answer;
mod bits;
mod blocks;
#[doc(hidden)]
pub mod fuzz;
#[doc(hidden)]
pub mod fuzz_form;
mod multipart;
mod number;
mod peek;
mod scalar;
mod scan;
mod splice;
mod sse;
mod state;
mod text;
mod usage;

pub use affinity::*;
pub use answer::*;
pub use blocks::*;
pub use multipart::*;
pub use peek::*;
pub use scan::MAX_RESPONSE_ID;
pub use splice::*;
pub use sse::*;
pub use state::*;
pub use text::*;
pub use usage::*;
