//! The tests: what the load does in each.

use super::machine::MANY;

/// Seconds: the longest that the replica takes to a first token.
const FIRST_TOKEN: f64 = 0.05;

/// One test.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) connections: u32,
    /// Bytes of a request's body.
    pub(super) body: u32,
    /// Tokens of a stream; 0 asks for JSON.
    pub(super) tokens: u32,
    pub(super) tokens_per_second: f64,
    /// Seconds over which the connections are opened.
    ramp: f64,
    /// Seconds before the measurement, ramp included.
    warm: f64,
    /// Seconds of the measurement.
    length: f64,
}

const fn closed_loop(name: &'static str, connections: u32, body: u32, warm: f64, length: f64) -> Workload {
    Workload { name, connections, body, tokens: 0, tokens_per_second: 1.0, ramp: 0.0, warm, length }
}

/// In the order in which a round runs them.
pub(super) const WORKLOADS: &[Workload] = &[
    closed_loop("c1", 1, 1 << 10, 0.3, 1.5),
    closed_loop("small", 64, 1 << 10, 0.4, 2.5),
    closed_loop("big", 32, 100 << 10, 0.4, 2.5),
    // The ramp is as long as a stream, nearly: ends and beginnings are spread over the measurement.
    Workload {
        name: "stream",
        connections: 2_000,
        body: 100 << 10,
        tokens: 100,
        tokens_per_second: 25.0,
        ramp: 3.5,
        warm: 4.5,
        length: 4.5,
    },
    Workload {
        name: "open",
        connections: 2_000,
        body: 100 << 10,
        tokens: 100,
        tokens_per_second: 50.0,
        ramp: 1.9,
        warm: 4.0,
        length: 5.0,
    },
    Workload {
        name: "many",
        connections: MANY,
        body: 100 << 10,
        tokens: 50,
        tokens_per_second: 5.0,
        ramp: 9.5,
        warm: 11.0,
        length: 11.0,
    },
];

impl Workload {
    /// Seconds that a stream would take if nothing stood between; 0 for JSON. The instrument's replica sends the first
    /// token after one step or 50 ms, whatever is sooner.
    pub(super) fn ideal_seconds(&self) -> f64 {
        let step = 1.0 / self.tokens_per_second;
        match self.tokens {
            0 => 0.0,
            tokens => step.min(FIRST_TOKEN) + f64::from(tokens - 1) * step,
        }
    }

    /// The words for the instrument's `load`, with no more than `most` streams. A quick run is shorter, but no stream is.
    pub(super) fn words(&self, quick: bool, most: u32) -> Vec<String> {
        let length = if quick && self.tokens == 0 { 1.0 } else { self.length };
        let numbers = [
            ("--connections", f64::from(self.connections.min(most))),
            ("--body", f64::from(self.body)),
            ("--tokens", f64::from(self.tokens)),
            ("--ramp", self.ramp),
            ("--warm", self.warm),
            ("--seconds", length),
        ];
        numbers.iter().flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]).collect()
    }
}
