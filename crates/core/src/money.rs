//! Money in integers: sums return to exactly zero, and no order of adding changes them.

/// Money in millionths of the unit that the prices are configured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// In that unit, exact: `0.02`, `12.5`, `10`.
impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, fraction) = (u128::from(self.0) / MILLION, u128::from(self.0) % MILLION);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{fraction:06}").trim_end_matches('0'))
    }
}

/// What a route's tokens cost, each per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Prompt tokens that were computed.
    pub prompt: Micros,
    /// Prompt tokens that came from the engine's cache.
    pub cached: Micros,
    /// Generated tokens.
    pub completion: Micros,
}

const MILLION: u128 = 1_000_000;

impl Price {
    /// What one request costs. `cached` is the part of `prompt_tokens` that came from the cache; more of it than there
    /// are prompt tokens counts as all of them.
    ///
    /// The exact sum is rounded once, up to the next millionth: a budget is never undercharged, and a request that
    /// cost anything is never free. The largest amount of money is the most that anything costs.
    #[must_use]
    pub fn cost(&self, prompt_tokens: u64, cached: u64, completion: u64) -> Micros {
        let cached = cached.min(prompt_tokens);
        let parts =
            [(prompt_tokens - cached, self.prompt), (cached, self.cached), (completion, self.completion)];
        let exact = parts
            .into_iter()
            .map(|(tokens, price)| u128::from(tokens) * u128::from(price.0))
            .fold(0_u128, u128::saturating_add);
        Micros(u64::try_from(exact.div_ceil(MILLION)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_exact_sum_rounded_up_once() {
        // prices per million; prompt, cached, completion tokens -> millionths
        type Row = ((u64, u64, u64), (u64, u64, u64), u64);
        let rows: [Row; 10] = [
            ((0, 0, 0), (1000, 10, 1000), 0),
            ((3_000_000, 300_000, 15_000_000), (0, 0, 0), 0),
            ((3_000_000, 300_000, 15_000_000), (1000, 0, 100), 4500),
            ((3_000_000, 300_000, 15_000_000), (1000, 400, 100), 1800 + 120 + 1500),
            ((3_000_000, 300_000, 15_000_000), (1000, 9999, 0), 300),
            ((1, 1, 1), (1, 0, 0), 1),
            ((1, 1, 1), (2, 1, 1), 1),
            ((500_000, 0, 500_000), (1, 0, 1), 1),
            ((u64::MAX, 0, 0), (1_000_000, 0, 0), u64::MAX),
            ((u64::MAX, u64::MAX, u64::MAX), (u64::MAX, 1, u64::MAX), u64::MAX),
        ];
        for ((prompt, cached, completion), tokens, cost) in rows {
            let price =
                Price { prompt: Micros(prompt), cached: Micros(cached), completion: Micros(completion) };
            assert_eq!(price.cost(tokens.0, tokens.1, tokens.2), Micros(cost), "{price:?} {tokens:?}");
        }
    }
}
