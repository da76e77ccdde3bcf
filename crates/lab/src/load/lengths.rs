//! How long prompts and answers are.

use super::arrivals::normal;
use crate::rng::SeededRng;
use std::str::FromStr;

/// Above every context.
const MOST: u32 = 10_000_000;

/// A distribution of whole numbers, at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed(u32),
    /// Every number of this inclusive range alike.
    Uniform(u32, u32),
    /// The logarithm is normally distributed.
    LogNormal {
        /// Half of all numbers are below it.
        median: u32,
        /// Of the logarithm: 0.5 puts two thirds between 0.6 and 1.65 times the median.
        sigma: f64,
        /// Larger ones count as this.
        most: u32,
    },
}

/// A distribution that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?}: expected a number, LEAST-MOST, or lognormal:MEDIAN:SIGMA[:MOST], as in 512, 100-900 or lognormal:400:0.8"
)]
pub struct BadSpec(String);

impl Lengths {
    /// One draw.
    pub(super) fn draw(self, rng: &mut SeededRng) -> u32 {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => {
                let span = u64::from(most.saturating_sub(least)) + 1;
                least + u32::try_from(rng.below(span)).unwrap_or(0)
            }
            Self::LogNormal { median, sigma, most } => {
                let drawn = f64::from(median) * (sigma * normal(rng)).exp();
                // The cast saturates.
                (drawn.round() as u32).min(most)
            }
        }
        .max(1)
    }
}

impl FromStr for Lengths {
    type Err = BadSpec;

    fn from_str(text: &str) -> Result<Self, BadSpec> {
        let bad = || BadSpec(text.to_owned());
        let number =
            |text: &str| text.parse().ok().filter(|number| (1..=MOST).contains(number)).ok_or_else(bad);
        if let Some(parameters) = text.strip_prefix("lognormal:") {
            let parts: Vec<&str> = parameters.split(':').collect();
            let (median, sigma, most) = match parts[..] {
                [median, sigma] => (median, sigma, None),
                [median, sigma, most] => (median, sigma, Some(most)),
                _ => return Err(bad()),
            };
            let sigma: f64 =
                sigma.parse().ok().filter(|sigma| (0.0..=10.0).contains(sigma)).ok_or_else(bad)?;
            let most = most.map_or(Ok(MOST), number)?;
            return Ok(Self::LogNormal { median: number(median)?, sigma, most });
        }
        match text.split_once('-') {
            None => Ok(Self::Fixed(number(text)?)),
            Some((least, most)) => match (number(least)?, number(most)?) {
                (least, most) if least <= most => Ok(Self::Uniform(least, most)),
                _ => Err(bad()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_read() {
        let table = [
            ("512", Some(Lengths::Fixed(512))),
            ("100-900", Some(Lengths::Uniform(100, 900))),
            ("lognormal:400:0.8", Some(Lengths::LogNormal { median: 400, sigma: 0.8, most: MOST })),
            ("lognormal:400:0.8:2000", Some(Lengths::LogNormal { median: 400, sigma: 0.8, most: 2000 })),
            ("0", None),
            ("900-100", None),
            ("lognormal:400", None),
            ("lognormal:400:x", None),
            ("many", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn draws_have_the_stated_shape() {
        let mut rng = SeededRng::new(3);
        let mut draw = |lengths: Lengths| {
            let mut drawn: Vec<u32> = (0..20_001).map(|_| lengths.draw(&mut rng)).collect();
            drawn.sort_unstable();
            (drawn[0], drawn[10_000], drawn[20_000])
        };
        assert_eq!(draw(Lengths::Fixed(7)), (7, 7, 7));
        let (least, median, most) = draw(Lengths::Uniform(10, 20));
        assert_eq!((least, median, most), (10, 15, 20));
        let (least, median, most) = draw(Lengths::LogNormal { median: 400, sigma: 0.8, most: 2000 });
        assert!(least >= 1 && (385..415).contains(&median) && most == 2000, "{least} {median} {most}");
    }
}
