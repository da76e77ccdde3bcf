//! The random words of a run, and what is made of them.

use sluicegate_core::*;

/// Marsaglia's xorshift64 ("Xorshift RNGs", 2003, triple 13, 7, 17).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub(crate) fn choose(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.index(len))
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn settings(&mut self) -> PoolSettings {
        let mut settings = PoolSettings::default();
        settings.affinity.mode = match self.below(6) {
            0 => AffinityMode::Off,
            1 | 2 => AffinityMode::Consistent,
            _ => AffinityMode::Pins,
        };
        settings.affinity.max_pins = [3, 8, 1000][self.index(3)];
        settings.waiting_counts = if self.flip() { WaitingCounts::Requests } else { WaitingCounts::Weight };
        settings.load_source = if self.below(3) > 0 { LoadSource::Both } else { LoadSource::Engine };
        settings.health.probing_max_inflight = 1 + self.below(2) as u32;
        settings.predict = self.flip();
        settings
    }

    pub(crate) fn session(&mut self) -> Option<Session> {
        let hash = self.below(6);
        match self.below(5) {
            0 | 1 => Some(Session::Explicit(hash)),
            2 => Some(Session::Conversation { hash: 100 + hash, continued: self.flip() }),
            _ => None,
        }
    }

    pub(crate) fn model(&mut self) -> Option<ModelId> {
        [None, Some(ModelId(0)), Some(ModelId(1))][self.index(3)]
    }

    pub(crate) fn weight(&mut self) -> Weight {
        Weight::from_prompt_tokens(self.below(3000) * self.below(10))
    }

    /// A prompt of up to 20 blocks that shares its beginning with others.
    pub(crate) fn blocks(&mut self) -> Vec<u64> {
        let (family, len) = (self.below(3), self.below(20));
        let turn = self.below(4);
        (0..len).map(|at| if at < 5 { family << 8 | at } else { family << 8 | turn << 5 | at }).collect()
    }

    pub(crate) fn slots(&mut self, scarce: bool) -> Option<u32> {
        if scarce {
            [Some(1), Some(1), Some(2), Some(4)][self.index(4)]
        } else {
            [None, Some(1), Some(4), Some(16)][self.index(4)]
        }
    }

    pub(crate) fn verdict(&mut self) -> Verdict {
        match self.below(24) {
            0 => Verdict::Refused,
            1 => Verdict::ConnectFailed,
            2 | 3 => Verdict::SilentTimeout,
            4 | 5 => Verdict::Busy,
            6 => Verdict::Failure(Failure::Reset),
            7..=9 => Verdict::Failure(Failure::Status(500)),
            10 => Verdict::Failure(Failure::ErrorEvent(502)),
            11 => Verdict::Deferred,
            12..=14 => Verdict::Neutral,
            _ => Verdict::Success,
        }
    }

    pub(crate) fn scrape(&mut self) -> Scrape {
        match self.below(20) {
            0 => Scrape::Refused,
            1 => Scrape::TimedOut,
            2 => Scrape::Failed,
            3 => Scrape::Loading,
            4 => Scrape::Healthy { load: None },
            _ => Scrape::Healthy {
                load: Some(EngineLoad {
                    running: self.below(6) as u32,
                    waiting: self.below(3).saturating_sub(1) as u32,
                    tokens_total: self.flip().then(|| self.below(3)),
                    kv_usage: None,
                    kv_tokens: None,
                }),
            },
        }
    }
}
