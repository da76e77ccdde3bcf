use super::*;
use sluicegate_lab::client::Outcome;
use sluicegate_lab::load::Goodput;

fn config(goodput: &str) -> LoadConfig {
    LoadConfig {
        requests: Some(4),
        ignore_eos: false,
        tokens_per_word: 1.5,
        goodput: goodput.parse().unwrap_or(Goodput::default()),
        ..LoadConfig::one_by_one("http://h".into(), "m".into())
    }
}

fn report() -> Report {
    let ms = Duration::from_millis;
    let times = LatencySummary {
        count: 3,
        min: ms(1),
        mean: ms(2),
        p50: ms(2),
        p90: ms(3),
        p95: ms(3),
        p99: ms(4),
        max: ms(1234),
    };
    Report {
        duration: ms(2000),
        sent: 4,
        ended: [(Outcome::Ok, 3), (Outcome::Status(503), 1)].into(),
        good: 2,
        prompt_tokens: 1000,
        cached_tokens: 250,
        output_tokens: 60,
        ttft: times,
        ttft_from_send: times,
        itl: times,
        tpot: times,
        e2e: times,
        lag: LatencySummary::default(),
    }
}

#[test]
fn the_table_tells_ends_rates_tokens_and_times() {
    let expected = "\
requests    4 in 2.0 s: 3 ok, 1 status 503
per second  1.50 requests, 30.0 output tokens, 500.0 prompt tokens
tokens      1,000 prompt, 250 of them cached (25.0 %); 60 output
good        2 (50.0 %), 1.00 per second

ms                 mean        p50        p90        p95        p99        max
ttft               2.00       2.00       3.00       3.00       4.00    1234.00
itl                2.00       2.00       3.00       3.00       4.00    1234.00
tpot               2.00       2.00       3.00       3.00       4.00    1234.00
e2e                2.00       2.00       3.00       3.00       4.00    1234.00
ttft sent          2.00       2.00       3.00       3.00       4.00    1234.00
sent late          0.00       0.00       0.00       0.00       0.00       0.00
";
    let shown = table(&config("ttft:1s"), &report());
    let shown: String = shown.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    assert_eq!(shown, expected);
    assert!(!table(&config(""), &report()).contains("good"));
}

#[test]
fn the_numbers_of_the_json_are_those_of_the_table() {
    let (config, report) = (config("ttft:1s"), report());
    let table = table(&config, &report);
    let object: Value = serde_json::from_str(&json(&config, &report)).unwrap();
    let line =
        |name: &str| table.lines().find(|line| line.starts_with(&format!("{name:<12}"))).unwrap().to_owned();
    let shown = |name: &str, decimals: usize| format!("{:.decimals$}", object[name].as_f64().unwrap());
    let whole = |name: &str| with_commas(object[name].as_u64().unwrap());
    let contain = |name: &str, parts: &[String]| {
        let line = line(name);
        parts.iter().for_each(|part| assert!(line.contains(part.as_str()), "{part}: {line}"));
    };
    contain(
        "requests",
        &[
            format!("{} in {} s", whole("requests"), shown("seconds", 1)),
            format!("{} ok", whole("ok")),
            format!("{} status 503", with_commas(object["failures"]["status 503"].as_u64().unwrap())),
        ],
    );
    contain(
        "per second",
        &[
            format!("{} requests", shown("requests_per_second", 2)),
            format!("{} output tokens", shown("output_tokens_per_second", 1)),
            format!("{} prompt tokens", shown("prompt_tokens_per_second", 1)),
        ],
    );
    contain(
        "tokens",
        &[
            format!("{} prompt", whole("prompt_tokens")),
            format!("{} of them cached", whole("cached_tokens")),
            format!("{} output", whole("output_tokens")),
        ],
    );
    contain("good", &[whole("good"), format!("{} per second", shown("good_per_second", 2))]);
    let headings: Vec<String> = line("ms").split_whitespace().skip(1).map(str::to_owned).collect();
    for name in ["ttft", "itl", "tpot", "e2e", "ttft sent", "sent late"] {
        let times = &object[format!("{}_ms", name.replace(' ', "_"))];
        let expected: Vec<String> =
            headings.iter().map(|heading| format!("{:.2}", times[heading].as_f64().unwrap())).collect();
        let cells: Vec<String> = line(name)[12..].split_whitespace().map(str::to_owned).collect();
        assert_eq!(cells, expected, "{name}");
    }
}

#[test]
fn the_members_of_the_json_are_these_with_their_units_in_their_names() {
    let object: Value = serde_json::from_str(&json(&config("ttft:1s"), &report())).unwrap();
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let expected = "cached_tokens e2e_ms failed failures good good_per_second itl_ms model ok output_tokens \
                    output_tokens_per_second prompt_tokens prompt_tokens_per_second requests requests_per_second \
                    seconds sent_late_ms tokens_per_word tpot_ms ttft_ms ttft_sent_ms";
    assert_eq!(members(&object), expected);
    assert_eq!(members(&object["ttft_ms"]), "count max mean p50 p90 p95 p99");
    assert_eq!((&object["ok"], &object["failed"], &object["good"]), (&json!(3), &json!(1), &json!(2)));
    assert_eq!((&object["seconds"], &object["e2e_ms"]["max"]), (&json!(2.0), &json!(1234.0)));
    assert_eq!((&object["output_tokens_per_second"], &object["ttft_ms"]["count"]), (&json!(30.0), &json!(3)));
    assert_eq!(json(&config(""), &report()).matches("good").count(), 0);
}
