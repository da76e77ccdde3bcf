//! What an engine answers when it is asked how it is.

use std::fmt::Write;

use super::script::{Step, send};
use crate::answers::answer;

/// The numbers of a vLLM metrics page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// `vllm:num_requests_running`.
    pub running: u32,
    /// `vllm:num_requests_waiting`.
    pub waiting: u32,
    /// `vllm:prompt_tokens_total`.
    pub prompt_tokens: u64,
    /// `vllm:generation_tokens_total`.
    pub generation_tokens: u64,
}

pub(super) fn healthy() -> Vec<Step> {
    vec![send(answer(200, &[], b""))]
}

pub(super) fn models(model: &str) -> Vec<Step> {
    let body = format!(
        r#"{{"object":"list","data":[{{"id":{model:?},"object":"model","created":1795989628,"owned_by":"vllm","root":{model:?},"parent":null,"max_model_len":2048}}]}}"#
    );
    vec![send(answer(200, &[("content-type", "application/json")], body.as_bytes()))]
}

pub(super) fn metrics(model: &str, load: Load) -> Vec<Step> {
    let mut page = String::new();
    for (name, kind, value) in [
        ("num_requests_running", "gauge", f64::from(load.running)),
        ("num_requests_waiting", "gauge", f64::from(load.waiting)),
        ("kv_cache_usage_perc", "gauge", 0.0),
        ("prompt_tokens_total", "counter", load.prompt_tokens as f64),
        ("generation_tokens_total", "counter", load.generation_tokens as f64),
    ] {
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "# HELP vllm:{name} Said by the engine.\n# TYPE vllm:{name} {kind}\nvllm:{name}{{engine=\"0\",model_name=\"{model}\"}} {value:.1}\n"
        );
    }
    vec![send(answer(200, &[("content-type", "text/plain; version=0.0.4")], page.as_bytes()))]
}
