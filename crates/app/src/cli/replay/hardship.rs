//! The flags for what makes choosing harder.

use clap::Args;
use sluicegate_lab::replay::Hardship;

/// What makes choosing harder.
#[derive(Debug, Args)]
#[command(next_help_heading = "What makes it harder")]
pub(super) struct HardshipArgs {
    /// Gateways that share nothing; each request comes through one of them by chance
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "configs")]
    gateways: u16,
    /// Part of the requests that others send to the replicas in turn, past the gateway
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = super::part, conflicts_with = "configs")]
    foreign: f64,
    /// How far off prompt sizes are estimated: standard deviation of their logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, value_parser = super::part, conflicts_with = "configs")]
    size_noise: f64,
    /// What engines say of the size of their caches, in true sizes
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = super::positive, conflicts_with = "configs")]
    cache_told: f64,
    /// So many of the replicas are slow
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "configs")]
    pub(super) slow_replicas: u16,
    /// How many times as long a slow replica takes
    #[arg(long, value_name = "TIMES", default_value_t = 2.0, value_parser = slowness)]
    pub(super) slowness: f64,
}

/// Above it nothing would be answered within any replay.
const MOST_SLOWNESS: f64 = 1000.0;

fn slowness(text: &str) -> Result<f64, &'static str> {
    let times =
        super::positive(text).ok().filter(|times| (1.0 / MOST_SLOWNESS..=MOST_SLOWNESS).contains(times));
    times.ok_or("expected a number from 0.001 to 1000")
}

impl HardshipArgs {
    pub(super) fn hardship(&self) -> Hardship {
        Hardship {
            gateways: self.gateways.into(),
            foreign: self.foreign,
            size_noise: self.size_noise,
            cache_told: self.cache_told,
        }
    }

    /// What of it is not the default, in words.
    pub(super) fn in_words(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.gateways > 1 {
            words.push(format!("{} gateways", self.gateways));
        }
        if self.foreign > 0.0 {
            words.push(format!("{:.0} % of the requests from elsewhere", self.foreign * 100.0));
        }
        if self.size_noise > 0.0 {
            words.push(format!("sizes off by {}", self.size_noise));
        }
        if self.cache_told != 1.0 {
            words.push(format!("caches told to be {} times as large", self.cache_told));
        }
        if self.slow_replicas > 0 {
            words.push(format!("{} replicas {} times as slow", self.slow_replicas, self.slowness));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}
