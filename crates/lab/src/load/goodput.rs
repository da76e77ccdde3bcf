//! Which requests are good ones.

use std::str::FromStr;
use std::time::Duration;

/// Limits that a good request keeps; a request that failed is never good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goodput {
    /// From the intended start to the first token.
    pub ttft: Option<Duration>,
    /// The request's mean time between tokens.
    pub itl: Option<Duration>,
    /// From the intended start to the end.
    pub e2e: Option<Duration>,
}

impl Goodput {
    /// Whether there is any limit.
    #[must_use]
    pub fn is_stated(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a request with these times is good; one without tokens to measure keeps that limit.
    pub(super) fn holds(&self, ttft: Option<Duration>, itl: Option<Duration>, e2e: Duration) -> bool {
        let within = |limit: Option<Duration>, time: Option<Duration>| match (limit, time) {
            (Some(limit), Some(time)) => time <= limit,
            _ => true,
        };
        within(self.ttft, ttft) && within(self.itl, itl) && within(self.e2e, Some(e2e))
    }
}

impl FromStr for Goodput {
    type Err = String;

    /// Reads `ttft:500ms,itl:50ms,e2e:10s`, any of the three.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut goodput = Self::default();
        for part in text.split(',') {
            let expected = || {
                format!(
                    "{part:?}: expected ttft:TIME, itl:TIME or e2e:TIME, as in ttft:500ms,itl:50ms,e2e:10s"
                )
            };
            let (name, time) = part.split_once(':').ok_or_else(expected)?;
            let time = Some(time_of(time).ok_or_else(expected)?);
            match name.trim() {
                "ttft" => goodput.ttft = time,
                "itl" | "tpot" => goodput.itl = time,
                "e2e" => goodput.e2e = time,
                _ => return Err(expected()),
            }
        }
        Ok(goodput)
    }
}

fn time_of(text: &str) -> Option<Duration> {
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let seconds = digits.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_each_must_be_kept() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let goodput: Goodput = "ttft:500ms,itl:50ms,e2e:1.5s".parse().unwrap();
        assert_eq!(goodput, Goodput { ttft: ms(500), itl: ms(50), e2e: ms(1500) });
        let e2e = Duration::from_millis(1500);
        assert!(goodput.holds(ms(500), ms(50), e2e));
        assert!(!goodput.holds(ms(501), ms(50), e2e));
        assert!(!goodput.holds(ms(500), ms(51), e2e));
        assert!(!goodput.holds(ms(500), ms(50), e2e * 2));
        assert!(goodput.holds(None, None, e2e), "a single token has no time between tokens");
        assert!(Goodput::default().holds(ms(9), ms(9), e2e) && !Goodput::default().is_stated());
        for bad in ["", "ttft", "ttft:5", "ttft:x ms", "p99:5s", "ttft:0s"] {
            assert!(bad.parse::<Goodput>().is_err(), "{bad}");
        }
    }
}
