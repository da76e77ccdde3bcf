//! Which lines are counted.

use super::line::{Line, Text};
use super::moment::Moment;

/// A line is counted if it fits all that is given; of several names it needs one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// From this moment on.
    pub(crate) since: Option<Moment>,
    /// Up to this moment, itself not included.
    pub(crate) until: Option<Moment>,
    pub(crate) keys: Vec<String>,
    pub(crate) routes: Vec<String>,
    pub(crate) replicas: Vec<String>,
}

impl Filter {
    pub(super) fn takes(&self, line: &Line<'_>) -> bool {
        let time = &*line.time;
        self.since.as_ref().is_none_or(|since| time >= since.as_str())
            && self.until.as_ref().is_none_or(|until| time < until.as_str())
            && among(&self.keys, line.key.as_ref())
            && among(&self.routes, line.route.as_ref())
            && among(&self.replicas, line.replica.as_ref())
    }
}

fn among(names: &[String], text: Option<&Text<'_>>) -> bool {
    names.is_empty() || text.is_some_and(|text| names.iter().any(|name| *name == text.0))
}
