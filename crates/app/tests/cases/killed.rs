//! A-31, when a replica's process is killed with many requests on board.

use serde_json::json;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fault::Fault;
use sluicegate_lab::sim::{Sim, SimConfig};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Health, until};

/// More than the budget of retries has for them.
const REQUESTS: usize = 80;

/// Each of them finds out by itself that the process is gone, whatever it was waiting for and however long.
#[tokio::test]
async fn a_31_everybody_without_a_byte_is_answered_elsewhere_when_a_replica_is_killed() {
    for stream in [true, false] {
        let config = SimConfig { replicas: 2, profile: Profile::fast(), ..SimConfig::default() };
        let sim = Sim::start(config).expect("free ports");
        let replicas: Vec<String> = sim.addrs().iter().map(|address| format!("http://{address}")).collect();
        let bench = Bench::start(&format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n[usage]\noutput = \"off\"\n\
             [[pools]]\nname = \"pool\"\nreplicas = {replicas:?}\n[[routes]]\nmodel = \"sim\"\n\
             targets = [{{ pool = \"pool\" }}]\n"
        ));
        bench.wait_live(2).await;
        let [killed, other] = sim.replicas() else { panic!("two replicas") };
        killed.set_fault(Fault::Frozen).await;
        other.set_fault(Fault::Frozen).await;
        let request = post(CHAT, &chat("sim", &format!(r#","max_tokens":4,"stream":{stream}"#)));
        let mut clients = Vec::new();
        for _ in 0..REQUESTS {
            let mut client = bench.client().await;
            client.send(&request).await;
            clients.push(client);
        }
        let there = |count: u32| usize::try_from(count).expect("a small number") == REQUESTS / 2;
        killed.until(|counters| there(counters.running + counters.waiting)).await;
        other.until(|counters| there(counters.running + counters.waiting)).await;
        killed.set_fault(Fault::Dead).await;
        other.clear_faults().await;
        for client in &mut clients {
            let answer = client.answer().await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
        }
        let lines = bench.assert_idle(REQUESTS).await;
        let again = lines.iter().filter(|line| line["attempts"] == json!(2)).count();
        assert_eq!(again, REQUESTS / 2);
        let out =
            || bench.pools()[0].replicas.iter().filter(|replica| replica.health == Health::Ejected).count();
        until(|| out() == 1).await;
    }
}
