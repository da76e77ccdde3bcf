//! For tests of pools that learn their replicas while they run.

use crate::{Bench, until};

/// A configuration: one pool that learns its replicas from `discover`, and one route to it.
#[must_use]
pub fn config(discover: &str) -> String {
    format!(
        "[listen]\naddress = \"127.0.0.1:0\"\nthreads = 2\n[admin]\naddress = \"127.0.0.1:0\"\n[usage]\noutput = \
         \"off\"\n[[pools]]\nname = \"pool\"\ndiscover = {discover}\n[pools.health]\nscrape_interval = \
         \"20ms\"\nscrape_timeout = \"20s\"\nprobing_window = \"100ms\"\n[[routes]]\nmodel = \
         \"m1\"\n[[routes.targets]]\npool = \"pool\"\n"
    )
}

/// The names of the pool's replicas now.
///
/// # Panics
/// The configuration has no pool.
#[must_use]
pub fn names(bench: &Bench) -> Vec<String> {
    bench.pools().remove(0).replicas.into_iter().map(|replica| replica.name).collect()
}

/// Waits until the pool has exactly these.
pub async fn has(bench: &Bench, replicas: &[&str]) {
    let mut expected: Vec<String> = replicas.iter().map(|url| (*url).to_owned()).collect();
    expected.sort();
    until(|| {
        let mut now = names(bench);
        now.sort();
        now == expected
    })
    .await;
}

/// What the source says of itself in `/api/state`, once it says `failing`.
pub async fn source(bench: &Bench, failing: bool) -> serde_json::Value {
    loop {
        let state = bench.admin("/api/state").await.json();
        let source = state["discovery"][0].clone();
        if source["failing"].is_string() == failing {
            return source;
        }
    }
}
