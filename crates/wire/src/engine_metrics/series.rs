//! The names of the series that are read.

use super::Engine;

/// What a series tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    Running,
    Waiting,
    KvUsage,
    PromptTokens,
    GenerationTokens,
    PrefixHits,
    PrefixQueries,
    OldPrefixHits,
    OldPrefixQueries,
    PrefixHitRate,
    CachedPromptTokens,
    CacheConfig,
}

/// The engine and series a line begins with, and the rest of the line (labels and value). Names are matched whole:
/// `vllm:num_requests_waiting_by_reason` is another series than `vllm:num_requests_waiting`.
pub(super) fn known(line: &[u8]) -> Option<(Engine, Series, &[u8])> {
    let end = line.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t'))?;
    let (name, rest) = line.split_at_checked(end)?;
    let (engine, series) = if let Some(name) = name.strip_prefix(b"vllm:") {
        (Engine::Vllm, vllm(name))
    } else if let Some(name) = name.strip_prefix(b"sglang:") {
        (Engine::Sglang, sglang(name))
    } else if let Some(name) = name.strip_prefix(b"llamacpp:") {
        (Engine::LlamaCpp, llamacpp(name))
    } else {
        (Engine::Tgi, tgi(name.strip_prefix(b"tgi_")?))
    };
    Some((engine, series?, rest))
}

fn vllm(name: &[u8]) -> Option<Series> {
    Some(match name {
        b"num_requests_running" => Series::Running,
        b"num_requests_waiting" => Series::Waiting,
        // V0 and early V1, later V1; where both are there they say the same.
        b"gpu_cache_usage_perc" | b"kv_cache_usage_perc" => Series::KvUsage,
        b"prompt_tokens_total" => Series::PromptTokens,
        b"generation_tokens_total" => Series::GenerationTokens,
        b"prefix_cache_hits_total" => Series::PrefixHits,
        b"prefix_cache_queries_total" => Series::PrefixQueries,
        b"gpu_prefix_cache_hits_total" => Series::OldPrefixHits,
        b"gpu_prefix_cache_queries_total" => Series::OldPrefixQueries,
        b"gpu_prefix_cache_hit_rate" => Series::PrefixHitRate,
        b"cache_config_info" => Series::CacheConfig,
        _ => return None,
    })
}

fn sglang(name: &[u8]) -> Option<Series> {
    Some(match name {
        b"num_running_reqs" => Series::Running,
        b"num_queue_reqs" => Series::Waiting,
        b"token_usage" => Series::KvUsage,
        b"prompt_tokens_total" => Series::PromptTokens,
        b"generation_tokens_total" => Series::GenerationTokens,
        b"cache_hit_rate" => Series::PrefixHitRate,
        _ => return None,
    })
}

fn llamacpp(name: &[u8]) -> Option<Series> {
    Some(match name {
        b"requests_processing" => Series::Running,
        b"requests_deferred" => Series::Waiting,
        b"kv_cache_usage_ratio" => Series::KvUsage,
        b"prompt_tokens_total" => Series::PromptTokens,
        b"prompt_tokens_cached_total" => Series::CachedPromptTokens,
        b"tokens_predicted_total" => Series::GenerationTokens,
        _ => return None,
    })
}

fn tgi(name: &[u8]) -> Option<Series> {
    Some(match name {
        b"batch_current_size" => Series::Running,
        b"queue_size" => Series::Waiting,
        // Histograms of tokens a request: the sum is the total.
        b"request_input_length_sum" => Series::PromptTokens,
        b"request_generated_tokens_sum" => Series::GenerationTokens,
        _ => return None,
    })
}
