//! Goldens: the words in which mistakes are told.

use super::{findings, refused};

/// A pool that is in order, for files whose mistake is elsewhere.
const POOL: &str = r#"
[[pools]]
name = "a"
replicas = ["http://h:1", "http://h:2"]
"#;

#[track_caller]
fn golden(text: &str, expected: &str) {
    let told = refused(text);
    assert_eq!(told.trim_end(), expected.trim(), "told:\n{told}");
}

#[test]
fn text_that_is_no_toml_is_told_at_every_place() {
    golden(
        "[listen]\naddress = 127.0.0.1:80\nthreads =\n[admin\n",
        r#"
gate.toml:2:16: not TOML: invalid float
  2 | address = 127.0.0.1:80
    |                ^^^^^^^
  hint: texts, addresses, durations and sizes stand in quotes: "3s"

gate.toml:3:10: not TOML: the value is missing
  3 | threads =
    |          ^

gate.toml:4:7: not TOML: unclosed table, expected `]`
  4 | [admin
    |       ^

3 errors
"#,
    );
}

#[test]
fn an_unknown_key_comes_with_the_name_that_was_meant() {
    golden(
        &format!("[listen]\nadress = \"127.0.0.1:80\"{POOL}"),
        r#"
gate.toml:2:1: unknown key "adress" in [listen]
  2 | adress = "127.0.0.1:80"
    | ^^^^^^
  hint: did you mean "address"?

1 error
"#,
    );
}

#[test]
fn a_key_in_the_wrong_section_comes_with_its_home() {
    golden(
        &format!("{POOL}scrape_interval = \"1s\""),
        r#"
gate.toml:5:1: unknown key "scrape_interval" in [[pools]]
  5 | scrape_interval = "1s"
    | ^^^^^^^^^^^^^^^
  hint: "scrape_interval" belongs in [pools.health]

1 error
"#,
    );
}

#[test]
fn a_key_like_no_other_comes_with_the_known_ones() {
    golden(
        &format!("{POOL}[usage]\ncolour = 1"),
        r#"
gate.toml:6:1: unknown key "colour" in [usage]
  6 | colour = 1
    | ^^^^^^
  hint: known here: output, rotate, on_full

1 error
"#,
    );
}

#[test]
fn a_wrong_type_comes_with_the_right_one() {
    golden(
        &format!("[listen]\nthreads = \"two\"\nopen = 1\ndrain_timeout = 300\n{POOL}"),
        r#"
gate.toml:2:11: threads: expected a whole number, 0 or more, found text
  2 | threads = "two"
    |           ^^^^^
  hint: write digits, without quotes

gate.toml:3:8: open: expected true or false, found the integer 1
  3 | open = 1
    |        ^
  hint: write true or false, without quotes

gate.toml:4:17: drain_timeout: expected a duration, found the integer 300
  4 | drain_timeout = 300
    |                 ^^^
  hint: for example "3s"

3 errors
"#,
    );
}

#[test]
fn a_bad_duration_comes_with_good_ones() {
    golden(
        &format!("[listen]\nhead_timeout = \"10 sec\"\n{POOL}"),
        r#"
gate.toml:2:16: head_timeout: "10 sec" is not a duration
  2 | head_timeout = "10 sec"
    |                ^^^^^^^^
  hint: a whole number and a unit: "250ms", "3s", "10m" or "1h"

1 error
"#,
    );
}

#[test]
fn two_keys_that_collide_are_both_shown() {
    golden(
        r#"
[[pools]]
name = "a"
replicas = ["http://h:1"]
[pools.health]
cooldown = "10m"
cooldown_max = "1m"
"#,
        r#"
gate.toml:6:12: cooldown (10m) is longer than cooldown_max (60s)
  6 | cooldown = "10m"
    |            ^^^^^
  gate.toml:7:16: the other limit
  7 | cooldown_max = "1m"
    |                ^^^^
  hint: cooldown_max is the longest cooldown

1 error
"#,
    );
}

#[test]
fn a_part_of_a_later_version_is_refused_and_not_ignored() {
    golden(
        &format!("{POOL}[limits]\nstore = \"redis://r\""),
        r#"
gate.toml:6:9: store: redis:// is not supported yet in this version
  6 | store = "redis://r"
    |         ^^^^^^^^^^^
  hint: remove it

1 error
"#,
    );
}

#[test]
fn every_mistake_is_told_at_once_in_the_order_of_the_file() {
    let text = r#"
[listen]
half_close = "abortt"
max_body = "64MB"
[pools]
name = "a"
[[routes]]
aliases = "x"
[routes.retry]
on_status = [429, 500, "x"]
budget = 2
[usage]
output = ["off", "stdout"]
"#;
    assert_eq!(
        findings(text),
        [
            "3:14: half_close: unknown way to treat a half-closed client \"abortt\"",
            "4:12: max_body: \"64MB\" is not a size",
            "5:1: pools: expected a list of tables, found a table",
            "7:1: the key \"model\" is missing in [[routes]]",
            "7:1: the route has no target",
            "8:11: aliases: expected a list: a name, found text",
            "10:14: on_status: expected a status from 500 to 599, found the integer 429",
            "10:24: on_status: expected a status from 500 to 599, found text",
            "11:10: budget: 2 is more than one retry per request",
            "13:18: output: both on and off",
        ]
    );
}

#[test]
fn contradictions_are_refused_with_their_places() {
    let route = "[[routes]]\nmodel = \"m\"\n[[routes.targets]]\npool = \"a\"\n";
    for (text, expected) in [
        ("[listen]\naddress = \"0.0.0.0:80\"".to_owned(), "is not a loopback address, and no client key"),
        ("[admin]\naddress = \"10.0.0.1:80\"".into(), "10.0.0.1:80 is not a loopback address, and the admin"),
        ("[admin]\naddress = \"127.0.0.1:8080\"".into(), "share an address"),
        ("[listen]\naddress = \"127.0.0.1:9090\"".into(), "share an address"),
        ("[listen]\nthreads = 5000".into(), "threads: 5000 are too many"),
        ("[listen]\nhead_timeout = \"0s\"".into(), "head_timeout: zero makes no sense here"),
        ("[listen]\nmax_body = \"0MiB\"".into(), "max_body: zero makes no sense here"),
        ("[listen]\ntotal = \"9000h\"".into(), "unknown key \"total\""),
        ("[listen]\ndrain_timeout = \"9000h\"".into(), "longer than a year"),
        (route.replace("\"a\"", "\"b\""), "there is no pool \"b\""),
        (route.replace("[[routes.targets]]\npool = \"a\"\n", ""), "the route has no target"),
        (format!("{route}{route}"), "\"m\" names two routes"),
        (route.replace("[[routes.t", "aliases = [\"x\", \"x\"]\n[[routes.t"), "\"x\" names two routes"),
        (route.replace("\"m\"", "\"*\""), "\"*\" stands for every route"),
        (format!("{route}[routes.retry]\nattempts = 0"), "attempts: expected a whole number, 1 or more"),
        ("[[pools]]\nname = \"a\"\nreplicas = [\"http://z\"]".into(), "a second pool named \"a\""),
        ("[[pools]]\nname = \"b\"\nreplicas = []".into(), "the pool has no replica"),
        ("[[pools]]\nname = \"b\"".into(), "the pool has no replica"),
        ("[[pools]]\nname = \"b\"\nreplicas = [\"http://z/\", \"HTTP://Z:80\"]".into(), "is named twice"),
        ("[[pools]]\nname = \"b\"\nreplicas = [\"z:80\"]".into(), "starts with http://"),
        ("[[pools]]\nname = \"b\"\nreplicas = [\"http://z\"]".into(), "each model needs a route"),
        ("[pools.health]\neject_after_5xx = 0".into(), "eject_after_5xx: expected a whole number, 1 or more"),
        ("[pools.affinity]\nmax_pins = -1".into(), "found the integer -1"),
        ("[usage]\noutput = [\"stdout\", \"stdout\"]".into(), "a second one of the same kind"),
        ("[usage]\noutput = []".into(), "the list is empty"),
        (format!("{route}[routes.retry]\nbudget = nan"), "budget: expected a number, 0 or more"),
        (route.replace("model = \"m\"", "model = \" \""), "begins or ends with white space"),
        (
            format!("{}session_keys = [\"cookie:x\"]", &route[..route.find("[[routes.t").unwrap()]),
            "\"cookie:x\"",
        ),
    ] {
        let text = format!("{POOL}{text}\n");
        let found = findings(&text);
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:#?}\n{text}");
    }
}

#[test]
fn a_value_that_cannot_be_read_is_not_judged_any_further() {
    let text = r#"
[[pools]]
name = 5
replicas = ["nowhere"]
[pools.health]
cooldown = "1h"
cooldown_max = "long"
[[routes]]
model = "m"
[[routes.targets]]
pool = "a"
"#;
    assert_eq!(
        findings(text),
        [
            "3:8: name: expected a name, found the integer 5",
            "4:13: replicas: a replica URL starts with http:// or https:// (for example http://10.0.0.11:8000)",
            "7:16: cooldown_max: \"long\" is not a duration",
        ]
    );
}

#[test]
fn a_file_without_pools_says_what_to_add() {
    golden(
        "[listen]\nthreads = 1\n",
        r#"
gate.toml: there is no pool, so there is nowhere to send requests to
  hint: add [[pools]] with name = ... and replicas = [...], or start with --replica URL

1 error
"#,
    );
}

#[test]
fn columns_count_characters_and_odd_ones_do_not_shift_the_caret() {
    golden(
        &format!("gateway_id = \"büro\"\n[admin]\n\t\"tökens\" = \"\"\n{POOL}"),
        "
gate.toml:3:2: unknown key \"tökens\" in [admin]
  3 |  \"tökens\" = \"\"
    |  ^^^^^^^^
  hint: did you mean \"token\"?

1 error
",
    );
}
