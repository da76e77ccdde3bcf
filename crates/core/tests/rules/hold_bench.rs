//! Late binding on the bench: replicas whose slots are not known, requests that are held back.

use crate::bench::{Bench, request};
use sluicegate_core::*;
use std::time::Duration;

pub(crate) const HOLD: Duration = Duration::from_millis(100);

/// `n` idle LIVE replicas whose costs are predicted.
pub(crate) fn bench(n: usize) -> Bench {
    let mut bench = Bench::live(n, PoolSettings { predict: true, ..PoolSettings::default() });
    (0..n as u32).for_each(|id| bench.pool.set_slots(ReplicaId(id), None));
    bench
}

/// Before there is data a prompt of so many tokens takes this many seconds.
pub(crate) fn prefill(tokens: u32) -> f64 {
    let tokens = f64::from(tokens);
    tokens * 1e-4 + tokens * tokens / 2.0 * 4e-9
}

/// One that is held back.
pub(crate) fn asks(tokens: u32) -> PickRequest<'static> {
    PickRequest { hold: Some(HOLD), ..at_once(tokens) }
}

/// One that is not.
pub(crate) fn at_once(tokens: u32) -> PickRequest<'static> {
    let prompt = Prompt { tokens, ..Prompt::default() };
    let weight = Weight::from_prompt_tokens(u64::from(tokens));
    PickRequest { weight, prompt, mode: Mode::Predictive, ..request() }
}

/// Its prefill is over when its time is: no first byte says so.
pub(crate) fn silent(request: PickRequest<'static>) -> PickRequest<'static> {
    PickRequest { prompt: Prompt { whole_answer: true, ..request.prompt }, ..request }
}

impl Bench {
    /// The first replicas are given so much to do, of which only time tells that it is done.
    pub(crate) fn burdened(&mut self, tokens: &[u32]) -> Vec<Lease> {
        let n = self.pool.snapshot(self.now).replicas.len() as u32;
        let mut burden = |(id, tokens): (u32, &u32)| {
            let others: Vec<ReplicaId> = (0..n).filter(|other| *other != id).map(ReplicaId).collect();
            self.pick(&PickRequest { tried: &others, ..silent(at_once(*tokens)) }).lease
        };
        (0..).zip(tokens).map(&mut burden).collect()
    }
}
