//! A weighted sum of scores, as the Kubernetes Gateway API Inference Extension and llm-d publish it: prefix match, queue
//! depth, KV use, each from 0 to 1; the largest sum wins, ties by chance.

use super::mirror::Mirror;
use super::{Account, Books, Pick, Rival};
use crate::fleet::{Ask, Host};
use crate::rng::SeededRng;
use sluicegate_core::{EngineLoad, Time};

/// Weights of the default profile: prefix 3, queue 2, KV 2.
const WEIGHTS: (f64, f64, f64) = (3.0, 2.0, 2.0);

/// How old the engines' numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Those of the last scrape: up to 3 s.
    Scraped,
    /// Those of this very moment, those included that have come since the engine's last step.
    Fresh,
}

/// The three scorers.
#[derive(Clone, Debug)]
pub struct Scorers {
    caches: Vec<Mirror>,
    block_tokens: u32,
    freshness: Freshness,
    rng: SeededRng,
}

impl Scorers {
    /// For so many replicas whose caches hold `blocks` blocks of `block_tokens` tokens.
    #[must_use]
    pub fn new(replicas: usize, blocks: u32, block_tokens: u32, freshness: Freshness, seed: u64) -> Self {
        let caches = vec![Mirror::new(blocks as usize); replicas];
        Self { caches, block_tokens, freshness, rng: SeededRng::new(seed) }
    }

    fn load(&self, ask: &Ask<'_>, index: usize, account: &Account) -> EngineLoad {
        match self.freshness {
            Freshness::Scraped => account.scraped.unwrap_or_default(),
            Freshness::Fresh => ask.hosts.get(index).map(of_this_moment).unwrap_or_default(),
        }
    }
}

/// Engines write their numbers down once a step; these are truly those of now.
fn of_this_moment(host: &Host) -> EngineLoad {
    EngineLoad { waiting: host.engine().counters().waiting, ..host.load() }
}

impl Rival for Scorers {
    fn name(&self) -> &'static str {
        match self.freshness {
            Freshness::Scraped => "scorers",
            Freshness::Fresh => "scorers_fresh",
        }
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let blocks = ask.prompt_blocks();
        let seen: Vec<(usize, usize, EngineLoad)> = books
            .open_to(ask)
            .filter_map(|(index, account)| {
                Some((index, self.caches.get(index)?.matched(blocks), self.load(ask, index, account)))
            })
            .collect();
        let queues = || seen.iter().map(|(.., load)| load.waiting);
        let (longest, shortest) = (queues().max()?, queues().min()?);
        let score = |matched: usize, load: &EngineLoad| {
            let prefix = matched as f64 / blocks.len().max(1) as f64;
            let queue = if longest == shortest {
                1.0
            } else {
                f64::from(longest - load.waiting) / f64::from(longest - shortest)
            };
            let kv = 1.0 - f64::from(load.kv_usage.unwrap_or(0.0));
            WEIGHTS.0 * prefix + WEIGHTS.1 * queue + WEIGHTS.2 * kv
        };
        let scored: Vec<(f64, usize, usize)> =
            seen.iter().map(|(index, matched, load)| (score(*matched, load), *index, *matched)).collect();
        let best = scored.iter().map(|(score, ..)| *score).max_by(f64::total_cmp)?;
        let ties: Vec<_> = scored.iter().filter(|(score, ..)| *score >= best).collect();
        let at = usize::try_from(self.rng.below(ties.len() as u64)).unwrap_or(0);
        let &&(_, replica, matched) = ties.get(at)?;
        self.caches.get_mut(replica)?.note(blocks);
        Some(Pick { replica, cached: (matched as u32).saturating_mul(self.block_tokens) })
    }
}
