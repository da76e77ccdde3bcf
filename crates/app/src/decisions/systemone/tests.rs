use std::time::Duration;

use super::*;

fn criteria() -> [Criterion; 2] {
    [
        Criterion { model: "small".into(), text: None },
        Criterion { model: "large".into(), text: Some("Hard \"things\"".into()) },
    ]
}

#[test]
fn a_question_is_what_the_format_says() {
    let plan = DecisionServicePlan {
        route: "r".into(),
        uri: "http://127.0.0.1:1/v1/systemone".parse().expect("a URI"),
        url: "http://127.0.0.1:1".parse().expect("a URL"),
        timeout: Duration::from_secs(1),
        cache_ttl: Duration::ZERO,
        tokens: Vec::new(),
        model: "jev-latest".into(),
        instructions: "Pick.".into(),
    };
    let body = String::from_utf8(question(&plan, "user: Hi\n", &criteria())).expect("UTF-8");
    let expected = r#"{"model":"jev-latest","state":"user: Hi\n","questions":{"model_selection":{"type":"choice","instructions":"Pick.","criteria":{"small":null,"large":"Hard \"things\""}}}}"#;
    assert_eq!(body, expected);
}

fn of(selection: &str) -> Option<Says> {
    let body = format!(
        r#"{{"model":"jev-1","answers":{{"model_selection":{selection}}},"usage":{{"input_tokens":3}}}}"#
    );
    answer(body.as_bytes(), &criteria())
}

fn says(small: f64, large: f64, confidence: Option<f64>) -> Option<Says> {
    Some(Says { probabilities: vec![small, large], confidence })
}

#[test]
fn an_answer_is_read_by_the_names_that_were_asked_about() {
    for (selection, expected) in [
        (
            r#"{"type":"choice","choice":"small","probabilities":{"large":0.25,"small":0.75},"confidence":0.5}"#,
            says(0.75, 0.25, Some(0.5)),
        ),
        (r#"{"probabilities":{"small":0.75,"large":0.25}}"#, says(0.75, 0.25, None)),
        (r#"{"probabilities":{"small":0.75,"large":0.25},"confidence":null}"#, says(0.75, 0.25, None)),
        (r#"{"probabilities":{"large":1,"huge":0.5}}"#, says(0.0, 1.0, None)),
        (r#"{"probabilities":{"large":1.0000000001}}"#, says(0.0, 1.0000000001, None)),
    ] {
        assert_eq!(of(selection), expected, "{selection}");
    }
}

#[test]
fn what_is_no_answer_to_the_question_is_none() {
    for selection in [
        "null",
        "{}",
        r#"{"choice":"small"}"#,
        r#"{"probabilities":{}}"#,
        r#"{"probabilities":{"huge":1}}"#,
        r#"{"probabilities":{"small":0,"large":0}}"#,
        r#"{"probabilities":{"small":-0.5,"large":1}}"#,
        r#"{"probabilities":{"small":80,"large":20}}"#,
        r#"{"probabilities":{"small":"0.5"}}"#,
        r#"{"probabilities":{"small":1e999}}"#,
        r#"{"probabilities":[0.5,0.5]}"#,
        r#"{"probabilities":{"small":0.5},"confidence":"high"}"#,
    ] {
        assert_eq!(of(selection), None, "{selection}");
    }
    for body in ["", "[]", "not JSON", r#"{"answers":{}}"#, &"[".repeat(10_000)] {
        assert_eq!(answer(body.as_bytes(), &criteria()), None, "{body:.20}");
    }
}
