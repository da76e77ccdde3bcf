//! When sessions arrive.

use crate::rng::SeededRng;
use std::time::Duration;

/// How arrivals are spread around their rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// Independent of one another, as many users are.
    Poisson,
    /// Intervals with a gamma distribution of this shape, above 0, as `vllm bench serve --burstiness` has it: below 1 they
    /// come in bursts, 1 is Poisson, above it they are more even.
    Gamma(f64),
}

/// The intervals between arrivals.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    mean: f64,
    arrivals: Arrivals,
    rng: SeededRng,
}

impl Intervals {
    pub(super) fn new(rate: f64, arrivals: Arrivals, rng: SeededRng) -> Self {
        Self { mean: 1.0 / rate, arrivals, rng }
    }

    pub(super) fn next(&mut self) -> Duration {
        let seconds = match self.arrivals {
            Arrivals::Constant => self.mean,
            Arrivals::Poisson => self.rng.exponential(self.mean),
            Arrivals::Gamma(shape) => gamma(&mut self.rng, shape) * self.mean / shape,
        };
        // Absurd rates give absurd intervals, never a panic.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(86_400))
    }
}

/// A draw from the gamma distribution of that shape and scale 1 (Marsaglia and Tsang, "A simple method for generating gamma
/// variables", 2000).
fn gamma(rng: &mut SeededRng, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - rng.unit()).powf(1.0 / shape);
        return gamma(rng, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - rng.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A draw from the standard normal distribution (Box and Muller, 1958).
pub(super) fn normal(rng: &mut SeededRng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_rate_and_the_burstiness_asked_for() {
        // Of a gamma distribution, the variance is the squared mean divided by the shape.
        let table = [
            (Arrivals::Constant, 0.0),
            (Arrivals::Poisson, 1.0),
            (Arrivals::Gamma(1.0), 1.0),
            (Arrivals::Gamma(0.25), 4.0),
            (Arrivals::Gamma(4.0), 0.25),
        ];
        for (arrivals, relative_variance) in table {
            let mut intervals = Intervals::new(50.0, arrivals, SeededRng::new(1));
            let drawn: Vec<f64> = (0..40_000).map(|_| intervals.next().as_secs_f64()).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
            assert!((mean * 50.0 - 1.0).abs() < 0.03, "{arrivals:?}: mean {mean}");
            let relative = variance / (mean * mean);
            assert!(
                (relative - relative_variance).abs() < 0.1 + relative_variance * 0.05,
                "{arrivals:?}: {relative}"
            );
        }
    }
}
