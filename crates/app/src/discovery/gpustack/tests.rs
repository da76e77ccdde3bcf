use super::*;

fn told(events: Vec<Event>) -> Vec<String> {
    let word = |event| match event {
        Event::Is(instance) => format!("{} {}", instance.id, instance.state.unwrap_or_default()),
        Event::Gone(id) => format!("{id} gone"),
    };
    events.into_iter().map(word).collect()
}

const STREAM: &str = "\n\n{\"type\": 1, \"data\": {\"id\": 1, \"state\": \"running\", \"name\": \"a\\nb\"}}\n\n\
                      {\"type\":2,\"data\":{\"id\":1,\"state\":\"error\"}}\n\n\n\n{\"type\":9,\"data\":null}\n\n\
                      {\"type\":3,\"data\":{\"id\":1}}\n\n";

#[test]
fn a_watch_cut_at_every_byte_tells_the_same() {
    let expected = ["1 running", "1 error", "1 gone"];
    for cut in 0..=STREAM.len() {
        let (first, second) = STREAM.as_bytes().split_at(cut);
        let mut events = Events::default();
        let mut all = told(events.read(first).expect("it can be read"));
        all.extend(told(events.read(second).expect("it can be read")));
        assert_eq!(all, expected, "cut at {cut}");
    }
    let mut events = Events::default();
    let bytes = STREAM.as_bytes().chunks(1);
    let all: Vec<String> = bytes.flat_map(|byte| told(events.read(byte).expect("read"))).collect();
    assert_eq!(all, expected, "byte by byte");
    assert!(Events::default().read(b"\n\nnot json").is_err());
}

fn instance(json: &str) -> Option<(String, Vec<String>)> {
    let instance: Instance = serde_json::from_str(json).expect("an instance");
    let plan = instance.replica(2, Via::Worker).zip(instance.replica(2, Via::Direct));
    plan.map(|(worker, direct)| {
        let headers = worker.headers.iter().map(|(name, value)| format!("{name}: {}", value.0)).collect();
        (format!("{} {}", direct.url.text, worker.url.text), headers)
    })
}

#[test]
fn only_running_instances_that_take_requests_are_replicas() {
    let with = |more: &str| {
        instance(&format!(
            r#"{{"id": 7, "model_id": 2, "worker_ip": "10.0.0.5", "port": 40001, "state": "running"{more}}}"#
        ))
    };
    let taken = Some((
        "http://10.0.0.5:40001 http://10.0.0.5:10150#model-2-7.static".to_owned(),
        vec!["x-gpustack-model-instance: model-2-7.static".to_owned()],
    ));
    for more in ["", r#", "draining_since": null, "role": null"#, r#", "role": "router""#] {
        assert_eq!(with(more), taken, "{more}");
    }
    for more in
        [r#", "draining_since": "2026-01-01T00:00:00Z""#, r#", "role": "worker""#, r#", "role": "prefill""#]
    {
        assert_eq!(with(more), None, "{more}");
    }
    let other = instance(
        r#"{"id": 7, "worker_ip": "10.0.0.5", "worker_advertise_address": "gpu-5", "port": 1, "state": "running"}"#,
    );
    assert!(other.is_some_and(|(urls, _)| urls.starts_with("http://gpu-5:1 ")), "the advertised address");
    assert_eq!(instance(r#"{"id": 7, "worker_ip": "10.0.0.5", "port": 1, "state": "starting"}"#), None);
}
