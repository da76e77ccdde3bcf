use std::sync::atomic::Ordering;

use sluicegate_core::{PickRequest, Scrape, Verdict, Weight};

use super::*;
use crate::plan::{PoolPlan, ReplicaUrl};
use crate::pool::{LeaseGuard, WakeEpoch};
use crate::test_plan::pool_plan;

const CONFIGURED: &str = "http://127.0.0.1:9";

fn replica(port: u16) -> ReplicaPlan {
    let url: ReplicaUrl = format!("http://127.0.0.1:{port}").parse().expect("a valid URL");
    ReplicaPlan { url, headers: Vec::new() }
}

fn pool(plan: &PoolPlan) -> Arc<Pool> {
    Pool::new(plan, &Serves::All, 1, Arc::new(WakeEpoch::default()))
}

fn dynamic() -> Arc<Pool> {
    pool(&PoolPlan { replicas: Vec::new(), ..pool_plan() })
}

fn set(pool: &Pool, ports: &[u16]) -> Update {
    pool.set_replicas(&ports.iter().map(|port| replica(*port)).collect::<Vec<_>>())
}

fn applied(added: usize, removed: usize) -> Update {
    Update::Applied { added, removed, serving_on: 0 }
}

fn ports(pool: &Pool) -> Vec<u16> {
    pool.replicas().iter().map(|replica| replica.url.port).collect()
}

fn scraped(pool: &Pool) {
    for replica in pool.replicas().iter() {
        let healthy = Scrape::Healthy { load: None };
        pool.with_core(Control::Always, |core, now| core.scraped(now, replica.id, healthy, None));
    }
}

/// The control thread's part.
fn control(pool: &Pool) {
    let mut effects = Vec::new();
    pool.tick(&mut effects);
    for effect in effects {
        if let sluicegate_core::Effect::Removed(id) = effect {
            pool.forget(id);
        }
    }
}

fn open(pool: &Arc<Pool>) -> LeaseGuard {
    let request = PickRequest { weight: Weight::from_prompt_tokens(1), ..PickRequest::default() };
    let picked = pool.with_core(Control::IfEffects, |core, now| core.pick(now, &request));
    let picked = picked.expect("one is LIVE");
    let replica = pool.replica(picked.replica).expect("it is known");
    LeaseGuard::new(pool, replica, 0, picked.lease)
}

fn health(pool: &Pool) -> Vec<Health> {
    pool.snapshot().replicas.iter().map(|replica| replica.health).collect()
}

#[test]
fn a_list_is_applied_as_the_difference() {
    let pool = dynamic();
    assert_eq!(set(&pool, &[1, 2]), applied(2, 0));
    scraped(&pool);
    assert_eq!(health(&pool), [Health::Live; 2], "the first list is as good as a configuration");
    let kept = pool.replicas()[1].slot;
    assert_eq!(set(&pool, &[3, 2, 2]), applied(1, 1));
    control(&pool);
    assert_eq!((ports(&pool), pool.replicas()[0].slot), (vec![2, 3], kept), "2 was not touched");
    scraped(&pool);
    assert_eq!(health(&pool), [Health::Live, Health::Probing], "who comes later proves itself first");
    assert_eq!(set(&pool, &[2, 3]), applied(0, 0));
    let replaced = Update::Applied { added: 1, removed: 2, serving_on: 2 };
    assert_eq!(set(&pool, &[4]), replaced, "the old ones serve on");
    control(&pool);
    assert_eq!(ports(&pool), [2, 3, 4]);
    scraped(&pool);
    control(&pool);
    assert_eq!(
        (ports(&pool), health(&pool)),
        (vec![4], vec![Health::Live]),
        "it had nobody to prove itself next to"
    );
}

#[test]
fn an_empty_or_endless_list_changes_nothing() {
    let pool = dynamic();
    set(&pool, &[1, 2]);
    assert_eq!(set(&pool, &[]), Update::KeptForEmpty);
    let endless: Vec<u16> = (0..=MOST_REPLICAS as u16).collect();
    assert_eq!(set(&pool, &endless), Update::KeptForTooMany);
    control(&pool);
    assert_eq!(ports(&pool), [1, 2]);
}

#[test]
fn replicas_of_the_configuration_stay_and_stand_once() {
    let pool = pool(&pool_plan());
    assert_eq!(&*pool.replicas()[0].url.text, CONFIGURED);
    assert_eq!(set(&pool, &[9, 1]), applied(1, 0));
    assert_eq!(set(&pool, &[2]), applied(1, 1));
    control(&pool);
    assert_eq!(ports(&pool), [9, 2]);
}

#[test]
fn a_removed_replica_is_found_until_its_last_request_has_ended() {
    let pool = dynamic();
    set(&pool, &[1]);
    scraped(&pool);
    let mut running = open(&pool);
    set(&pool, &[2]);
    scraped(&pool);
    control(&pool);
    assert_eq!((ports(&pool), running.replica().gone.load(Ordering::Relaxed)), (vec![1, 2], false));
    running.settle(Verdict::Success, None);
    control(&pool);
    assert_eq!((ports(&pool), running.replica().gone.load(Ordering::Relaxed)), (vec![2], true));
}

#[test]
fn one_that_comes_back_while_it_leaves_is_the_same() {
    let pool = dynamic();
    set(&pool, &[1, 2]);
    scraped(&pool);
    let running = [open(&pool), open(&pool)];
    let slots = |pool: &Pool| pool.replicas().iter().map(|replica| replica.slot).collect::<Vec<_>>();
    let before = slots(&pool);
    set(&pool, &[1]);
    assert_eq!(set(&pool, &[1, 2]), applied(1, 0));
    drop(running);
    control(&pool);
    assert_eq!((ports(&pool), slots(&pool)), (vec![1, 2], before));
}
