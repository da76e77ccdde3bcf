//! The families of vLLM's page, in its order and with its names.

use super::super::SimConfig;
use super::super::exposition::Page;
use super::Observations;
use crate::engine::Counters;

pub(super) fn write(config: &SimConfig, counters: &Counters, seen: &Observations, started: f64) -> String {
    let mut page = Page::new(&config.model, started);
    page.plain(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        "gauge",
        &[(String::new(), started)],
    );
    gauges(&mut page, counters);
    cache(&mut page, counters);
    tokens(&mut page, counters);
    requests(&mut page, counters);
    sizes(&mut page, seen);
    times(&mut page, seen);
    cache_config(&mut page, config);
    http(&mut page, seen);
    page.finish()
}

fn gauges(page: &mut Page, counters: &Counters) {
    let (running, waiting) = (f64::from(counters.running), f64::from(counters.waiting));
    page.gauge(
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        &[(None, running)],
    );
    page.gauge(
        "vllm:num_requests_waiting",
        "Number of requests waiting to be processed.",
        &[(None, waiting)],
    );
    page.gauge(
        "vllm:num_requests_waiting_by_reason",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = \
         deferred by transient constraints.",
        &[(Some(("reason", "capacity")), waiting), (Some(("reason", "deferred")), 0.0)],
    );
    page.gauge(
        "vllm:engine_sleep_state",
        "Engine sleep state; awake = 1 means engine is awake.",
        &[
            (Some(("sleep_state", "awake")), 1.0),
            (Some(("sleep_state", "weights_offloaded")), 0.0),
            (Some(("sleep_state", "discard_all")), 0.0),
        ],
    );
    page.gauge(
        "vllm:kv_cache_usage_perc",
        "KV-cache usage. 1 means 100 percent usage.",
        &[(None, counters.kv_usage())],
    );
}

fn cache(page: &mut Page, counters: &Counters) {
    let table = [
        (
            "vllm:prefix_cache_queries",
            "Prefix cache queries, in terms of number of queried tokens.",
            counters.prefix_queries,
        ),
        (
            "vllm:prefix_cache_hits",
            "Prefix cache hits, in terms of number of cached tokens.",
            counters.prefix_hits,
        ),
        (
            "vllm:external_prefix_cache_queries",
            "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried \
             tokens.",
            0,
        ),
        (
            "vllm:external_prefix_cache_hits",
            "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",
            0,
        ),
        ("vllm:mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", 0),
        ("vllm:mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", 0),
        ("vllm:num_preemptions", "Cumulative number of preemption from the engine.", counters.preemptions),
    ];
    for (name, help, value) in table {
        page.counter(name, help, &[(None, value)]);
    }
}

fn tokens(page: &mut Page, counters: &Counters) {
    let cached = counters.prompt_tokens_cached;
    page.counter(
        "vllm:prompt_tokens",
        "Number of prefill tokens processed.",
        &[(None, counters.prompt_tokens)],
    );
    page.counter(
        "vllm:prompt_tokens_by_source",
        "Number of prompt tokens by source.",
        &[
            (Some(("source", "local_compute")), counters.prompt_tokens.saturating_sub(cached)),
            (Some(("source", "local_cache_hit")), cached),
            (Some(("source", "external_kv_transfer")), 0),
        ],
    );
    page.counter(
        "vllm:prompt_tokens_cached",
        "Number of cached prompt tokens (local + external).",
        &[(None, cached)],
    );
    page.counter(
        "vllm:prompt_tokens_cached_by_source",
        "Prefix-cache hit tokens by the cache tier that supplied them.",
        &[
            (Some(("source", "device")), cached),
            (Some(("source", "host")), 0),
            (Some(("source", "p2p")), 0),
            (Some(("source", "disk")), 0),
            (Some(("source", "external_unspecified")), 0),
        ],
    );
    page.counter(
        "vllm:generation_tokens",
        "Number of generation tokens processed.",
        &[(None, counters.generation_tokens)],
    );
}

fn requests(page: &mut Page, counters: &Counters) {
    let finished = |reason, count| (Some(("finished_reason", reason)), count);
    page.counter(
        "vllm:request_success",
        "Count of successfully processed requests.",
        &[
            finished("stop", counters.finished_stop),
            finished("length", counters.finished_length),
            // A client that leaves is counted nowhere.
            finished("abort", 0),
            finished("error", 0),
            finished("repetition", 0),
        ],
    );
    page.counter(
        "vllm:admission_rejections",
        "Number of admission attempts rejected by a queue limit, by reason.",
        &[
            (Some(("reason", "max_num_queued_reqs")), counters.refused),
            (Some(("reason", "max_num_queued_tokens")), 0),
        ],
    );
}

fn sizes(page: &mut Page, seen: &Observations) {
    let table = [
        ("vllm:request_prompt_tokens", "Number of prefill tokens processed.", &seen.prompt_tokens),
        ("vllm:request_generation_tokens", "Number of generation tokens processed.", &seen.generation_tokens),
        ("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", &seen.step_tokens),
        (
            "vllm:request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            &seen.generation_tokens,
        ),
        (
            "vllm:request_params_max_tokens",
            "Histogram of the max_tokens request parameter.",
            &seen.max_tokens,
        ),
    ];
    for (name, help, histogram) in table {
        page.histogram(name, help, histogram);
    }
}

fn times(page: &mut Page, seen: &Observations) {
    let table = [
        (
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            &seen.first_token,
        ),
        (
            "vllm:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            &seen.between_tokens,
        ),
        (
            "vllm:request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            &seen.per_output_token,
        ),
        ("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &seen.whole),
        (
            "vllm:request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            &seen.queue,
        ),
        (
            "vllm:request_inference_time_seconds",
            "Histogram of time spent in RUNNING phase for request.",
            &seen.inference,
        ),
        (
            "vllm:request_prefill_time_seconds",
            "Histogram of time spent in PREFILL phase for request.",
            &seen.prefill,
        ),
        (
            "vllm:request_decode_time_seconds",
            "Histogram of time spent in DECODE phase for request.",
            &seen.decode,
        ),
        (
            "vllm:request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            &seen.computed_tokens,
        ),
    ];
    for (name, help, histogram) in table {
        page.histogram(name, help, histogram);
    }
}

fn cache_config(page: &mut Page, config: &SimConfig) {
    let (block, blocks) = (config.profile.block_tokens, config.profile.kv_blocks);
    let size = u64::from(block) * u64::from(blocks);
    let labels = format!(
        "block_size=\"{block}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",\
         gpu_memory_utilization=\"0.92\",kv_cache_size_tokens=\"{size}\",num_cpu_blocks=\"None\",\
         num_gpu_blocks=\"{blocks}\",num_gpu_blocks_override=\"None\",prefix_caching_hash_algo=\"xxhash\",\
         sliding_window=\"None\""
    );
    page.plain(
        "vllm:cache_config_info",
        "Information of the LLMEngine CacheConfig",
        "gauge",
        &[(labels, 1.0)],
    );
}

fn http(page: &mut Page, seen: &Observations) {
    let series: Vec<_> = seen
        .responses
        .iter()
        .map(|((handler, method, class), count)| {
            (format!("handler=\"{handler}\",method=\"{method}\",status=\"{class}xx\""), *count as f64)
        })
        .collect();
    let help = "Total number of requests by method, status and handler.";
    page.plain("http_requests_total", help, "counter", &series);
}
