//! `replay --config`: configurations in the place of policies.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Failure, ReplayArgs};
use crate::config::{Config, Loaded, Overrides};
use crate::replay::{self, Facts, Manner, Profiles, Report, Trace};

/// Plays the trace against each configuration and shows them side by side.
pub(super) fn run(args: &ReplayArgs, profiles: &Profiles) -> Result<(), Failure> {
    let loaded = load(&args.configs)?;
    known_pools(&loaded, profiles).map_err(Failure::Usage)?;
    let trace = super::read(args, profiles.block_tokens())?;
    trace.fits(args.speed).map_err(Failure::Usage)?;
    let manner = Manner { profiles, model: args.model.as_deref(), speed: args.speed, seed: args.seed };
    let (mut contestants, mut shapes) = (Vec::new(), Vec::new());
    for (path, loaded) in &loaded {
        let name = name(path, &args.configs);
        let configured = replay::configured(&name, loaded, &trace.requests, &manner)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Usage)?;
        contestants.push(configured.contestant);
        shapes.push(configured.shape);
    }
    let facts = facts(args, &trace);
    let runs = replay::run_all(contestants, args.threads);
    let reports: Vec<Report> =
        shapes.into_iter().zip(runs).map(|(shape, run)| Report::of(shape, run)).collect();
    super::show(
        args,
        &|| replay::configurations_html(&facts, &reports),
        &|| replay::configurations_json(&facts, &reports),
        &|| replay::configurations_table(&facts, &reports),
    )
}

fn load(paths: &[PathBuf]) -> Result<Vec<(&Path, Loaded)>, Failure> {
    let one = |path: &'_ PathBuf| Config::load(Some(path), &Overrides::default());
    paths.iter().map(|path| Ok((path.as_path(), one(path).map_err(Failure::Configuration)?))).collect()
}

/// Every pool that a profile is for is in some configuration.
fn known_pools(loaded: &[(&Path, Loaded)], profiles: &Profiles) -> anyhow::Result<()> {
    let pools = || loaded.iter().flat_map(|(_, loaded)| loaded.plan.pools.iter().map(|pool| &*pool.name));
    for asked in profiles.pools() {
        if !pools().any(|pool| pool == asked) {
            let mut known: Vec<&str> = pools().collect();
            known.sort_unstable();
            known.dedup();
            anyhow::bail!(
                "--profile {asked}=...: there is no pool of that name; there are: {}",
                known.join(", ")
            );
        }
    }
    Ok(())
}

/// The file's name, or as much of its path as it takes to tell it from the others.
fn name(path: &Path, all: &[PathBuf]) -> String {
    let own = path.file_name().unwrap_or_default();
    let alone = all.iter().filter(|other| other.file_name() == Some(own)).count() < 2;
    if alone { own.to_string_lossy().into_owned() } else { path.display().to_string() }
}

fn facts(args: &ReplayArgs, trace: &Trace) -> Facts {
    let jobs = sluicegate_lab::replay::at_speed(&trace.jobs(), args.speed);
    super::facts(args, trace, args.speed, &jobs, None)
}
