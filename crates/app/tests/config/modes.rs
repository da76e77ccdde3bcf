//! Targets, weights, policies and the fallback: what they add up to, and each way in which they contradict each other.

use std::time::Duration;

use sluicegate_core::{Policies, Policy, Shares};
use sluicegate_proxy::plan::{FallbackPlan, RouteMode, RoutePlan, RoutesPlan, SessionSource, StatusClass};

use super::{findings, good, refused};

const POOLS: &str = "[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\", \"http://h:2\"]\n[[pools]]\nname = \"b\"\n\
                     replicas = [\"http://h:3\", \"http://h:4\"]\n[[routes]]\nmodel = \"m\"\n";
/// The first line behind `POOLS`.
const LINE: usize = 9;

fn with(route: &str) -> String {
    format!("{POOLS}{route}\n")
}

fn route(text: &str) -> RoutePlan {
    let RoutesPlan::Fixed(mut routes) = good(&with(text)).plan.routes else { panic!("routes of the file") };
    routes.remove(0)
}

#[test]
fn the_mode_follows_from_what_the_route_has() {
    let (two, weighted) = (
        "targets = [{ pool = \"a\" }, { pool = \"b\" }]",
        "targets = [{ pool = \"a\", weight = 1 }, { pool = \"b\", weight = 3 }]",
    );
    let policies = "policies = [{ kind = \"session_affinity\" }, { kind = \"least_inflight\", weight = 2 }]";
    let shares = RouteMode::Weighted(Shares::new(vec![1, 3]).unwrap());
    let scores = RouteMode::Policy(
        Policies::new(vec![(Policy::SessionAffinity, 1.0), (Policy::LeastInflight, 2.0)]).unwrap(),
    );
    for (text, expected) in [
        (two.to_owned(), RouteMode::Predictive { hold: None }),
        (format!("mode = \"adaptive\"\n{two}"), RouteMode::Adaptive),
        (format!("mode = \"round_robin\"\n{two}"), RouteMode::RoundRobin),
        (weighted.to_owned(), shares.clone()),
        (format!("mode = \"weighted\"\n{weighted}"), shares),
        (format!("{two}\n{policies}"), scores.clone()),
        (format!("mode = \"policy\"\n{two}\n{policies}"), scores),
    ] {
        let route = route(&text);
        assert_eq!(route.mode, expected, "{text}");
        assert_eq!(route.targets.iter().map(|target| target.pool).collect::<Vec<_>>(), [0, 1], "{text}");
    }
}

#[test]
fn by_itself_a_route_predicts_unless_its_first_pool_keeps_sessions_otherwise() {
    let adaptive = "mode = \"adaptive\"\n";
    for (of_a, of_b, of_route, expected) in [
        ("", "", "", RouteMode::Predictive { hold: None }),
        ("load_source = \"engine\"\n", "", "", RouteMode::Predictive { hold: None }),
        ("engine = \"openai\"\n", "", "", RouteMode::Predictive { hold: None }),
        ("affinity = { mode = \"pins\", session_slack = 2 }\n", "", "", RouteMode::Predictive { hold: None }),
        ("affinity = { mode = \"consistent\" }\n", "", "", RouteMode::Adaptive),
        ("affinity = { mode = \"off\" }\n", "", "", RouteMode::Adaptive),
        ("", "affinity = { mode = \"consistent\" }\n", "", RouteMode::Predictive { hold: None }),
        (
            "affinity = { mode = \"off\" }\n",
            "",
            "mode = \"predictive\"\n",
            RouteMode::Predictive { hold: None },
        ),
        ("", "", adaptive, RouteMode::Adaptive),
    ] {
        let text = with(&format!("{of_route}targets = [{{ pool = \"a\" }}, {{ pool = \"b\" }}]"))
            .replace("name = \"a\"\n", &format!("name = \"a\"\n{of_a}"))
            .replace("name = \"b\"\n", &format!("name = \"b\"\n{of_b}"));
        let loaded = good(&text);
        let RoutesPlan::Fixed(routes) = &loaded.plan.routes else { panic!("routes of the file") };
        assert_eq!(routes[0].mode, expected, "{text}");
        let learns = expected == RouteMode::Predictive { hold: None };
        assert!(loaded.plan.pools.iter().all(|pool| pool.settings.predict == learns), "{text}");
        let told = format!("route    m, mode {}, by ", expected.as_str());
        assert!(loaded.summary().contains(&told), "{}", loaded.summary());
    }
    let whole =
        good("[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\"]\naffinity = { mode = \"consistent\" }\n");
    let RoutesPlan::AskEngines(template) = &whole.plan.routes else { panic!("no routes in the file") };
    assert_eq!(template.mode, RouteMode::Adaptive);
    let told = "routes   every model that the replicas serve, mode adaptive, by load and warm caches\n";
    assert!(whole.summary().contains(told), "{}", whole.summary());
}

#[test]
fn keys_of_affinity_that_no_route_goes_by_are_warned_of() {
    let of_pool = "affinity = { session_slack = 2, prefix_slack = 1, force_rebind_gap = 5 }\n";
    let text = |of_route: &str| with(of_route).replace("name = \"a\"\n", &format!("name = \"a\"\n{of_pool}"));
    let why = "does nothing: no route to the pool is in mode \"adaptive\" or \"weighted\"";
    for (of_route, warned) in [
        ("targets = [{ pool = \"a\" }]", true),
        ("mode = \"round_robin\"\ntargets = [{ pool = \"a\" }]", true),
        ("mode = \"adaptive\"\ntargets = [{ pool = \"a\" }]", false),
        ("targets = [{ pool = \"a\", weight = 1 }]", false),
        ("targets = [{ pool = \"b\" }]\nfallback = { pool = \"a\" }", false),
        ("targets = [{ pool = \"b\" }]", false),
    ] {
        let warnings = good(&text(of_route)).warnings;
        let told: Vec<&str> = warnings.iter().filter(|line| line.contains(why)).map(|line| &**line).collect();
        let expected =
            ["affinity.prefix_slack", "affinity.force_rebind_gap"].map(|key| format!(" {key} {why}"));
        let expected: Vec<_> = expected.into_iter().filter(|_| warned).collect();
        let told: Vec<_> = told.iter().filter_map(|line| line.splitn(4, ':').nth(3)).collect();
        assert_eq!(told, expected, "{of_route}");
    }
}

#[test]
fn two_models_of_one_pool_are_two_targets() {
    let route = route(
        "targets = [{ pool = \"a\", upstream_model = \"x\" }, { pool = \"a\", upstream_model = \"y\" }, { pool = \"a\" }]",
    );
    let models: Vec<_> = route.targets.iter().map(|target| target.upstream_model.as_deref()).collect();
    assert_eq!(models, [Some("x"), Some("y"), None]);
}

#[test]
fn a_fallback_is_what_the_file_says() {
    let fallback = |text: &str| route(&format!("targets = [{{ pool = \"a\" }}]\n{text}")).fallback;
    assert_eq!(fallback(""), None);
    let FallbackPlan { target, on } =
        fallback("fallback = { pool = \"b\", upstream_model = \"x\" }").unwrap();
    assert_eq!((target.pool, target.upstream_model.as_deref()), (1, Some("x")));
    assert_eq!(on, [StatusClass::Server], "the default");
    let both = fallback("fallback = { pool = \"b\", on = [\"4xx\", \"5xx\"] }").unwrap();
    assert_eq!(both.on, [StatusClass::Client, StatusClass::Server]);
    assert_eq!(fallback("fallback = { pool = \"b\", on = [] }").unwrap().on, []);
}

#[test]
fn session_keys_of_mode_policy_are_its_own_unless_the_route_names_some() {
    let policy = "targets = [{ pool = \"a\" }]\npolicies = [{ kind = \"session_affinity\" }, { kind = \"queue_depth\" }]";
    let expected = [
        SessionSource::Header("session-id".into()),
        SessionSource::Header("x-client-request-id".into()),
        SessionSource::BodyOfTalks("prompt_cache_key".into()),
    ];
    assert_eq!(route(policy).session_keys, expected);
    let own = route(&format!("{policy}\nsession_keys = [\"body:prompt_cache_key\"]"));
    assert_eq!(own.session_keys, [SessionSource::Body("prompt_cache_key".into())]);
}

/// A route, what is said of it at which line behind its pools, and how to mend it.
const CONTRADICTIONS: [(&str, &str, &str); 20] = [
    (
        "targets = [{ pool = \"a\", weight = 1 }, { pool = \"b\" }]",
        "0: route \"m\": a target without a weight beside ones that have it",
        "give each target a weight; 0 takes no new requests",
    ),
    (
        "TWO\nAFFINITY",
        "1: route \"m\": weights and policies together",
        "shares are kept, or scores are: leave one of them out",
    ),
    (
        "targets = [{ pool = \"a\", weight = 0 }, { pool = \"b\", weight = 0 }]",
        "0: route \"m\": every weight is 0, so nothing goes anywhere",
        "give at least one target a weight above 0",
    ),
    (
        "mode = \"weighted\"\nONE",
        "0: route \"m\": mode \"weighted\", and no target has a weight",
        "add weight = ... to each target",
    ),
    (
        "mode = \"policy\"\nONE",
        "0: route \"m\": mode \"policy\" needs at least one policy",
        "add [[routes.policies]] with kind = \"session_affinity\" or another below it",
    ),
    (
        "ONE\npolicies = []",
        "1: route \"m\": mode \"policy\" needs at least one policy",
        "add [[routes.policies]] with kind = \"session_affinity\" or another below it",
    ),
    (
        "mode = \"policy\"\nTWO",
        "1: route \"m\": mode \"policy\" knows no weights of targets",
        "leave them out, or write mode = \"weighted\"",
    ),
    (
        "mode = \"adaptive\"\nTWO",
        "1: route \"m\": mode \"adaptive\" knows no weights",
        "leave them out, or write mode = \"weighted\"",
    ),
    (
        "mode = \"round_robin\"\nONE\nAFFINITY",
        "2: route \"m\": mode \"round_robin\" knows no policies",
        "leave them out, or write mode = \"policy\"",
    ),
    (
        "ONE\npolicies = [{ kind = \"least_inflight\", weight = 0 }]",
        "1: route \"m\": every policy has the weight 0",
        "give at least one a weight above 0",
    ),
    (
        "ONE\npolicies = [{ kind = \"least_inflight\" }, { kind = \"least_inflight\" }]",
        "1: the same policy twice",
        "leave one of them out and add their weights up",
    ),
    (
        "targets = [{ pool = \"a\" }, { pool = \"a\" }]",
        "0: the same target twice",
        "leave one of them out; one weight is a target's whole share",
    ),
    (
        "mode = \"adaptive\"\nONE\nhold = \"100ms\"",
        "2: \"hold\" means nothing in mode \"adaptive\"",
        "leave it out, or write mode = \"predictive\"",
    ),
    (
        "TWO\nhold = \"100ms\"",
        "1: \"hold\" means nothing in mode \"weighted\"",
        "leave it out, or write mode = \"predictive\"",
    ),
    (
        "mode = \"predictive\"\nONE\nhold = \"11s\"",
        "2: hold: \"11s\" is out of range",
        "from \"1ms\" to \"10s\"; \"100ms\" is a good one to begin with",
    ),
    (
        "mode = \"predictive\"\nONE\nhold = \"0s\"",
        "2: hold: zero makes no sense here",
        "any duration from \"1ms\" on",
    ),
    ("targets = [{ pool = \"c\" }]", "0: there is no pool \"c\"", "pools of this file: \"a\", \"b\""),
    ("ONE\nfallback = { pool = \"c\" }", "1: there is no pool \"c\"", "pools of this file: \"a\", \"b\""),
    (
        "ONE\nfallback = { pool = \"a\" }",
        "1: the fallback is a target, too",
        "a fallback is asked only when no target can serve: name another pool or model",
    ),
    (
        "ONE\nfallback = { pool = \"b\", on = [\"503\"] }",
        "1: on: unknown class of statuses \"503\"",
        "known: \"5xx\", \"4xx\"",
    ),
];

#[test]
fn hold_is_known_in_mode_predictive_where_it_gives_the_queue_somebody_to_wait() {
    let text = "targets = [{ pool = \"a\" }]";
    assert_eq!(route(text).mode, RouteMode::Predictive { hold: None });
    let queue = "queue = { max_wait = \"5s\" }";
    let warned = |text: String| good(&with(&text)).warnings.iter().any(|w| w.contains("nobody waits"));
    assert!(warned(format!("{text}\n{queue}")));
    for (hold, millis) in [("1ms", 1), ("250ms", 250), ("10s", 10_000)] {
        let text = format!("{text}\nhold = \"{hold}\"");
        let hold = Some(Duration::from_millis(millis));
        assert_eq!(route(&text).mode, RouteMode::Predictive { hold }, "{text}");
        assert!(!warned(format!("{text}\n{queue}")), "{text}");
    }
}

/// The known ones are named without a list of them here: a new policy is no business of this test.
#[test]
fn a_policy_that_is_not_known_is_told_with_the_nearest_and_all_others() {
    let text = "targets = [{ pool = \"a\" }]\npolicies = [{ kind = \"sesion_affinity\" }]";
    let whole = refused(&with(text));
    assert!(whole.contains("kind: unknown policy \"sesion_affinity\""), "{whole}");
    assert!(
        whole.contains("  hint: did you mean \"session_affinity\"? Known: \"session_affinity\", "),
        "{whole}"
    );
}

#[test]
fn each_contradiction_is_told_with_its_place_and_a_way_out() {
    for (text, finding, hint) in CONTRADICTIONS {
        let text = text
            .replace("ONE", "targets = [{ pool = \"a\" }]")
            .replace("TWO", "targets = [{ pool = \"a\", weight = 1 }, { pool = \"b\", weight = 2 }]")
            .replace("AFFINITY", "policies = [{ kind = \"session_affinity\" }]");
        let (line, what) = finding.split_once(": ").expect("line and finding");
        let line = LINE + line.parse::<usize>().expect("a number");
        let found = findings(&with(&text));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        let (place, told) = found[0].split_once(": ").expect("place and finding");
        assert_eq!((place.split(':').next(), told), (Some(&*line.to_string()), what), "{text}");
        let whole = refused(&with(&text));
        assert!(whole.contains(&format!("  hint: {hint}\n")), "{text}: {whole}");
    }
}

#[test]
fn a_check_warns_where_no_load_can_move_a_session() {
    let warned = |affinity: f64, load: f64, more: &str| {
        let policies = format!(
            "policies = [{{ kind = \"session_affinity\", weight = {affinity:?} }}, {{ kind = \"least_inflight\", weight = \
             {load:?} }}{more}]"
        );
        let text = with(&format!("targets = [{{ pool = \"a\" }}, {{ pool = \"b\" }}]\n{policies}"));
        good(&text).warnings.iter().any(|warning| warning.contains("a session never leaves its replica"))
    };
    // Four replicas: (4 - 1) * 0.25 / (1 - 2^-4) = 0.8.
    for (affinity, load, more, expected) in [
        (1.0, 1.0, "", false),
        (1.0, 0.81, "", false),
        (1.0, 0.8, "", true),
        (2.0, 1.5, "", true),
        (0.0, 1.0, "", false),
        (1.0, 0.5, ", { kind = \"queue_depth\" }", false),
    ] {
        assert_eq!(warned(affinity, load, more), expected, "{load} to {affinity}{more}");
    }
}

#[test]
fn pools_that_differ_in_affinity_are_warned_of() {
    let text = with("targets = [{ pool = \"a\" }, { pool = \"b\" }]");
    let other = text.replace("name = \"b\"\n", "name = \"b\"\naffinity = { mode = \"consistent\" }\n");
    let expected = "the targets' pools differ in affinity, that of \"a\" counts for this route";
    let warned = |text: &str| good(text).warnings.iter().any(|warning| warning.ends_with(expected));
    assert_eq!((warned(&text), warned(&other)), (false, true));
}
