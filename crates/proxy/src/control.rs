//! The control thread: asks each pool's core what is due, and does what it says.

use std::sync::Arc;

use sluicegate_core::{Effect, Health, ReplicaId, Transition};

use crate::clock;
use crate::gateway::Gateway;
use crate::pool::Pool;
use crate::scrape;

/// Runs the pools' scrapes and effects for as long as it is polled.
pub(crate) async fn run(gateway: &Arc<Gateway>) {
    for pool in &gateway.pools {
        tokio::spawn(run_pool(Arc::clone(gateway), Arc::clone(pool)));
    }
    std::future::pending().await
}

async fn run_pool(gateway: Arc<Gateway>, pool: Arc<Pool>) {
    if pool.plan().hosted {
        // No scrape looks its names up.
        tokio::spawn(scrape::look_up(Arc::clone(&pool)));
    }
    let mut effects = Vec::new();
    loop {
        let next = pool.tick(&mut effects);
        for effect in effects.drain(..) {
            apply(&gateway, &pool, effect);
        }
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(clock::tokio_instant(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = pool.changed.notified() => {}
            () = due => {}
        }
    }
}

fn apply(gateway: &Arc<Gateway>, pool: &Arc<Pool>, effect: Effect) {
    match effect {
        Effect::Scrape(id) => {
            tokio::spawn(scrape::scrape(Arc::clone(gateway), Arc::clone(pool), id));
        }
        Effect::Canary(id) => {
            tokio::spawn(scrape::canary(Arc::clone(pool), id));
        }
        // Done where they were caused: see `Pool::with_core`.
        Effect::AbortUnanswered(_) | Effect::Granted { .. } | Effect::Denied { .. } => {}
        Effect::Removed(id) => {
            tracing::info!(pool = %pool.name(), replica = %url(pool, id), "replica is gone");
            pool.forget(id);
            gateway.unlearn_models(pool, id);
        }
        Effect::Transition(transition) => log_transition(pool, &transition),
        Effect::MetricsChanged { replica, available: true } => {
            tracing::info!(pool = %pool.name(), replica = %url(pool, replica), "metrics are there again");
        }
        Effect::MetricsChanged { replica, available: false } => {
            tracing::warn!(
                pool = %pool.name(), replica = %url(pool, replica),
                "no metrics of a known engine: its load is taken from the gateway's own counts"
            );
        }
    }
}

fn log_transition(pool: &Pool, t: &Transition) {
    let (name, replica) = (pool.name(), url(pool, t.replica));
    let (from, to, reason) = (t.from.as_str(), t.to.as_str(), t.reason.as_str());
    match (t.to, t.cooldown) {
        (Health::Ejected, Some(cooldown)) => {
            tracing::warn!(pool = %name, %replica, from, to, reason, ?cooldown, streak = t.streak, "replica");
        }
        _ => tracing::info!(pool = %name, %replica, from, to, reason, "replica"),
    }
}

fn url(pool: &Pool, id: ReplicaId) -> Arc<str> {
    pool.replica(id).map(|r| r.url.text.clone()).unwrap_or_default()
}
