//! What a good file means.

use std::time::Duration;

use sluicegate::config::OnFull;
use sluicegate_core::{AffinityMode, LoadSource, PoolSettings, RetrySettings, WaitingCounts};
use sluicegate_proxy::plan::{RouteMode, RoutesPlan, SessionSource};

use super::good;

const LEAST: &str = "[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\", \"http://h:2\"]\n";

const MUCH: &str = r#"
gateway_id = "gw-1"
[listen]
address = "0.0.0.0:0"
open = true
threads = 0x3
max_connections = 7
max_body = "1KiB"
head_timeout = "250ms"
body_idle_timeout = "1s"
write_idle_timeout = "2m"
drain_timeout = "0s"
half_close = "serve"
[[pools]]
name = "a"
replicas = ["http://h:1/base/"]
engine = "vllm"
usage_injection = false
load_source = "engine"
waiting_counts = "weight"
health = { scrape_interval = "1s", scrape_timeout = "4s", cooldown = "2s", probing_max_inflight = 0 }
affinity = { mode = "consistent", prefix_chars = 99, session_slack = 5 }
[[pools]]
name = "b"
replicas = ["http://h:1/base"]
[[routes]]
model = "m"
aliases = ["n"]
session_keys = ["header:X-My-Session", "body:talk", "auto:conversation"]
[[routes.targets]]
pool = "a"
upstream_model = "M"
[routes.timeouts]
connect = "1s"
stream_silence = "20s"
total = "10s"
[routes.retry]
attempts = 1
on_status = [503]
budget = 0
spill_429 = false
hold_limit = "1KiB"
[usage]
output = ["file:/var/log/u.jsonl", "stdout"]
rotate = "1GiB"
on_full = "wait"
"#;

#[test]
fn what_is_left_out_has_the_cores_defaults() {
    let loaded = good(LEAST);
    let RoutesPlan::AskEngines(template) = &loaded.plan.routes else {
        panic!("routes without any in the file")
    };
    assert_eq!(template.mode, RouteMode::Predictive { hold: None });
    let learning = PoolSettings { predict: true, ..PoolSettings::default() };
    assert_eq!(loaded.plan.pools[0].settings, learning);
    assert_eq!(template.retry, RetrySettings::default());
    assert_eq!((template.session_keys.len(), template.prefix_chars, template.hold_limit), (8, 4096, 65_536));
    assert_eq!(template.session_keys.last(), Some(&SessionSource::Conversation));
    assert!(loaded.plan.listen.threads >= 1);
    assert!(loaded.usage.stdout && loaded.usage.file.is_none() && loaded.usage.on_full == OnFull::Drop);
    assert!(!loaded.plan.gateway_id.is_empty());
}

#[test]
fn the_listener_is_what_the_file_says() {
    let listen = good(MUCH).plan.listen;
    assert_eq!((listen.threads, listen.max_connections, listen.max_body), (3, 7, 1024));
    assert_eq!(listen.head_timeout, Duration::from_millis(250));
    assert_eq!((listen.body_idle_timeout.as_secs(), listen.write_idle_timeout.as_secs()), (1, 120));
    assert!(listen.serve_half_closed && listen.drain_timeout.is_zero());
}

#[test]
fn a_pool_is_what_the_file_says() {
    let loaded = good(MUCH);
    let pool = &loaded.plan.pools[0];
    assert_eq!((&*pool.replicas[0].text, pool.usage_injection), ("http://h:1/base", false));
    assert_eq!(pool.scrape_timeout.as_secs(), 4);
    let settings = &pool.settings;
    assert_eq!((settings.load_source, settings.waiting_counts), (LoadSource::Engine, WaitingCounts::Weight));
    assert_eq!((settings.affinity.mode, settings.affinity.session_slack), (AffinityMode::Consistent, 5));
    assert_eq!((settings.health.cooldown.as_secs(), settings.health.probing_max_inflight), (2, 0));
}

#[test]
fn a_route_is_what_the_file_says() {
    let loaded = good(MUCH);
    let RoutesPlan::Fixed(routes) = &loaded.plan.routes else { panic!("no routes") };
    let route = &routes[0];
    assert_eq!((&*route.model, &*route.aliases[0], route.targets[0].pool), ("m", "n", 0));
    assert_eq!(
        (route.targets[0].upstream_model.as_deref(), route.prefix_chars, route.hold_limit),
        (Some("M"), 99, 1024)
    );
    let keys = [SessionSource::Header("x-my-session".into()), SessionSource::Body("talk".into())];
    assert_eq!(route.session_keys[..2], keys);
    assert_eq!(
        (route.retry.attempts, &*route.retry.on_status, route.retry.spill_429),
        (1, &[503_u16][..], false)
    );
    assert_eq!((route.timeouts.connect.as_secs(), route.timeouts.total.as_secs()), (1, 10));
}

#[test]
fn a_summary_says_what_was_understood() {
    let expected = "\
gateway  gw-1
listen   0.0.0.0:0, 3 threads
admin    127.0.0.1:9090, without a token
usage    to stdout and /var/log/u.jsonl
pool     a: 1 replica
           http://h:1/base
pool     b: 1 replica
           http://h:1/base
route    m (also n), mode adaptive, by load and warm caches
           -> pool a, model M
keys     none, whoever reaches the listener is served
not the default:
  listen.open = true
  listen.max_connections = 7
  listen.max_body = \"1KiB\"
  listen.head_timeout = \"250ms\"
  listen.body_idle_timeout = \"1s\"
  listen.drain_timeout = \"0s\"
  listen.write_idle_timeout = \"2m\"
  listen.half_close = \"serve\"
  usage.rotate = \"1GiB\"
  usage.on_full = \"wait\"
  pool a: engine = \"vllm\"
  pool a: usage_injection = false
  pool a: load_source = \"engine\"
  pool a: waiting_counts = \"weight\"
  pool a: health.scrape_interval = \"1s\"
  pool a: health.scrape_timeout = \"4s\"
  pool a: health.probing_max_inflight = 0
  pool a: health.cooldown = \"2s\"
  pool a: affinity.mode = \"consistent\"
  pool a: affinity.prefix_chars = 99
  pool a: affinity.session_slack = 5
  route m: session_keys = [\"header:x-my-session\", \"body:talk\", \"auto:conversation\"]
  route m: timeouts.connect = \"1s\"
  route m: timeouts.stream_silence = \"20s\"
  route m: timeouts.total = \"10s\"
  route m: retry.attempts = 1
  route m: retry.on_status = [503]
  route m: retry.budget = 0.0
  route m: retry.spill_429 = false
  route m: retry.hold_limit = \"1KiB\"
warning: gate.toml:4:11: 0.0.0.0:0: anybody who reaches it may use this gateway
warning: gate.toml:25:13: the replica http://h:1/base is in two pools, which do not see each other's load
warning: gate.toml:35:18: stream_silence is not shorter than total, so it never ends a stream
warning: gate.toml:24:8: pool \"b\" is used by no route
warning: gate.toml:16:13: pool \"a\" has one replica: nothing to fail over to
";
    let summary = good(MUCH).summary();
    assert_eq!(summary, expected, "{summary}");
}

#[test]
fn a_lonely_replica_is_warned_of_where_its_route_has_nothing_else() {
    let pools = "[[pools]]\nname = \"a\"\nreplicas = [\"http://a:1\"]\n\
                 [[pools]]\nname = \"b\"\nreplicas = [\"http://b:1\"]\n[[routes]]\nmodel = \"m\"\n";
    let alone = |name: &str| format!("pool \"{name}\" has one replica: nothing to fail over to");
    for (routes, warned) in [
        ("targets = [{ pool = \"a\" }]\nfallback = { pool = \"b\" }", vec![]),
        ("targets = [{ pool = \"a\" }, { pool = \"b\" }]", vec![]),
        (
            "targets = [{ pool = \"a\" }, { pool = \"a\", upstream_model = \"x\" }]\n\
          [[routes]]\nmodel = \"n\"\ntargets = [{ pool = \"b\" }, { pool = \"a\" }]",
            vec!["a"],
        ),
        (
            "targets = [{ pool = \"a\" }, { pool = \"b\" }]\n\
          [[routes]]\nmodel = \"n\"\ntargets = [{ pool = \"b\" }]",
            vec!["b"],
        ),
        (
            "targets = [{ pool = \"a\" }]\n[[routes]]\nmodel = \"n\"\ntargets = [{ pool = \"b\" }]",
            vec!["a", "b"],
        ),
    ] {
        let warnings = good(&format!("{pools}{routes}\n")).warnings;
        let told: Vec<_> = warnings.iter().filter_map(|w| w.splitn(4, ':').nth(3)).collect();
        let expected: Vec<_> = warned.into_iter().map(|name| format!(" {}", alone(name))).collect();
        assert_eq!(told, expected, "{routes}");
    }
    let one = "[[pools]]\nname = \"a\"\nreplicas = [\"http://a:1\"]\n";
    assert_eq!(good(one).warnings, [format!("gate.toml:3:13: {}", alone("a"))]);
}
