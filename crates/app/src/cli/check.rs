//! `sluicegate check`: what a configuration file says, or all that is wrong with it.

use super::{CheckArgs, Failure, print};
use crate::config::{Config, Overrides};

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let loaded = Config::load(Some(&args.file), &Overrides::default()).map_err(Failure::Configuration)?;
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    print(&loaded.summary())
}
