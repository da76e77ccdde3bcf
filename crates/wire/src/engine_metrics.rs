//! Prometheus text of the engines.
#![allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Vllm, Sglang, LlamaCpp, Tgi,
}
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineMetrics {
    pub engine: Option<Engine>,
    pub running: Option<u64>,         // summed over series
    pub waiting: Option<u64>,
    pub kv_usage: Option<f64>,        // 0..=1, the largest of the series
    pub prompt_tokens_total: Option<u64>,
    pub generation_tokens_total: Option<u64>,
    pub prefix_hits: Option<u64>, pub prefix_queries: Option<u64>,
    pub kv_blocks: Option<u64>, pub block_size: Option<u64>, // vllm:cache_config_info
}
/// Prometheus text of any of the known engines; unknown series are passed over; never fails.
pub fn engine_metrics(_text: &[u8]) -> EngineMetrics {
    unimplemented!()
}
