//! The simulated engine over real sockets.

mod client;
mod dialects;
mod fault_dialects;
mod faults;
mod model;
mod shapes;
