//! When a replica is scraped next. At most one scrape is outstanding, by construction.

use crate::prng::SplitMix64;
use crate::time::Time;
use std::time::Duration;

/// Extra scrapes that requests ask for start at least this part of the interval after the scrape before: a storm of
/// failed requests must not become a storm of scrapes.
const EXTRA_SPACING: u32 = 10;

/// One replica's scrape timing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// A hosted replica.
    Never,
    /// The next one starts then.
    Waiting { due: Time, started: Option<Time> },
    /// One is under way. `again`: something happened meanwhile that its answer may not know of.
    Outstanding { started: Time, again: bool },
}

impl Schedule {
    pub(crate) fn due(at: Time) -> Self {
        Self::Waiting { due: at, started: None }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Waiting { due, .. } => Some(*due),
            Self::Never | Self::Outstanding { .. } => None,
        }
    }

    /// When the outstanding scrape was started.
    pub(crate) fn outstanding(&self) -> Option<Time> {
        match self {
            Self::Outstanding { started, .. } => Some(*started),
            Self::Never | Self::Waiting { .. } => None,
        }
    }

    /// Takes the scrape that is due: true if the caller has to start it.
    pub(crate) fn start(&mut self, now: Time) -> bool {
        match self {
            Self::Waiting { due, .. } if *due <= now => {
                *self = Self::Outstanding { started: now, again: false };
                true
            }
            _ => false,
        }
    }

    /// The outstanding scrape was answered.
    pub(crate) fn answered(&mut self, now: Time, interval: Duration, prng: &mut SplitMix64) {
        if let Self::Outstanding { started, again } = *self {
            let next = if again { interval / EXTRA_SPACING } else { prng.jittered(interval) };
            *self = Self::Waiting { due: (started + next).max(now), started: Some(started) };
        }
    }

    /// A request has reason to doubt the replica: scrape at once, spaced against storms.
    pub(crate) fn hasten(&mut self, now: Time, interval: Duration) {
        match self {
            Self::Never => {}
            Self::Outstanding { again, .. } => *again = true,
            Self::Waiting { due, started } => {
                let earliest = started.map_or(now, |started| (started + interval / EXTRA_SPACING).max(now));
                *due = earliest.min(*due);
            }
        }
    }

    /// The extra scrape after a first failed one, or the first one after a drain: at once.
    pub(crate) fn at_once(&mut self, now: Time) {
        match self {
            Self::Never => {}
            Self::Outstanding { again, .. } => *again = true,
            Self::Waiting { due, .. } => *due = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(3);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_scrape_follows_its_predecessor_within_the_interval() {
        let mut prng = SplitMix64::new(1);
        let mut schedule = Schedule::due(at(0));
        assert!(schedule.start(at(0)) && !schedule.start(at(5000)), "one outstanding at most");
        assert_eq!((schedule.deadline(), schedule.outstanding()), (None, Some(at(0))));
        schedule.answered(at(2000), INTERVAL, &mut prng);
        let due = schedule.deadline().expect("waiting");
        assert!(due >= at(2400) && due <= at(3000), "{due:?}");
        assert!(!schedule.start(at(2399)));
    }

    #[test]
    fn an_extra_scrape_is_immediate_but_spaced() {
        let mut prng = SplitMix64::new(1);
        let mut schedule = Schedule::due(at(0));
        schedule.start(at(0));
        schedule.answered(at(10), INTERVAL, &mut prng);
        let rows = [(50, 300), (299, 300), (1000, 1000)];
        for (asked, due) in rows {
            let mut one = schedule.clone();
            one.hasten(at(asked), INTERVAL);
            assert_eq!(one.deadline(), Some(at(due)), "asked at {asked} ms");
        }
        schedule.start(at(3000));
        schedule.hasten(at(3100), INTERVAL);
        schedule.answered(at(4000), INTERVAL, &mut prng);
        assert_eq!(schedule.deadline(), Some(at(4000)), "asked while one was outstanding");
    }

    #[test]
    fn a_hosted_replica_is_never_scraped() {
        let mut schedule = Schedule::Never;
        schedule.hasten(at(1), INTERVAL);
        schedule.at_once(at(1));
        assert!(!schedule.start(at(9000)) && schedule.deadline().is_none());
    }
}
