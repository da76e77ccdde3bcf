//! Keys: what they mean, and the words in which mistakes with them are told.

use sluicegate_core::{KeyLimits, Micros};
use sluicegate_proxy::plan::{AllowedRoutes, KeyPlan, KeysPlan};

use super::{findings, good, refused};

const GATE: &str = r#"[[pools]]
name = "a"
replicas = ["http://h:1", "http://h:2"]
[[routes]]
model = "qwen3"
aliases = ["default", "gpt-4o"]
targets = [{ pool = "a" }]
[[routes]]
model = "bge"
targets = [{ pool = "a" }]
"#;

const HASH: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// A file with one key, `lines` in it.
fn with(lines: &str) -> String {
    format!("{GATE}[[keys]]\nname = \"k\"\nhash = \"{HASH}\"\n{lines}\n")
}

#[track_caller]
fn keys(text: &str) -> Vec<KeyPlan> {
    match good(text).plan.keys {
        KeysPlan::Named(keys) => keys,
        KeysPlan::Open => panic!("open:\n{text}"),
    }
}

fn only(routes: &AllowedRoutes) -> Vec<String> {
    match routes {
        AllowedRoutes::All => vec!["all".into()],
        AllowedRoutes::Only(names) => names.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn golden(text: &str, expected: &str) {
    let told = refused(text);
    assert_eq!(told.trim_end(), expected.trim(), "told:\n{told}");
}

#[test]
fn without_keys_the_gateway_is_open() {
    assert!(matches!(good(GATE).plan.keys, KeysPlan::Open));
}

#[test]
fn a_key_with_nothing_but_name_and_hash_may_use_everything() {
    let key = &keys(&with(""))[0];
    assert_eq!((&*key.name, key.project.as_deref(), key.priority), ("k", None, 0));
    assert_eq!((key.hash.0[0], key.hash.0[31], only(&key.routes)), (0x9f, 0x08, vec!["all".to_owned()]));
    assert_eq!(key.limits, KeyLimits::default());
}

#[test]
fn a_key_is_what_the_file_says() {
    let text = with(
        "project = \"lab\"\npriority = -3\nmax_concurrent = 1\nrequests_per_minute = 2\ntokens_per_minute = 3\n\
         tokens_per_day = 4\ntokens_per_month = 9_000_000_000\ncost_per_day = 0.29\ncost_per_month = 12",
    );
    let key = &keys(&text)[0];
    assert_eq!((key.project.as_deref(), key.priority), (Some("lab"), -3));
    let limits = KeyLimits {
        max_concurrent: Some(1),
        requests_per_minute: Some(2),
        tokens_per_minute: Some(3),
        tokens_per_day: Some(4),
        tokens_per_month: Some(9_000_000_000),
        cost_per_day: Some(Micros(290_000)),
        cost_per_month: Some(Micros(12_000_000)),
    };
    assert_eq!(key.limits, limits);
}

#[test]
fn routes_of_a_key_are_those_that_their_names_and_aliases_stand_for() {
    for (routes, expected) in [
        ("[\"*\"]", vec!["all"]),
        ("[\"qwen3\"]", vec!["qwen3"]),
        ("[\"bge\", \"gpt-4o\"]", vec!["bge", "qwen3"]),
        ("[\"default\", \"qwen3\", \"gpt-4o\"]", vec!["qwen3"]),
        ("[]", vec![]),
    ] {
        assert_eq!(only(&keys(&with(&format!("routes = {routes}")))[0].routes), expected, "{routes}");
    }
}

#[test]
fn where_the_engines_are_asked_a_key_may_name_any_model() {
    let text = with("routes = [\"Some/Model\"]").replace(&GATE[GATE.find("[[routes").unwrap()..], "");
    assert_eq!(only(&keys(&text)[0].routes), ["Some/Model"]);
}

#[test]
fn keys_open_a_listener_that_others_reach() {
    let text = format!("[listen]\naddress = \"0.0.0.0:80\"\n{}", with(""));
    assert_eq!(good(&text).warnings, [""; 0]);
}

#[test]
fn keys_and_an_open_gateway_contradict_each_other() {
    golden(
        &format!("[listen]\nopen = true\n{}", with("")),
        r#"
gate.toml:2:8: open = true lets everybody in, and [[keys]] does not
  2 | open = true
    |        ^^^^
  gate.toml:13:1: the first key
  13 | [[keys]]
     | ^^^^^^^^
  hint: leave open out; without it only who has a key may use the gateway

1 error
"#,
    );
}

#[test]
fn a_key_in_place_of_its_hash_is_told_and_not_shown() {
    golden(
        &with("").replace(HASH, "sk-live-0123"),
        r#"
gate.toml:13:8: hash: this looks like the key itself, which does not stand in the file
  13 | hash = **************
     |        ^^^^^^^^^^^^^^
  hint: run `sluicegate key hash` and write what it prints: "sha256:" and 64 hex digits

1 error
"#,
    );
}

#[test]
fn no_mistake_shows_what_stands_in_the_place_of_a_hash() {
    for text in [
        with("").replace(HASH, "sk-live-0123"),
        with("").replace(HASH, "sha256:sk-live-0123"),
        with("").replace(&format!("\"{HASH}\""), "[\"sk-live-0123\"]"),
        with("").replace(&format!("\"{HASH}\""), "sk-live-0123"),
        with("").replace(&format!("\"{HASH}\""), "\"sk-live-0123"),
        with("").replace(&format!("\"{HASH}\""), "1230123"),
        with("").replace(&format!("\"{HASH}\""), "123.0123"),
        with("keyhash = 1").replace(HASH, "sk-live-0123"),
        format!("{GATE}keys = [{{ name = \"k\", hash = \"sk-live-0123\" }}]\n"),
        format!("{GATE}keys = [{{ name = \"k\", hash = \"sk-live-0123\" }}\n"),
    ] {
        let told = refused(&text);
        assert!(!told.contains("0123"), "{told}");
    }
}

#[test]
fn a_limit_in_tokens_is_no_secret() {
    let told = refused(&with("tokens_per_minute = 20_"));
    assert!(told.contains("14 | tokens_per_minute = 20_\n"), "{told}");
}

#[test]
fn a_hash_that_is_none_says_what_is_wrong_with_it() {
    let digits = &HASH["sha256:".len()..];
    let nothing = "sha256:E3B0C44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (hash, expected) in [
        (String::new(), "hash: the hash is empty"),
        (digits.to_owned(), "hash: \"sha256:\" is missing in front of the 64 hex digits"),
        (format!("SHA512:{digits}"), "hash: only SHA-256 hashes of keys are known here"),
        (format!("{HASH}0"), "hash: 65 hex digits where 64 belong"),
        ("sha256:".to_owned(), "hash: 0 hex digits where 64 belong"),
        (
            "sha256:sk-123".to_owned(),
            "hash: what follows \"sha256:\" is no hex number; it looks like the key",
        ),
        (nothing.to_owned(), "hash: this is the hash of an empty key"),
        (format!("$2b$12$:{digits}"), "hash: this looks like the key itself"),
    ] {
        let found = findings(&with("").replace(HASH, &hash));
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}

#[test]
fn a_hash_may_be_written_in_upper_case() {
    let upper = HASH.to_uppercase().replace("SHA256", "sha256");
    assert_eq!(keys(&with("").replace(HASH, &upper))[0].hash, keys(&with(""))[0].hash);
}

#[test]
fn mistakes_with_keys_are_told_with_their_places() {
    let second = |name: &str, hash: &str| format!("[[keys]]\nname = \"{name}\"\nhash = \"{hash}\"");
    let other = HASH.replace("9f", "00");
    let no_zero = "expected a whole number, 1 or more, found the integer 0";
    for (lines, expected) in [
        (second("k", &other), "15:8: a second key named \"k\"".to_owned()),
        (second("l", HASH), "16:8: two entries for the same key".into()),
        (second("-", &other), "15:8: name: \"-\" stands for requests without a key".into()),
        ("[[keys]]\nname = \"l\"".into(), "14:1: the key \"hash\" is missing in [[keys]]".into()),
        ("routes = [\"qwen\"]".into(), "14:11: routes: there is no route \"qwen\"".into()),
        ("routes = [\"*\", \"bge\"]".into(), "14:16: routes: both every route and \"bge\"".into()),
        ("max_concurrent = 0".into(), format!("14:18: max_concurrent: {no_zero}")),
        ("requests_per_minute = 0".into(), format!("14:23: requests_per_minute: {no_zero}")),
        ("tokens_per_day = -1".into(), "14:18: tokens_per_day: expected a whole number, 1 or more".into()),
        ("tokens_per_month = \"9\"".into(), "14:20: tokens_per_month: expected a whole number".into()),
        ("cost_per_day = 0.0".into(), "14:16: cost_per_day: expected an amount above 0, found".into()),
        ("cost_per_month = 0.0000001".into(), "14:18: cost_per_month: 0.0000001 is finer than a".into()),
        ("cost_per_month = 1e30".into(), "14:18: cost_per_month: 1e30 is too large".into()),
        ("cost_per_month = -1".into(), "14:18: cost_per_month: expected an amount above 0".into()),
        ("cost_per_month = nan".into(), "14:18: cost_per_month: expected an amount above 0".into()),
        ("priority = 1.5".into(), "14:12: priority: expected a whole number, found the number 1.5".into()),
        ("priority = 3000000000".into(), "14:12: priority: expected a whole number".into()),
    ] {
        let found = findings(&with(&lines));
        assert!(found[0].starts_with(&expected), "{expected}: {found:#?}");
    }
}

#[test]
fn a_mistyped_route_comes_with_the_one_that_was_meant() {
    for (name, hint) in [
        ("defualt", "did you mean \"default\"?"),
        ("zzz", "routes of this file: \"qwen3\", \"default\", \"gpt-4o\", \"bge\"; or \"*\" for every one"),
    ] {
        let told = refused(&with(&format!("routes = [\"{name}\"]")));
        assert!(told.contains(&format!("  hint: {hint}\n")), "{told}");
    }
}

#[test]
fn a_zero_limit_says_how_to_have_none_and_how_to_lock_out() {
    let told = refused(&with("tokens_per_day = 0"));
    let hint =
        "hint: leave tokens_per_day out for no limit, or the whole [[keys]] entry out to shut its holder out";
    assert!(told.contains(hint), "{told}");
}

#[test]
fn an_empty_list_of_keys_is_refused() {
    let found = findings(&format!("keys = []\n{GATE}"));
    assert_eq!(found, ["1:8: keys: the list is empty"]);
}

#[test]
fn settings_of_a_key_that_do_nothing_are_warned_of() {
    for (lines, expected) in [
        ("routes = []", "14:10: key \"k\": the list of routes is empty, so it may use none"),
        ("priority = 1", "14:12: key \"k\": priority does nothing, no pool has slots and so nobody waits"),
        ("cost_per_day = 1", "14:16: key \"k\": this is never used up, none of its routes has a price"),
        (
            "tokens_per_day = 9\ntokens_per_month = 8",
            "14:18: key \"k\": this is above the limit of a longer time",
        ),
        ("tokens_per_minute = 9\ntokens_per_day = 9", ""),
    ] {
        let warnings = good(&with(lines)).warnings;
        let expected: Vec<String> =
            [expected].iter().filter(|e| !e.is_empty()).map(|e| format!("gate.toml:{e}")).collect();
        assert_eq!(warnings, expected, "{lines}");
    }
}

#[test]
fn a_summary_shows_keys_and_never_their_hashes() {
    let summary = good(&with("routes = [\"default\"]\nmax_concurrent = 2")).summary();
    assert!(summary.contains("key      k: qwen3\n           at most 2 at once\n"), "{summary}");
    assert!(!summary.contains("9f86"), "{summary}");
}
