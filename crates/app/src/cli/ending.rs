//! The end of `serve`: running requests are finished, usage lines written out, and neither a client nor a reader of the
//! output can hold it up for ever.

use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

use super::Signals;
use crate::app::App;
use crate::usage_log::PATIENCE;

/// How often a drain looks whether the last request has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For requests that slipped in between the last look and the end.
const LAST_CALL: Duration = Duration::from_secs(1);
/// From the second signal to the end of the process, whatever hangs: longer than what is bounded by itself.
const AT_MOST: Duration = LAST_CALL.saturating_add(PATIENCE).saturating_add(Duration::from_secs(1));

/// Finishes running requests within `limit`, then writes out the usage lines. A further signal ends the first at once,
/// and the second where that has begun.
///
/// # Errors
/// It panicked.
pub(super) fn end(app: App, runtime: Runtime, signals: &mut Signals, limit: Duration) -> anyhow::Result<()> {
    let log = app.usage_log().cloned();
    let (hurry, hurried) = oneshot::channel();
    // Apart from the signals: it may hang where an output takes nothing, and then they must be heard.
    let mut finishing = runtime.spawn_blocking(move || finish(app, hurried, limit));
    let finished = runtime.block_on(async {
        tokio::select! {
            finished = &mut finishing => return Ok(finished),
            () = signals.next() => drop(hurry),
        }
        let hurrying = async {
            loop {
                if let Some(log) = &log {
                    log.at_once();
                }
                tokio::select! {
                    finished = &mut finishing => return finished,
                    () = signals.next() => {}
                }
            }
        };
        tokio::time::timeout(AT_MOST, hurrying).await
    });
    runtime.shutdown_background();
    // Where even its time is over, nobody takes a word of it.
    finished.unwrap_or(Ok(())).context("the end failed")
}

/// `hurried` is dropped at the other end by a further signal.
fn finish(app: App, hurried: oneshot::Receiver<()>, limit: Duration) {
    app.begin_drain();
    tracing::info!(
        open_requests = app.inspect().gauges().open_requests,
        "draining; a second signal ends at once"
    );
    let drained = Handle::current().block_on(async {
        tokio::select! {
            _ = hurried => false,
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
