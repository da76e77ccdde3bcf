//! The whole gateway in front of simulated replicas.

use serde_json::{Value, json};
use sluicegate_core::ReplicaSnapshot;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fault::Fault;
use sluicegate_lab::sim::{Sim, SimConfig, SimReplica};
use sluicegate_testkit::requests::{CHAT, post_with};
use sluicegate_testkit::{Bench, Health, until};

use super::{COOLDOWN, Consequences, Row, SCRAPE_TIMEOUT, SHORT, When};

struct Run {
    sim: Sim,
    bench: Bench,
    /// The session's replica, by its place.
    at_fault: usize,
}

pub(super) async fn consequences(row: &Row) -> Consequences {
    let run = Run::start(row).await;
    let request = request(row.stream, row.tokens());
    if row.when == When::Unanswered || row.when == When::Begun {
        let factor = if row.when == When::Begun { 20.0 } else { 1e6 };
        run.replica().set_fault(Fault::Slow { factor }).await;
        let mut client = run.bench.client().await;
        client.send(&request).await;
        if row.when == When::Begun {
            client.head().await;
            client.event().await;
        } else {
            run.replica().until(|counters| counters.running == 1).await.unwrap();
        }
        run.replica().set_fault(row.spec()).await;
        run.bench.usage_lines(2).await;
    } else {
        run.replica().set_fault(row.spec()).await;
        if row.when == When::Found {
            until(|| run.snapshot().health != Health::Live).await;
        }
        for asked in 2..row.ends.len() + 2 {
            run.bench.ask(&request).await;
            run.bench.assert_idle(asked).await;
        }
    }
    if row.left.is_some() && row.when != When::Unseen {
        until(|| run.snapshot().health != Health::Live).await;
    }
    run.end().await
}

/// One of the session.
fn request(stream: bool, tokens: u32) -> Vec<u8> {
    let body = json!({"model": "sim", "messages": [{"role": "user", "content": "Which gate?"}], "max_tokens": tokens,
        "ignore_eos": true, "stream": stream});
    post_with(CHAT, &[("x-session-id", "seven")], body.to_string().as_bytes())
}

impl Run {
    /// One request of the session has been answered.
    async fn start(row: &Row) -> Self {
        let sim = SimConfig { replicas: 2, profile: Profile::fast(), ..SimConfig::default() };
        let sim = Sim::start(sim).unwrap();
        let replicas: Vec<String> = sim.addrs().iter().map(|address| format!("http://{address}")).collect();
        let (interval, total) = (row.when.scrape_interval().as_millis(), row.when.total().as_millis());
        let (timeout, cooldown) = (SCRAPE_TIMEOUT.as_millis(), COOLDOWN.as_millis());
        let bench = Bench::start(&format!(
            "[listen]\naddress = \"127.0.0.1:0\"\nthreads = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[usage]\noutput = \
             \"off\"\n[[pools]]\nname = \"pool\"\nreplicas = {replicas:?}\n[pools.health]\nscrape_interval = \
             \"{interval}ms\"\nscrape_timeout = \"{timeout}ms\"\ncooldown = \"{cooldown}ms\"\ncooldown_max = \
             \"{cooldown}ms\"\n[[routes]]\nmodel = \"sim\"\nmode = \"adaptive\"\ntargets = [{{ pool = \"pool\" }}]\n[routes.timeouts]\n\
             total = \"{total}ms\"\n"
        ));
        bench.wait_live(2).await;
        bench.ask(&request(true, SHORT)).await;
        let lines = bench.assert_idle(1).await;
        let home = replicas.iter().position(|url| lines[0]["replica"] == json!(url)).unwrap();
        let run = Self { sim, bench, at_fault: home };
        if row.when != When::Unseen {
            // That request shows in no scrape any more.
            until(|| {
                run.snapshot().scraped.is_some_and(|load| load.tokens_total > Some(0) && load.running == 0)
            })
            .await;
        }
        run
    }

    fn replica(&self) -> &SimReplica {
        &self.sim.replicas()[self.at_fault]
    }

    fn snapshot(&self) -> ReplicaSnapshot {
        let url = format!("http://{}", self.replica().addr());
        let pool = self.bench.pools().remove(0);
        pool.replicas.into_iter().find(|replica| replica.name.starts_with(&url)).unwrap()
    }

    async fn end(self) -> Consequences {
        let transition = self.snapshot().last_transition;
        let left = transition.filter(|transition| transition.from == Health::Live);
        let end = |line: &Value| {
            (line["outcome"].as_str().unwrap().to_owned(), line["attempts"].as_u64().unwrap() as u32)
        };
        let lines = self.bench.usage_lines(2).await;
        let ends = lines.iter().skip(1).map(end).collect();
        self.sim.shutdown().await;
        Consequences { ends, left: left.map(|transition| transition.reason.as_str()) }
    }
}
