//! The simulated engine over real sockets.

mod client;
mod model;
mod shapes;
