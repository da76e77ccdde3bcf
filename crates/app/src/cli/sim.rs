//! `sluicegate sim`: simulated replicas until a signal ends them.

use anyhow::Context as _;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::sim::{Sim, SimConfig};

use super::{Failure, Signals, SimArgs, tell};

pub(super) fn run(args: &SimArgs) -> Result<(), Failure> {
    let profile = Profile::named(&args.profile).unwrap_or_default();
    let config = SimConfig {
        listen: args.listen,
        replicas: usize::from(args.replicas),
        model: args.model.clone(),
        profile,
        seed: args.seed,
        ..SimConfig::default()
    };
    simulate(config).map_err(Failure::running)
}

fn simulate(config: SimConfig) -> anyhow::Result<()> {
    let (listen, model) = (config.listen, config.model.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new().context("signals cannot be received")?;
        let sim = Sim::start(config).with_context(|| format!("cannot listen on {listen}"))?;
        for address in sim.addrs() {
            tell(format_args!("simulated replica of {model} on http://{address}\n"));
        }
        signals.next().await;
        sim.shutdown().await;
        anyhow::Ok(())
    })
}
