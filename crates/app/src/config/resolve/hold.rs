//! A route's `hold`: late binding, which mode `predictive` alone knows.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::choices::Mode;
use crate::config::diagnostics::Problems;
use crate::config::raw::Route;
use crate::config::values::Text as _;

/// Timers are no finer, and nobody waits for more.
const SENSIBLE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// What it says. None: nothing, or `problems` has been told what is wrong with it.
pub(super) fn hold(route: &Route, mode: Mode, problems: &mut Problems<'_>) -> Option<Duration> {
    let (hold, at) = (route.hold.value.as_ref()?, &route.hold.origin);
    if mode != Mode::Predictive {
        problems
            .add(at, format!("\"hold\" means nothing in mode \"{}\"", mode.text()))
            .hint("leave it out, or write mode = \"predictive\"");
        return None;
    }
    if !SENSIBLE.contains(&hold.0) {
        problems
            .add(at, format!("hold: \"{}\" is out of range", hold.text()))
            .hint("from \"1ms\" to \"10s\"; \"100ms\" is a good one to begin with");
        return None;
    }
    Some(hold.0)
}
