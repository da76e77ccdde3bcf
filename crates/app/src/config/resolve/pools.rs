//! Pools: names, replicas, credentials and the settings of the decision core.

use std::collections::HashMap;

use sluicegate_core::{AffinitySettings, HealthSettings, PoolSettings};
use sluicegate_proxy::plan::{Credential, PoolPlan, ReplicaUrl, RouteMode, RoutePlan, RoutesPlan, Slots};

use super::routes::each;
use crate::config::choices::Engine;
use crate::config::diagnostics::{Origin, Problems};
use crate::config::discover::{self, Discover, DiscoverPlan};
use crate::config::names::Name;
use crate::config::raw::{Affinity, Health, Pool};
use crate::config::read::{Required, Set, Value};
use crate::config::secret::Secret;
use crate::config::values::Text;

/// Name of the pool that `--replica` makes where the file has none.
const DEFAULT_POOL: &str = "default";

/// Puts the replicas of the command line into the only pool, which is made where there is none.
pub(super) fn override_replicas(pools: &mut Vec<Set<Pool>>, urls: &[String], problems: &mut Problems<'_>) {
    let Some(first) = urls.first().map(|url| replica_flag(url)) else { return };
    if let [one, _, ..] = pools.as_slice() {
        let what =
            format!("the file has {} pools, and --replica cannot tell which one is meant", pools.len());
        problems
            .conflict(&Origin::Flag(first), what, &one.origin, "the first pool")
            .hint("leave --replica out and edit the file");
        return;
    }
    let mut replicas = Vec::new();
    for url in urls {
        let at = replica_flag(url);
        match ReplicaUrl::parse(url) {
            Ok(parsed) => replicas.push(Set::flag(parsed, &at)),
            Err(refusal) => problems.refused(&Origin::Flag(at), refusal),
        }
    }
    let replicas = Set { sound: replicas.len() == urls.len(), ..Set::flag(replicas, "--replica") };
    match pools.first_mut() {
        Some(pool) => {
            pool.value.replicas = replicas;
            pool.value.discover = Set::unset(Discover::default());
        }
        None => {
            let name = Set::flag(Required(Some(Name(DEFAULT_POOL.into()))), "--replica");
            pools.push(Set::flag(Pool { name, replicas, ..Pool::default() }, "--replica"));
        }
    }
}

/// The flag as typed, but for a password.
fn replica_flag(url: &str) -> String {
    let shown = if url.contains('@') { "***" } else { url };
    format!("--replica {shown}")
}

/// Every pool that has a name, in order.
pub(super) fn pools(
    pools: &[Set<Pool>],
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) -> Vec<PoolPlan> {
    let mut names: HashMap<&str, &Origin> = HashMap::new();
    for pool in pools {
        let Some(name) = &pool.value.name.value.0 else { continue };
        let at = &pool.value.name.origin;
        if let Some(first) = names.get(&*name.0) {
            let what = format!("a second pool named \"{}\"", name.0);
            problems.conflict(at, what, first, "the first").hint("give each pool a name of its own");
        }
        names.entry(&name.0).or_insert(at);
    }
    for (i, pool) in pools.iter().enumerate() {
        replicas(pool, &pools[..i], problems, warnings);
    }
    for pool in pools {
        credentials(&pool.value, problems);
        untold_slots(&pool.value, problems, warnings);
        hosted(&pool.value, problems, warnings);
    }
    pools.iter().filter_map(|pool| plan(&pool.value, problems)).collect()
}

/// Where replicas are learned from. The index is that of the pool among those that have a name.
pub(super) fn sources(pools: &[Set<Pool>], problems: &mut Problems<'_>) -> Vec<DiscoverPlan> {
    let named = pools.iter().filter(|pool| pool.value.name.value.0.is_some());
    let sources = named.enumerate().filter(|(_, pool)| pool.value.discover.given());
    let plan = |(pool, set): (usize, &Set<Pool>)| {
        let source = discover::plan(&set.value.discover, problems)?;
        Some(DiscoverPlan { pool, source })
    };
    sources.filter_map(plan).collect()
}

fn replicas(
    pool: &Set<Pool>,
    earlier: &[Set<Pool>],
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let replicas = &pool.value.replicas;
    let discovered = pool.value.discover.given();
    if replicas.sound && replicas.value.is_empty() && !discovered {
        let at = if replicas.given() { &replicas.origin } else { &pool.origin };
        problems
            .add(at, "the pool has no replica")
            .hint("add replicas = [\"http://HOST:PORT\"], or discover = { source = ... }");
    }
    for (i, url) in replicas.value.iter().enumerate() {
        let same = |other: &&Set<ReplicaUrl>| place(&other.value) == place(&url.value);
        if let Some(first) = replicas.value[..i].iter().find(same) {
            let what = format!("the replica {} is named twice", url.value.text);
            problems
                .conflict(&url.origin, what, &first.origin, "the first time")
                .hint("leave one of them out");
        } else if earlier.iter().flat_map(|p| &p.value.replicas.value).any(|other| same(&other)) {
            let what =
                format!("the replica {} is in two pools, which do not see each other's load", url.value.text);
            warnings.push(problems.line(&url.origin, &what));
        }
    }
    for url in replicas.value.iter() {
        if let Some(bare) = url.value.text.strip_suffix("/v1") {
            let what = format!("leave out /v1, the paths of clients begin with it: write {bare}");
            warnings.push(problems.line(&url.origin, &what));
        }
    }
}

/// Warns of replicas that are all that some route has. The pools and routes are in order.
pub(super) fn warn_of_lonely_replicas(
    pools: &[Set<Pool>],
    routes: &RoutesPlan,
    problems: &Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let rests_on = |route: &RoutePlan, pool: usize| {
        route.fallback.is_none()
            && !route.targets.is_empty()
            && route.targets.iter().all(|target| target.pool == pool)
    };
    for (i, pool) in pools.iter().enumerate() {
        let needed = match routes {
            RoutesPlan::Fixed(routes) => routes.iter().any(|route| rests_on(route, i)),
            RoutesPlan::AskEngines(_) => true,
        };
        // A provider has its own fail-over behind its only address.
        if let ([only], Some(name)) = (pool.value.replicas.value.as_slice(), &pool.value.name.value.0)
            && needed
            && !is_hosted(&pool.value)
            && !pool.value.discover.given()
        {
            let what = format!("pool \"{}\" has one replica: nothing to fail over to", name.0);
            warnings.push(problems.line(&only.origin, &what));
        }
    }
}

/// What makes two replicas the same server.
fn place(url: &ReplicaUrl) -> (String, u16, &str) {
    (url.host.to_ascii_lowercase(), url.port, &url.prefix)
}

fn plan(pool: &Pool, problems: &mut Problems<'_>) -> Option<PoolPlan> {
    let settings = PoolSettings {
        health: health(&pool.health.value, problems),
        affinity: affinity(&pool.affinity.value),
        waiting_counts: pool.waiting_counts.value,
        load_source: pool.load_source.value,
        predict: false,
    };
    Some(PoolPlan {
        name: pool.name.value.0.as_ref()?.0.clone(),
        replicas: pool.replicas.value.iter().map(|url| url.value.clone()).collect(),
        settings,
        scrape_timeout: pool.health.value.scrape_timeout.value.0,
        usage_injection: pool.usage_injection.value,
        credentials: pool.credentials.value.iter().map(|secret| token(&secret.value)).collect(),
        headers: pool.headers.value.0.iter().map(|h| (h.name.clone(), h.value.clone())).collect(),
        slots: pool.slots.value,
        hosted: is_hosted(pool),
    })
}

/// Pools learn to predict where some route chooses by that.
pub(super) fn learn_for(routes: &RoutesPlan, pools: &mut [PoolPlan]) {
    let predicts = |route: &&RoutePlan| match &route.mode {
        RouteMode::Predictive { .. } => true,
        RouteMode::Policy(policies) => policies.predict(),
        RouteMode::Adaptive | RouteMode::Weighted(_) | RouteMode::RoundRobin => false,
    };
    for target in each(routes).iter().filter(predicts).flat_map(|route| &route.targets) {
        if let Some(pool) = pools.get_mut(target.pool) {
            pool.settings.predict = true;
        }
    }
}

/// Whether the pool is a provider's API.
pub(super) fn is_hosted(pool: &Pool) -> bool {
    pool.engine.value == Engine::Openai
}

fn token(secret: &Secret) -> Credential {
    Credential(secret.reveal().clone())
}

fn credentials(pool: &Pool, problems: &mut Problems<'_>) {
    let credentials = &pool.credentials;
    if credentials.sound && credentials.given() && credentials.value.is_empty() {
        problems.add(&credentials.origin, "credentials: the list is empty").hint("leave the key out");
    }
    for (i, secret) in credentials.value.iter().enumerate() {
        let same = |other: &&Set<Secret>| other.value.reveal() == secret.value.reveal();
        if let Some(first) = credentials.value[..i].iter().find(same) {
            problems
                .conflict(&secret.origin, "the same credential twice", &first.origin, "the first time")
                .hint("leave one of them out");
        }
    }
    if !credentials.value.is_empty() && pool.headers.value.has("authorization") {
        problems
            .conflict(
                &pool.headers.origin,
                "headers: \"authorization\" is what credentials are sent in",
                &credentials.origin,
                "the credentials",
            )
            .hint("leave one of them out");
    }
}

fn untold_slots(pool: &Pool, problems: &Problems<'_>, warnings: &mut Vec<String>) {
    if pool.slots.value == Slots::Ask && matches!(pool.engine.value, Engine::Vllm | Engine::Tgi) {
        let what = format!("slots: engines of kind {} do not tell, write a number", pool.engine.value.show());
        warnings.push(problems.line(&pool.slots.origin, &what));
    }
}

/// What holds for a provider's API and for no engine of one's own.
fn hosted(pool: &Pool, problems: &mut Problems<'_>, warnings: &mut Vec<String>) {
    if !is_hosted(pool) {
        return;
    }
    if pool.slots.value == Slots::Ask {
        problems
            .add(&pool.slots.origin, "slots: a provider's API cannot be asked for its slots")
            .hint("write a number, or leave slots out");
    }
    let readable = pool.credentials.sound && pool.headers.sound;
    if readable && pool.credentials.value.is_empty() && !pool.headers.value.authenticate() {
        let what = "engine = \"openai\" and neither credentials nor a header with a secret: most providers ask \
                    for one";
        warnings.push(problems.line(&pool.engine.origin, what));
    }
    for url in pool.replicas.value.iter().filter(|url| !url.value.tls && !on_this_host(&url.value.host)) {
        let what = format!("{}: requests to a provider go over the network in the clear", url.value.text);
        warnings.push(problems.line(&url.origin, &what));
    }
    let health = &pool.health.value;
    for (name, scrape) in
        [("scrape_interval", &health.scrape_interval), ("scrape_timeout", &health.scrape_timeout)]
    {
        if scrape.given() {
            let what = format!("{name} does nothing, a pool with engine = \"openai\" is never scraped");
            warnings.push(problems.line(&scrape.origin, &what));
        }
    }
}

fn on_this_host(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(super::loopback)
}

fn health(health: &Health, problems: &mut Problems<'_>) -> HealthSettings {
    let (shortest, longest) = (&health.cooldown, &health.cooldown_max);
    if shortest.sound && longest.sound && shortest.value.0 > longest.value.0 {
        let (cooldown, most) = (shortest.value.text(), longest.value.text());
        let what = format!("cooldown ({cooldown}) is longer than cooldown_max ({most})");
        let (at, first) = if shortest.given() { (shortest, longest) } else { (longest, shortest) };
        let note = if first.given() { "the other limit" } else { "the other limit is the default" };
        problems.conflict(&at.origin, what, &first.origin, note).hint("cooldown_max is the longest cooldown");
    }
    HealthSettings {
        scrape_interval: health.scrape_interval.value.0,
        eject_after_failures: health.eject_after_failures.value.get(),
        eject_after_5xx: health.eject_after_5xx.value.get(),
        recover_after_successes: health.recover_after_successes.value.get(),
        probing_window: health.probing_window.value.0,
        probing_max_inflight: health.probing_max_inflight.value,
        cooldown: shortest.value.0,
        cooldown_max: longest.value.0,
        flap_window: health.flap_window.value.0,
        forgive_after: health.forgive_after.value.0,
        stall_after: health.stall_after.value.0,
    }
}

fn affinity(affinity: &Affinity) -> AffinitySettings {
    AffinitySettings {
        mode: affinity.mode.value,
        session_ttl: affinity.session_ttl.value.0,
        prefix_ttl: affinity.prefix_ttl.value.0,
        session_slack: affinity.session_slack.value,
        prefix_slack: affinity.prefix_slack.value,
        rebind_after_spills: affinity.rebind_after_spills.value.get(),
        force_rebind_gap: affinity.force_rebind_gap.value.get(),
        max_pins: affinity.max_pins.value.get() as usize,
    }
}
