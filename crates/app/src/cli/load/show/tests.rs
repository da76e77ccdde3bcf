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
fn the_json_has_the_same_figures() {
    let object: Value = serde_json::from_str(&json(&config("ttft:1s"), &report())).unwrap();
    assert_eq!((&object["ok"], &object["failed"], &object["good"]), (&json!(3), &json!(1), &json!(2)));
    assert_eq!(object["failures"], json!({"status 503": 1}));
    assert_eq!((&object["ttft_ms"]["p99"], &object["e2e_ms"]["max"]), (&json!(4.0), &json!(1234.0)));
    assert_eq!(object["output_tokens_per_second"], json!(30.0));
    assert_eq!(json(&config(""), &report()).matches("good").count(), 0);
}
