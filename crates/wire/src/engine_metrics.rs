//! What the engines tell of themselves in Prometheus text.

mod line;
mod series;

use series::{Series, known};

/// An engine, told by the prefix of its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `vllm:`
    Vllm,
    /// `sglang:`
    Sglang,
    /// `llamacpp:`
    LlamaCpp,
    /// `tgi_`
    Tgi,
}

/// The state of one replica as scraped. A value is `None` where the engine does not tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineMetrics {
    /// The engine of the first known series.
    pub engine: Option<Engine>,
    /// Requests being worked on, summed over engines and models.
    pub running: Option<u64>,
    /// Requests waiting, summed over engines and models.
    pub waiting: Option<u64>,
    /// Share of the KV cache in use, 0..=1: the largest of the series.
    pub kv_usage: Option<f64>,
    /// Prompt tokens since the engine started. llama.cpp does not count cached ones here.
    pub prompt_tokens_total: Option<u64>,
    /// Generated tokens since the engine started.
    pub generation_tokens_total: Option<u64>,
    /// Prompt tokens found in the prefix cache since the engine started.
    pub prefix_hits: Option<u64>,
    /// Prompt tokens looked up in the prefix cache since the engine started.
    pub prefix_queries: Option<u64>,
    /// Share of hits, 0..=1, from engines that tell it as a gauge (vLLM V0, SGLang): the largest of the series.
    pub prefix_hit_rate: Option<f64>,
    /// KV blocks, summed over data-parallel engines.
    pub kv_blocks: Option<u64>,
    /// Tokens in a KV block.
    pub block_size: Option<u64>,
}

/// Reads Prometheus text of any of the known engines. Unknown series, malformed lines and values that are no count
/// (NaN, infinite, negative) are passed over; it never fails, and takes time linear in the text.
pub fn engine_metrics(text: &[u8]) -> EngineMetrics {
    let mut read = Reading::default();
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
        read.line(text.get(from..end).unwrap_or_default());
        from = end + 1;
    }
    read.finish()
}

#[derive(Default)]
struct Reading {
    metrics: EngineMetrics,
    /// vLLM before 0.10 has the counters under a `gpu_` name, and for a while under both: never added together.
    old_hits: Option<u64>,
    old_queries: Option<u64>,
    cached_prompt: Option<u64>,
}

impl Reading {
    fn line(&mut self, line: &[u8]) {
        // Most lines are of no interest, and told by their first byte.
        if !matches!(line.first(), Some(b'v' | b's' | b'l' | b't')) {
            return;
        }
        let Some((engine, series, rest)) = known(line) else { return };
        let Some(sample) = line::sample(rest) else { return };
        self.metrics.engine.get_or_insert(engine);
        self.take(series, &sample);
    }

    fn take(&mut self, series: Series, sample: &line::Sample<'_>) {
        let metrics = &mut self.metrics;
        match series {
            Series::Running => add(&mut metrics.running, sample.count()),
            Series::Waiting => add(&mut metrics.waiting, sample.count()),
            Series::PromptTokens => add(&mut metrics.prompt_tokens_total, sample.count()),
            Series::GenerationTokens => add(&mut metrics.generation_tokens_total, sample.count()),
            Series::PrefixHits => add(&mut metrics.prefix_hits, sample.count()),
            Series::PrefixQueries => add(&mut metrics.prefix_queries, sample.count()),
            Series::OldPrefixHits => add(&mut self.old_hits, sample.count()),
            Series::OldPrefixQueries => add(&mut self.old_queries, sample.count()),
            Series::CachedPromptTokens => add(&mut self.cached_prompt, sample.count()),
            Series::KvUsage => largest(&mut metrics.kv_usage, sample.share()),
            Series::PrefixHitRate => largest(&mut metrics.prefix_hit_rate, sample.share()),
            Series::CacheConfig => {
                add(&mut metrics.kv_blocks, sample.label(b"num_gpu_blocks").and_then(line::count));
                if let Some(size) = sample.label(b"block_size").and_then(line::count) {
                    metrics.block_size = Some(size);
                }
            }
        }
    }

    fn finish(self) -> EngineMetrics {
        let mut metrics = self.metrics;
        metrics.prefix_hits = metrics.prefix_hits.or(self.old_hits);
        metrics.prefix_queries = metrics.prefix_queries.or(self.old_queries);
        if let (Some(cached), Some(processed)) = (self.cached_prompt, metrics.prompt_tokens_total) {
            metrics.prefix_hits = Some(cached);
            metrics.prefix_queries = Some(cached.saturating_add(processed));
        }
        metrics
    }
}

fn add(total: &mut Option<u64>, count: Option<u64>) {
    if let Some(count) = count {
        *total = Some(total.unwrap_or(0).saturating_add(count));
    }
}

fn largest(most: &mut Option<f64>, share: Option<f64>) {
    if let Some(share) = share {
        *most = Some(most.unwrap_or(0.0).max(share));
    }
}

#[cfg(test)]
mod tests;
