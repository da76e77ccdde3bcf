//! What is added up over usage lines.

use super::line::Line;
use super::quantiles::Quantiles;

/// How requests ended, in the groups of the outcomes that a reader of sums asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `ok`
    Ok,
    /// `client_error`
    ClientError,
    /// `rejected_*`
    Rejected,
    /// `upstream_*`
    Upstream,
    /// `client_gone*`
    ClientGone,
    /// `timeout_*`
    Timeout,
    /// `no_replica`
    NoReplica,
    /// `gateway_stopped`
    GatewayStopped,
    /// An outcome of a version that this one does not know.
    Unknown,
}

impl Class {
    const COUNT: usize = 9;

    pub(crate) fn of(outcome: &str) -> Self {
        match outcome {
            "ok" => Self::Ok,
            "client_error" => Self::ClientError,
            "no_replica" => Self::NoReplica,
            "gateway_stopped" => Self::GatewayStopped,
            "client_gone" | "client_gone_queued" => Self::ClientGone,
            _ if outcome.starts_with("rejected_") => Self::Rejected,
            _ if outcome.starts_with("upstream_") => Self::Upstream,
            _ if outcome.starts_with("timeout_") => Self::Timeout,
            _ => Self::Unknown,
        }
    }
}

/// Sums of one group. Sums stay at 2^64-1 instead of overflowing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    classes: [u64; Class::COUNT],
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) reasoning_tokens: u64,
    /// Prompt and completion tokens that were estimated.
    pub(crate) estimated_tokens: u64,
    /// In millionths; None where no line had a cost.
    pub(crate) cost: Option<u64>,
    pub(crate) ttft: Quantiles,
    pub(crate) total: Quantiles,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, line: &Line<'_>) {
        self.requests += 1;
        self.classes[Class::of(&line.outcome.0) as usize] += 1;
        let tokens = |count: Option<u64>| count.unwrap_or(0);
        let (prompt, completion) = (tokens(line.prompt_tokens), tokens(line.completion_tokens));
        grow(&mut self.prompt_tokens, prompt);
        grow(&mut self.completion_tokens, completion);
        grow(&mut self.cached_tokens, tokens(line.cached_tokens));
        grow(&mut self.reasoning_tokens, tokens(line.reasoning_tokens));
        if line.usage_source.as_ref().is_some_and(|source| source.0 == "estimated") {
            grow(&mut self.estimated_tokens, prompt.saturating_add(completion));
        }
        // Costs are written with at most six decimals: in millionths the sum is exact and in any order the same.
        self.add_cost(line.cost.map(|cost| (cost * 1e6).round() as u64));
        if let Some(ttft) = line.ttft_ms {
            self.ttft.add(ttft);
        }
        if let Some(total) = line.total_ms {
            self.total.add(total);
        }
        grow(&mut self.bytes_in, tokens(line.bytes_in));
        grow(&mut self.bytes_out, tokens(line.bytes_out));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        grow(&mut self.requests, other.requests);
        for (class, more) in self.classes.iter_mut().zip(other.classes) {
            grow(class, more);
        }
        grow(&mut self.prompt_tokens, other.prompt_tokens);
        grow(&mut self.cached_tokens, other.cached_tokens);
        grow(&mut self.completion_tokens, other.completion_tokens);
        grow(&mut self.reasoning_tokens, other.reasoning_tokens);
        grow(&mut self.estimated_tokens, other.estimated_tokens);
        self.add_cost(other.cost);
        self.ttft.merge(&other.ttft);
        self.total.merge(&other.total);
        grow(&mut self.bytes_in, other.bytes_in);
        grow(&mut self.bytes_out, other.bytes_out);
    }

    /// Requests that ended so.
    pub(crate) const fn ended(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    /// The estimated part of all prompt and completion tokens, 0..=1; None without tokens.
    pub(crate) fn estimated_share(&self) -> Option<f64> {
        let tokens = self.prompt_tokens.saturating_add(self.completion_tokens);
        (tokens > 0).then(|| self.estimated_tokens as f64 / tokens as f64)
    }

    fn add_cost(&mut self, cost: Option<u64>) {
        if let Some(cost) = cost {
            self.cost = Some(self.cost.unwrap_or(0).saturating_add(cost));
        }
    }
}

fn grow(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

#[cfg(test)]
mod tests {
    use sluicegate_proxy::usage::Outcome;

    use super::*;

    #[test]
    fn every_outcome_has_a_class_and_a_foreign_one_is_told() {
        for outcome in Outcome::ALL {
            assert_ne!(Class::of(outcome.as_str()), Class::Unknown, "{outcome:?}");
        }
        assert_eq!(Class::of("exploded"), Class::Unknown);
        assert_eq!(Class::of("rejected_budget"), Class::Rejected);
    }
}
