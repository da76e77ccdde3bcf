//! What sending a request to a replica costs, in seconds.

/// How much a second by which decoding is slowed counts: an answer's later tokens are less urgent than its first.
const DECODE_WEIGHT: f64 = 0.05;
/// Decoding one token takes an engine about as long as prefilling this many,
const DECODE_SEQUENCE: f64 = 1.5;
/// and this many more for each token of its context.
const DECODE_CONTEXT: f64 = 1.0 / 600.0;

/// What a cost is made of. Times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Terms {
    /// Until the engine begins with the request: W.
    pub(crate) wait: f64,
    /// Its own prefill: p, without what is forgiven.
    pub(crate) prefill: f64,
    /// What a second of it costs those who come after: mu.
    pub(crate) delays: f64,
    /// By which decoding is slowed, its own and that of others: D.
    pub(crate) slowed: f64,
}

impl Terms {
    /// `W + p * (1 + mu) + 0.05 * D`.
    pub(crate) fn cost(&self) -> f64 {
        self.wait + self.prefill * (1.0 + self.delays) + DECODE_WEIGHT * self.slowed
    }

    /// Until the first token, without what is forgiven: never more than the cost.
    pub(crate) fn first_token(&self) -> f64 {
        self.wait + self.prefill
    }
}

/// How busy the pool is: those who are delayed by each second that a newcomer takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic(f64);

impl Traffic {
    /// `arrivals`: requests per second and replica. `utilisation`: the share of their time that replicas spend on prefill,
    /// below 1.
    pub(crate) fn new(arrivals: f64, utilisation: f64) -> Self {
        Self(arrivals / (1.0 - utilisation))
    }

    /// mu: those who arrive before the request has its first byte, and those who queue up behind them.
    pub(crate) fn delays(&self, wait: f64, prefill: f64) -> f64 {
        self.0 * (wait + prefill / 2.0)
    }
}

/// Who decodes, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Decoding {
    /// Requests that decode at the replica.
    pub(crate) decoders: f64,
    /// The sum of their prompts, in tokens.
    pub(crate) context: f64,
    /// Mean tokens of an answer.
    pub(crate) output: f64,
    /// Seconds that prefilling one token takes.
    pub(crate) per_token: f64,
}

impl Decoding {
    /// D: the request's own decoding is slowed by those who decode already, theirs stands still while it prefills and is
    /// slowed while it decodes. The ratios of decode to prefill are rough ones of dense models on GPUs: what matters is
    /// that replicas with many decoders are told from those with few.
    pub(crate) fn slowed(&self, prompt: f64, prefill: f64) -> f64 {
        let step = |sequences: f64, context: f64| {
            (sequences * DECODE_SEQUENCE + context * DECODE_CONTEXT) * self.per_token
        };
        let own = self.output * step(self.decoders, self.context);
        let theirs = self.decoders * (prefill + self.output * step(1.0, prompt));
        own + theirs
    }
}

/// Traffic of a prefix's holders, in shares of what is their due, from which on its prefill elsewhere is forgiven, and from
/// which on wholly.
const FORGIVEN_FROM: f64 = 1.0;
const FORGIVEN_WHOLLY: f64 = 1.25;

/// The spread guard's f: `share` of the traffic goes to holders that are `due` of all replicas. 0 to 1.
pub(crate) fn forgiven(share: f64, due: f64) -> f64 {
    if due <= 0.0 {
        return 0.0;
    }
    ((share / due - FORGIVEN_FROM) / (FORGIVEN_WHOLLY - FORGIVEN_FROM)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "{got} is not {expected}");
    }

    #[test]
    fn the_cost_is_wait_and_prefill_with_its_delays_and_a_twentieth_of_what_decoding_loses() {
        near(Terms { wait: 2.0, prefill: 1.5, delays: 0.4, slowed: 6.0 }.cost(), 2.0 + 1.5 * 1.4 + 0.3);
    }

    #[test]
    fn a_second_of_prefill_delays_those_who_arrive_meanwhile() {
        let traffic = Traffic::new(0.5, 0.75);
        near(traffic.delays(2.0, 1.0), 0.5 * 2.5 / 0.25);
        near(Traffic::default().delays(2.0, 1.0), 0.0);
    }

    #[test]
    fn decoding_is_slowed_on_both_sides() {
        let decoding = Decoding { decoders: 4.0, context: 12_000.0, output: 100.0, per_token: 1e-4 };
        // Own: 100 tokens behind 4 * 1.5 + 12,000 / 600 = 26 tokens' time each: 0.26 s.
        // Theirs: 4 decoders lose the 0.3 s of prefill and 100 tokens' time of 1.5 + 6,000 / 600 = 11.5 each: 0.115 s.
        near(decoding.slowed(6000.0, 0.3), 0.26 + 4.0 * (0.3 + 0.115));
        near(Decoding { decoders: 0.0, context: 0.0, ..decoding }.slowed(6000.0, 0.3), 0.0);
    }

    #[test]
    fn a_prefix_is_forgiven_as_its_holders_take_more_than_their_share() {
        for (share, due, f) in [
            (0.2, 0.25, 0.0),
            (0.25, 0.25, 0.0),
            (0.28125, 0.25, 0.5),
            (0.3125, 0.25, 1.0),
            (1.0, 0.25, 1.0),
            (1.0, 0.0, 0.0),
        ] {
            near(forgiven(share, due), f);
        }
    }
}
