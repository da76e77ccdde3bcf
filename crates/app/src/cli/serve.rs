//! `sluicegate serve`: the gateway until a signal ends it.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;

use super::{Failure, ServeArgs, Signals, tell};
use crate::app::App;
use crate::config::{Config, Loaded};

/// How often a drain looks whether the last request has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For requests that slipped in between the last look and the end.
const LAST_CALL: Duration = Duration::from_secs(1);

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let loaded =
        Config::load(args.config.as_deref(), &args.flags.overrides()).map_err(Failure::Configuration)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    serve(loaded).map_err(Failure::running)
}

fn serve(loaded: Loaded) -> anyhow::Result<()> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::of_a_service().context("signals cannot be received")?
    };
    let drain_timeout = loaded.plan.listen.drain_timeout;
    let app = App::start(loaded, Vec::new())?;
    announce(&app);
    runtime.block_on(signals.next());
    end(app, &runtime, &mut signals, drain_timeout);
    Ok(())
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

/// Finishes running requests within `limit`; a further signal ends them at once.
fn end(app: App, runtime: &Runtime, signals: &mut Signals, limit: Duration) {
    app.begin_drain();
    tracing::info!(
        open_requests = app.inspect().gauges().open_requests,
        "draining; a second signal ends at once"
    );
    let drained = runtime.block_on(async {
        tokio::select! {
            () = signals.next() => false,
            () = tokio::time::sleep(limit) => false,
            () = idle(&app) => true,
        }
    });
    match app.finish(if drained { LAST_CALL } else { Duration::ZERO }) {
        0 => tracing::info!("every request was finished"),
        cut => tracing::warn!(cut, "requests were ended before they were finished"),
    }
}

async fn idle(app: &App) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while app.inspect().gauges().open_requests > 0 {
        looks.tick().await;
    }
}

/// Each open stream holds two sockets, and the usual soft limit of 1,024 is a courtesy to programs that use select().
fn raise_open_files() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!("the limit of open files stays as it is: {error}"),
    }
}
