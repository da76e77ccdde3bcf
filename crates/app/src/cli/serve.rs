//! `sluicegate serve`: the gateway until a signal ends it.

use std::io::IsTerminal as _;

use anyhow::Context as _;

use super::ending::end;
use super::{Failure, ServeArgs, Signals, open_files, tell};
use crate::app::App;
use crate::config::{Config, Loaded};

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let loaded =
        Config::load(args.config.as_deref(), &args.flags.overrides()).map_err(Failure::Configuration)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    serve(loaded).map_err(Failure::running)
}

fn serve(mut loaded: Loaded) -> anyhow::Result<()> {
    open_files::provide(&mut loaded.plan.listen);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::of_a_service().context("signals cannot be received")?
    };
    let drain_timeout = loaded.plan.listen.drain_timeout;
    let app = App::start(loaded, Vec::new())?;
    announce(&app);
    runtime.block_on(signals.next());
    end(app, runtime, &mut signals, drain_timeout)
}

/// A line of the log like any other, but for somebody who has just typed the command.
fn announce(app: &App) {
    let (version, address, admin) = (env!("CARGO_PKG_VERSION"), app.address(), app.admin_address());
    let line = format!("sluicegate {version} listens on http://{address}, admin side on http://{admin}");
    if std::io::stderr().is_terminal() {
        tell(format_args!("{line}\n"));
    } else {
        tracing::info!("{line}");
    }
}
