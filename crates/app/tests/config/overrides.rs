//! Flags over the file.

use sluicegate::config::{Config, Overrides};
use sluicegate_proxy::plan::RoutesPlan;

use super::{environment, load};

const ONE_POOL: &str =
    "[[pools]]\nname = \"a\"\nreplicas = [\"http://old:1\"]\n[pools.health]\ncooldown = \"5s\"\n";

fn replicas(urls: &[&str]) -> Overrides {
    Overrides { replicas: urls.iter().map(|url| (*url).to_owned()).collect(), ..Overrides::default() }
}

fn address(text: &str) -> Option<std::net::SocketAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn replicas_without_a_file_make_one_pool_whose_engines_are_asked() {
    let loaded = Config::load(None, &replicas(&["http://a:1", "http://b:2"])).unwrap();
    assert_eq!(loaded.plan.pools.len(), 1);
    let pool = &loaded.plan.pools[0];
    assert_eq!((&*pool.name, &*pool.replicas[1].text), ("default", "http://b:2"));
    assert!(matches!(loaded.plan.routes, RoutesPlan::AskEngines(_)));
    assert_eq!(loaded.plan.listen.address.to_string(), "127.0.0.1:8080");
}

#[test]
fn replicas_replace_those_of_the_only_pool_and_leave_its_settings() {
    let loaded = load(ONE_POOL, &replicas(&["http://new:1"])).unwrap();
    let pool = &loaded.plan.pools[0];
    assert_eq!((&*pool.name, pool.replicas.len(), &*pool.replicas[0].text), ("a", 1, "http://new:1"));
    assert_eq!(pool.settings.health.cooldown.as_secs(), 5);
}

#[test]
fn replicas_with_several_pools_are_refused() {
    let two = format!("{ONE_POOL}[[pools]]\nname = \"b\"\nreplicas = [\"http://b:1\"]\n");
    let told = load(&two, &replicas(&["http://new:1"])).unwrap_err();
    let expected = "--replica http://new:1: the file has 2 pools, and --replica cannot tell which one is meant\n  \
                    gate.toml:1:1: the first pool\n";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn flags_obey_the_rules_of_the_file() {
    for (overrides, expected) in [
        (replicas(&["h:1"]), "--replica h:1: a replica URL starts with http://"),
        (replicas(&["ftp://h"]), "--replica ftp://h: a replica URL starts with http:// or https://"),
        (replicas(&["http://h", "http://h/"]), "--replica http://h/: the replica http://h is named twice"),
        (
            Overrides { listen: address("0.0.0.0:80"), ..replicas(&["http://h"]) },
            "--listen 0.0.0.0:80: 0.0.0.0:80 is not a loopback address",
        ),
        (
            Overrides { admin: address("[::]:80"), ..replicas(&["http://h"]) },
            "--admin [::]:80: [::]:80 is not a loopback address",
        ),
        (
            Overrides { admin: address("127.0.0.1:8080"), ..replicas(&["http://h"]) },
            "--admin 127.0.0.1:8080: clients (127.0.0.1:8080) and the admin side (127.0.0.1:8080) share an address",
        ),
        (
            Overrides { threads: Some(5000), ..replicas(&["http://h"]) },
            "--threads 5000: threads: 5000 are too many",
        ),
        (Overrides::default(), "command line: there is no pool"),
    ] {
        let told = Config::from_text("command line", "", &overrides, &environment).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{expected}\n{told}");
    }
}

#[test]
fn addresses_and_threads_go_over_the_file() {
    let overrides = Overrides {
        listen: address("127.0.0.1:1"),
        admin: address("127.0.0.1:2"),
        threads: Some(3),
        ..Overrides::default()
    };
    let text = format!("[listen]\naddress = \"127.0.0.1:7\"\nthreads = 9\n{ONE_POOL}");
    let loaded = load(&text, &overrides).unwrap();
    let listen = &loaded.plan.listen;
    assert_eq!((listen.address.port(), loaded.admin.address.port(), listen.threads), (1, 2, 3));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let told = Config::load(Some("no/such.toml".as_ref()), &Overrides::default()).unwrap_err().to_string();
    assert!(told.starts_with("no/such.toml: the file cannot be read: "), "{told}");
}

#[test]
fn open_on_the_command_line_lets_everybody_in_as_in_the_file_and_not_beside_keys() {
    let overrides = Overrides { listen: address("0.0.0.0:80"), ..replicas(&["http://h"]) };
    let told = Config::from_text("command line", "", &overrides, &environment).unwrap_err().to_string();
    assert!(told.contains("start with --open"), "the way out is named: {told}");
    let overrides = Overrides { open: true, ..overrides };
    let loaded = Config::from_text("command line", "", &overrides, &environment).unwrap();
    assert!(loaded.warnings.iter().any(|warning| warning.contains("anybody who reaches it")));
    let hash = "0".repeat(64);
    let keys = format!("[[keys]]\nname = \"k\"\nhash = \"sha256:{hash}\"\n");
    let told = load(&keys, &overrides).unwrap_err();
    assert!(told.starts_with("--open: open = true lets everybody in, and [[keys]] does not\n"), "{told}");
}

#[test]
fn usage_on_the_command_line_goes_over_the_file() {
    for (flag, stdout, file) in [
        ("off", false, None),
        ("stdout", true, None),
        ("-", true, None),
        ("/var/log/u.jsonl", false, Some("/var/log/u.jsonl")),
        ("file:u.jsonl", false, Some("u.jsonl")),
        ("stdout.log", false, Some("stdout.log")),
    ] {
        let overrides = Overrides { usage: Some(flag.into()), ..Overrides::default() };
        let text = format!("[usage]\noutput = [\"stdout\", \"file:old\"]\n{ONE_POOL}");
        let usage = load(&text, &overrides).unwrap().usage;
        assert_eq!((usage.stdout, usage.file.as_deref()), (stdout, file.map(std::path::Path::new)), "{flag}");
    }
    let overrides = Overrides { usage: Some(String::new()), ..Overrides::default() };
    let told = load(ONE_POOL, &overrides).unwrap_err();
    assert!(told.starts_with("--usage : the path is empty"), "{told}");
}
