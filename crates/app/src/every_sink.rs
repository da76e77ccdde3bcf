//! One usage line to everyone who wants it.

use std::sync::Arc;

use sluicegate_proxy::usage::{UsageLine, UsageSink};

use crate::metrics::Metrics;
use crate::usage_log::UsageLog;

/// The metrics, the log where there is one, and whoever else.
pub(crate) struct EverySink {
    metrics: Arc<Metrics>,
    log: Option<Arc<UsageLog>>,
    others: Vec<Arc<dyn UsageSink>>,
}

impl EverySink {
    pub(crate) const fn new(
        metrics: Arc<Metrics>,
        log: Option<Arc<UsageLog>>,
        others: Vec<Arc<dyn UsageSink>>,
    ) -> Self {
        Self { metrics, log, others }
    }
}

impl UsageSink for EverySink {
    fn write(&self, line: &UsageLine<'_>) {
        self.metrics.write(line);
        if let Some(log) = &self.log {
            log.write(line);
        }
        self.others.iter().for_each(|sink| sink.write(line));
    }
}
