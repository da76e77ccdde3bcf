//! The binary: everything is in the library.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate::cli::run()
}
