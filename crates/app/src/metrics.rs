//! The metrics page: counters and histograms fed by usage lines, and the state of pools and replicas read at scrape
//! time. Label values come from the configuration, the engines' model lists or closed lists, never from a client.

mod decisions;
mod family;
mod now;
mod requests;
#[cfg(test)]
mod tests;

use std::fmt;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use sluicegate_proxy::usage::{UsageLine, UsageSink};

use crate::decisions::DecisionsView;
use crate::discovery::SourceView;
use crate::inspect::Inspect;

/// Media type of the metrics page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counts usage lines. One for each running gateway.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: requests::Requests,
}

impl Metrics {
    /// The metrics page (OpenMetrics text) of `gateway` now. `lost_lines`: usage lines lost so far.
    ///
    /// # Errors
    /// Never in practice: text is written into memory.
    pub(crate) fn page(
        &self,
        gateway: &dyn Inspect,
        sources: &[SourceView],
        decisions: &[DecisionsView],
        lost_lines: u64,
    ) -> Result<String, fmt::Error> {
        let mut families = self.requests.families();
        families.extend(now::families(gateway, lost_lines));
        families.extend(now::source_families(sources));
        families.extend(decisions::families(decisions));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(family::Page(families)));
        let mut page = String::with_capacity(16 * 1024);
        text::encode(&mut page, &registry)?;
        Ok(page)
    }
}

impl UsageSink for Metrics {
    fn write(&self, line: &UsageLine<'_>) {
        self.requests.count(line);
    }
}
