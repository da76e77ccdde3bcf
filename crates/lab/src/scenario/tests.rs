//! Reading, playing, judging; and that each scenario notices when its rule is off.

use super::*;
use std::path::Path;

fn scenario(file: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    read(file, &std::fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

fn failures(scenario: &Scenario, chooser: Chooser, off: Option<Rule>) -> Vec<Finding> {
    let seen = play(scenario, chooser, off, 1);
    judge(scenario, chooser, &seen).into_iter().filter(|finding| !finding.passed).collect()
}

#[test]
fn each_scenario_passes_and_fails_without_the_rule_it_is_about() {
    use Chooser::{Adaptive, Consistent, Predictive};
    for (file, chooser, rule) in [
        ("g03-heavy-request.toml", Adaptive, Rule::Load),
        ("g03-heavy-request.toml", Predictive, Rule::Load),
        ("g03-heavy-request.toml", Consistent, Rule::Weights),
        ("g04-engine-dead.toml", Adaptive, Rule::Probing),
        ("g04-recovery.toml", Adaptive, Rule::Probing),
        ("g05-failover-every-way.toml", Adaptive, Rule::Retries),
        ("g05-failover.toml", Adaptive, Rule::Retries),
        ("g06-flapping.toml", Predictive, Rule::Cooldown),
        ("g07-sticky.toml", Adaptive, Rule::Affinity),
        ("g07-sticky.toml", Predictive, Rule::Affinity),
        ("g07-sticky.toml", Consistent, Rule::Affinity),
        ("g08-sticky-yields-at-once.toml", Adaptive, Rule::Yielding),
        ("g10-pins-die.toml", Adaptive, Rule::PinLifetime),
        ("g11-no-wait.toml", Adaptive, Rule::Load),
        ("g15-poison-500.toml", Adaptive, Rule::PoisonGuard),
    ] {
        let scenario = scenario(file);
        let (with, without) = (failures(&scenario, chooser, None), failures(&scenario, chooser, Some(rule)));
        assert!(with.is_empty(), "{file} in {}: {with:?}", chooser.name());
        assert!(!without.is_empty(), "{file} in {} passes without {}", chooser.name(), rule.name());
    }
}

#[test]
fn the_flood_passes_the_other_key_where_keys_take_no_turns() {
    let mut scenario = scenario("g16-queue-fairness.toml");
    // A short flood shows as much.
    for (requests, count) in scenario.requests.iter_mut().zip([5_000, 10]) {
        requests.count = count;
    }
    assert_eq!(failures(&scenario, Chooser::Adaptive, None), []);
    let without = failures(&scenario, Chooser::Adaptive, Some(Rule::Fairness));
    assert!(without.iter().any(|finding| finding.what.contains("others")), "{without:?}");
}

#[test]
fn the_same_seed_measures_the_same() {
    let scenario = scenario("g05-failover.toml");
    let run = || judge(&scenario, Chooser::Predictive, &play(&scenario, Chooser::Predictive, None, 7));
    assert_eq!(run(), run());
}

#[test]
fn what_was_not_seen_has_not_passed() {
    let text = HEAD.to_owned() + "[[allowed]]\nmeasure = \"spread_of\"\nof = \"few\"\nmax = 9\n";
    let scenario = read("x", &text).unwrap();
    let seen = play(&scenario, Chooser::Adaptive, None, 1);
    let findings = judge(&scenario, Chooser::Adaptive, &seen);
    assert_eq!((findings[0].measured, findings[0].passed), (None, false));
    assert_eq!(findings[0].number(), "nothing seen");
}

const HEAD: &str =
    "id = \"X\"\npromise = \"p\"\nrun_for = \"10s\"\n[[requests]]\nname = \"few\"\nat = \"1m\"\ncount = 0\n";

#[test]
fn a_wrong_scenario_is_refused_with_its_place_and_a_way_out() {
    let allowed = "[[allowed]]\nmeasure = \"ejections\"\nmax = 0\n";
    for (text, parts) in [
        ("id = 1".to_owned(), vec!["line 1, column 6", "string"]),
        (format!("{HEAD}{allowed}of = \"many\"\n"), vec!["no traffic is named \"many\"", "few"]),
        (format!("{HEAD}{allowed}colour = 1\n"), vec!["line 11", "colour", "expected one of"]),
        (format!("{HEAD}[[allowed]]\nmeasure = \"ejectons\"\n"), vec!["line 9", "ejectons", "ejections"]),
        (format!("{HEAD}[[allowed]]\nmeasure = \"ejections\"\n"), vec!["allows everything", "min or max"]),
        (format!("{HEAD}[[allowed]]\nmeasure = \"pins_held\"\nmax = 0\n"), vec!["needs `at`"]),
        (HEAD.replace("10s", "8760h"), vec!["line 3", "\"8760h\" is too long: at most \"168h\""]),
        (
            format!("{HEAD}system_tokens = 4000000000\n{allowed}"),
            vec!["few.system_tokens: 4000000000 are too many"],
        ),
        (
            format!("{HEAD}prompt_tokens = [9, 3]\n{allowed}"),
            vec!["few.prompt_tokens: from 9 to 3 there is nothing"],
        ),
        (format!("{HEAD}leaving = nan\n{allowed}"), vec!["few.leaving: NaN is no part"]),
        (format!("{HEAD}answered_with = 0\n{allowed}"), vec!["few.answered_with: 0", "400 to 599"]),
        (format!("{HEAD}{allowed}min = 3\n"), vec!["allowed number 1 (ejections) allows nothing"]),
        (format!("{HEAD}{allowed}[fleet]\nslots = 0\n"), vec!["fleet.slots: 0"]),
        (format!("{HEAD}{allowed}[fleet]\nreplicas = 1025\n"), vec!["fleet.replicas: 1025 is too many"]),
        (HEAD.replace("10s", "10 parsecs"), vec!["line 3", "10 parsecs", "ms, s, m, h"]),
        (HEAD.to_owned(), vec!["it could not fail"]),
        (
            format!("{HEAD}{allowed}[[faults]]\nat = \"1s\"\nreplica = 4\nbecomes = \"dead\"\n"),
            vec!["no replica 4", "there are 4"],
        ),
        (
            format!("{HEAD}{allowed}[[faults]]\nat = \"1s\"\nreplica = 0\nbecomes = \"failing\"\n"),
            vec!["line 14, column 11", "no fault \"failing\"; there are status, reset", "sigterm, dead"],
        ),
        (
            format!("{HEAD}{allowed}[[faults]]\nat = \"1s\"\nreplica = 0\nbecomes = \"hang:seconds=5\"\n"),
            vec!["line 14", "`lasting`"],
        ),
    ] {
        let error = read("my.toml", &text).expect_err(&text).to_string();
        for part in parts.into_iter().chain(["my.toml: ", "hint: "]) {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }
}
