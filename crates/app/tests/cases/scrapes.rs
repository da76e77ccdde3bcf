//! Probes need no traffic: a replica that nobody uses is watched all the same.

use sluicegate_testkit::{Bench, Health, Upstream};

/// Far more than a timer of seconds brings within the bench's patience.
const MANY: u64 = 300;

#[tokio::test]
async fn one_idle_replica_goes_on_being_probed() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let probes = &up.counts().health_probes;
    probes.reached(probes.get() + MANY).await;
    assert_eq!(up.counts().requests.get(), 0);
    bench.assert_idle(0).await;
}

#[tokio::test]
async fn without_traffic_a_death_is_noticed_and_so_is_a_return() {
    let (up, peer) = (Upstream::start("m1"), Upstream::start("m1"));
    let bench = Bench::with_replicas(&[&up, &peer]).await;
    for round in 0..2 {
        // Quiet for a while before each death.
        let probes = &up.counts().health_probes;
        probes.reached(probes.get() + 20).await;
        up.stop();
        bench.wait_health(&up, Health::Ejected).await;
        assert_eq!(bench.replica(&up).ejections, round + 1);
        up.start_again();
        bench.wait_health(&up, Health::Live).await;
    }
    assert_eq!(bench.replica(&peer).health, Health::Live);
    assert_eq!(up.counts().requests.get() + peer.counts().requests.get(), 0);
    bench.assert_idle(0).await;
}
