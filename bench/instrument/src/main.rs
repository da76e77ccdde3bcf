//! What `cargo xtask bench` measures with. One core carries the load and the fake replica together, so both are cheap:
//! one thread, one `epoll`, no task for a stream.

mod answers;
mod chunked;
mod load;
mod message;
mod process;
mod ready;
mod replica;
mod socket;

use clap::{Parser, Subcommand};

/// The load and the replica of a side-by-side measurement. `cargo xtask bench` runs it; by hand it is for looking closer.
#[derive(Parser)]
#[command(version, about)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A replica that answers at once, or streams at a steady pace.
    Replica(replica::Settings),
    /// A closed loop of requests; prints one line of JSON.
    Load(load::Settings),
    /// Waits until an address answers a chat completion with 200.
    Ready(ready::Settings),
}

fn main() -> anyhow::Result<()> {
    match Command::parse().what {
        What::Replica(settings) => replica::serve(&settings),
        What::Load(settings) => load::run(&settings),
        What::Ready(settings) => ready::wait(&settings),
    }
}
