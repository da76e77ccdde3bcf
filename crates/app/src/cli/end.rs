//! How a command fails: what is printed and the exit code.

use std::fmt;
use std::process::ExitCode;

use crate::config::Diagnostics;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration is wrong: exit code 2.
    Configuration(Diagnostics),
    /// What was given on the command line is wrong: exit code 2.
    Usage(anyhow::Error),
    /// Something failed on the way: exit code 1.
    Running(anyhow::Error),
}

impl Failure {
    pub(crate) const fn running(error: anyhow::Error) -> Self {
        Self::Running(error)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Configuration(_) | Self::Usage(_) => ExitCode::from(2),
            Self::Running(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(diagnostics) => writeln!(f, "{diagnostics}"),
            Self::Usage(error) | Self::Running(error) => writeln!(f, "error: {error:#}"),
        }
    }
}
