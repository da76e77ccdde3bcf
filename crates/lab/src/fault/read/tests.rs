use super::*;

fn spec(fault: Fault) -> FaultSpec {
    FaultSpec::from(fault)
}

#[test]
fn each_kind_is_read_from_text_and_goes_through_json_and_back() {
    let seconds = Duration::from_secs;
    let table = [
        ("status:503", spec(Fault::Status(503))),
        ("status:500:share=0.3:next=7", spec(Fault::Status(500)).share(0.3).next(7)),
        ("status:status=429", spec(Fault::Status(429))),
        ("reset:next=1", spec(Fault::Reset).next(1)),
        ("hang", spec(Fault::Hang)),
        ("cut:5", spec(Fault::Cut { after: 5 })),
        ("error-event", spec(Fault::ErrorEvent { after: 0, status: 503 })),
        ("error-event:3:500", spec(Fault::ErrorEvent { after: 3, status: 500 })),
        ("refuse:seconds=5", spec(Fault::Refuse).lasting(seconds(5))),
        ("slow:4", spec(Fault::Slow { factor: 4.0 })),
        ("frozen", spec(Fault::Frozen)),
        ("slow-health:1500ms", spec(Fault::SlowHealth(Duration::from_millis(1500)))),
        ("flap:10:5s", spec(Fault::Flap { alive: seconds(10), dead: seconds(5) })),
        ("engine-dead", spec(Fault::EngineDead)),
        ("sigterm", spec(Fault::Sigterm)),
        ("dead:seconds=5", spec(Fault::Dead).lasting(seconds(5))),
        ("loading", spec(Fault::Loading)),
        ("unreachable", spec(Fault::Unreachable)),
    ];
    for (text, expected) in table {
        assert_eq!(FaultSpec::parse(text), Ok(expected), "{text}");
        let Value::Object(mut json) = expected.to_json() else { panic!("an object") };
        json.retain(|_, value| !value.is_null());
        assert_eq!(FaultSpec::from_json(&json), Ok(expected), "{json:?}");
        assert!(text.starts_with(expected.fault.kind()));
    }
}

#[test]
fn what_is_not_understood_is_told_with_a_way_to_say_it() {
    for (text, says) in [
        ("", "there is no fault \"\"; there are status, reset"),
        ("explode", "there is no fault \"explode\""),
        ("status", "status needs \"status\"; it is written status:STATUS"),
        ("status:200", "must be from 400 to 599, not 200"),
        ("status:five", "\"five\" is no number"),
        ("cut:5:6", "\"6\" is one value too many; it is written cut:AFTER"),
        ("cut:5:shar=1", "cut has no value \"shar\""),
        ("cut:5:share=2", "\"share\" of cut must be from 0 to 1"),
        ("refuse:share=0.5", "refuse befalls the whole replica"),
        ("flap:1", "flap needs \"dead\"; it is written flap:ALIVE:DEAD"),
        ("slow:0", "must be from 0.001"),
        ("slow:inf", "\"inf\" is no number"),
    ] {
        let refusal = FaultSpec::parse(text).unwrap_err().to_string();
        assert!(refusal.contains(says), "{text}: {refusal}");
    }
    let fields = |json: Value| json.as_object().cloned().unwrap();
    for (json, says) in [
        (json!({}), "\"kind\" is missing: one of status"),
        (json!({"kind": "cut", "after": "x"}), "\"after\" must be a number"),
        (json!({"kind": "cut", "after": 1, "how": 1}), "cut has no value \"how\""),
    ] {
        let refusal = FaultSpec::from_json(&fields(json)).unwrap_err().to_string();
        assert!(refusal.contains(says), "{refusal}");
    }
}
