//! Metric families as plain data, and their way onto the page.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

/// Label names and values of one sample.
pub(super) type Labels = Vec<(&'static str, String)>;

/// One metric family with its samples. A family without samples still shows its name and meaning.
#[derive(Debug)]
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    samples: Samples,
}

#[derive(Debug)]
enum Samples {
    Counts(Vec<(Labels, u64)>),
    Sums(Vec<(Labels, f64)>),
    Levels(Vec<(Labels, f64)>),
    Histograms(Vec<(Labels, Histogram)>),
}

impl Family {
    /// Totals that only grow. `name` without `_total`, which the page adds.
    pub(super) fn counts(name: &'static str, help: &'static str, mut samples: Vec<(Labels, u64)>) -> Self {
        samples.sort_by(|a, b| a.0.cmp(&b.0));
        Self { name, help, samples: Samples::Counts(samples) }
    }

    /// Totals that are not whole numbers, named likewise.
    pub(super) fn sums(name: &'static str, help: &'static str, mut samples: Vec<(Labels, f64)>) -> Self {
        samples.sort_by(|a, b| a.0.cmp(&b.0));
        Self { name, help, samples: Samples::Sums(samples) }
    }

    /// Values that go up and down.
    pub(super) fn levels(name: &'static str, help: &'static str, mut samples: Vec<(Labels, f64)>) -> Self {
        samples.sort_by(|a, b| a.0.cmp(&b.0));
        Self { name, help, samples: Samples::Levels(samples) }
    }

    /// Distributions.
    pub(super) fn histograms(
        name: &'static str,
        help: &'static str,
        mut samples: Vec<(Labels, Histogram)>,
    ) -> Self {
        samples.sort_by(|a, b| a.0.cmp(&b.0));
        Self { name, help, samples: Samples::Histograms(samples) }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.samples {
            Samples::Counts(_) | Samples::Sums(_) => MetricType::Counter,
            Samples::Levels(_) => MetricType::Gauge,
            Samples::Histograms(_) => MetricType::Histogram,
        };
        let mut encoder = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        match &self.samples {
            Samples::Counts(samples) => encode_each(&mut encoder, samples, |n| ConstCounter::new(*n)),
            Samples::Sums(samples) => encode_each(&mut encoder, samples, |x| ConstCounter::new(*x)),
            Samples::Levels(samples) => encode_each(&mut encoder, samples, |x| ConstGauge::new(*x)),
            Samples::Histograms(samples) => encode_each(&mut encoder, samples, Histogram::clone),
        }
    }
}

fn encode_each<T, M: EncodeMetric>(
    encoder: &mut MetricEncoder<'_>,
    samples: &[(Labels, T)],
    metric: impl Fn(&T) -> M,
) -> fmt::Result {
    for (labels, value) in samples {
        if labels.is_empty() {
            metric(value).encode(encoder.encode_family(&NO_LABELS)?)?;
        } else {
            metric(value).encode(encoder.encode_family(labels)?)?;
        }
    }
    Ok(())
}

const NO_LABELS: [(&str, &str); 0] = [];

/// Everything that the page shows, gathered before it is written.
#[derive(Debug)]
pub(super) struct Page(pub(super) Vec<Family>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}
