//! A reserved place at a replica, as a guard.

use std::sync::Arc;

use sluicegate_core::{Lease, Spell, Verdict};

use super::{Control, Pool, Replica};

/// A lease that is given back on every path: with a verdict through [`Self::settle`], without one on drop.
#[derive(Debug)]
pub(crate) struct LeaseGuard {
    pool: Arc<Pool>,
    replica: Arc<Replica>,
    /// The replica's abort epoch at the pick.
    epoch: u64,
    spell: Spell,
    lease: Option<Lease>,
}

/// What a request cost its replica, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    /// Prompt and answer.
    pub(crate) tokens: u64,
    /// The answer, where it came whole.
    pub(crate) generated: Option<u32>,
}

impl LeaseGuard {
    pub(super) fn new(pool: &Arc<Pool>, replica: Arc<Replica>, epoch: u64, lease: Lease) -> Self {
        Self { pool: Arc::clone(pool), replica, epoch, spell: lease.spell(), lease: Some(lease) }
    }

    pub(crate) fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The replica was declared dead since the pick.
    pub(crate) fn replica_died(&self) -> bool {
        self.replica.abort_epoch() != self.epoch
    }

    /// The spell of the replica's service that the request was sent in.
    pub(crate) fn spell(&self) -> Spell {
        self.spell
    }

    /// The first answer byte is on its way to the client.
    pub(crate) fn answered(&mut self) {
        if let Some(lease) = &mut self.lease {
            self.pool.with_core(Control::IfEffects, |core, now| core.answered(now, lease));
        }
    }

    /// Gives the lease back, once: a later verdict is not booked. `served`: what the request cost, where that is known.
    pub(crate) fn settle(&mut self, verdict: Verdict, served: Option<Served>) {
        let Some(mut lease) = self.lease.take() else { return };
        let last_byte = self.replica.last_byte();
        // Anything bad may bring the next scrape forward.
        let good = matches!(verdict, Verdict::Success | Verdict::Neutral);
        let control = if good { Control::IfEffects } else { Control::Always };
        self.pool.with_core(control, |core, now| {
            if let Some(served) = served {
                core.served(&mut lease, served.tokens);
                served.generated.into_iter().for_each(|tokens| core.generated(tokens));
            }
            core.release(now, lease, verdict, last_byte);
        });
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.settle(Verdict::Neutral, None);
    }
}
