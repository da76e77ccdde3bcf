//! The token counters of an engine, read from its metrics page.

use std::str::FromStr;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Uri};
use sluicegate_wire::{Engine, engine_metrics};

use super::report::Tokens;
use crate::one_call::call;

/// Where an engine's metrics page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineUrl {
    authority: String,
    path: String,
}

impl EngineUrl {
    /// As given, with the path written out.
    pub(crate) fn text(&self) -> String {
        format!("http://{}{}", self.authority, self.path)
    }

    /// Reads the counters now.
    ///
    /// # Errors
    /// There is no answer, no 200, or no counter of tokens of a known engine in it.
    pub(crate) async fn read(&self) -> anyhow::Result<Reading> {
        let request =
            Request::get(&self.path).header("host", &self.authority).body(Full::new(Bytes::new()))?;
        let answer = call(&self.address(), request, "engine").await?;
        anyhow::ensure!(answer.status == 200, "{} answers {}", self.text(), answer.status);
        tokens(&answer.body).map(|tokens| Reading { url: self.text(), tokens }).with_context(|| {
            format!("{} has no token counters of vLLM, SGLang, llama.cpp or TGI", self.text())
        })
    }

    fn address(&self) -> String {
        let has_port =
            self.authority.parse::<hyper::http::uri::Authority>().is_ok_and(|a| a.port().is_some());
        if has_port { self.authority.clone() } else { format!("{}:80", self.authority) }
    }
}

impl FromStr for EngineUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected http://HOST:PORT or http://HOST:PORT/metrics");
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let authority = uri.authority().ok_or_else(expected)?;
        if uri.scheme_str() != Some("http") || authority.as_str().contains('@') {
            return Err(expected());
        }
        let path = match uri.path_and_query().map(hyper::http::uri::PathAndQuery::as_str) {
            None | Some("/") => "/metrics",
            Some(path) => path,
        };
        Ok(Self { authority: authority.as_str().into(), path: path.into() })
    }
}

/// What an engine's counters say at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) url: String,
    /// Since the engine's start.
    pub(crate) tokens: Tokens,
}

fn tokens(page: &[u8]) -> Option<Tokens> {
    let metrics = engine_metrics(page);
    let mut prompt = metrics.prompt_tokens_total?;
    if metrics.engine == Some(Engine::LlamaCpp) {
        // It counts the cached part of prompts apart; usage, as the gateway sums it, holds the whole prompt.
        prompt = prompt.saturating_add(metrics.prefix_hits.unwrap_or(0));
    }
    Some(Tokens { prompt, completion: metrics.generation_tokens_total? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_means_the_metrics_page() {
        for (given, text) in [
            ("http://a:8000", "http://a:8000/metrics"),
            ("http://a:8000/", "http://a:8000/metrics"),
            ("http://a:8000/m?x=1", "http://a:8000/m?x=1"),
            ("http://[::1]:8000/metrics", "http://[::1]:8000/metrics"),
        ] {
            assert_eq!(given.parse::<EngineUrl>().unwrap().text(), text);
        }
        assert_eq!("http://a/metrics".parse::<EngineUrl>().unwrap().address(), "a:80");
        assert_eq!("http://[::1]/metrics".parse::<EngineUrl>().unwrap().address(), "[::1]:80");
    }

    #[test]
    fn what_is_no_plain_http_url_is_refused() {
        for text in ["", "a:8000", "https://a:8000/metrics", "http://user:word@a:8000", "/metrics", "http://"]
        {
            assert!(text.parse::<EngineUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn cached_prompt_tokens_count_where_the_engine_counts_them_apart() {
        for (page, prompt, completion) in [
            (
                "vllm:prompt_tokens_total 10\nvllm:generation_tokens_total 3\nvllm:prefix_cache_hits_total 4\n",
                10,
                3,
            ),
            (
                "llamacpp:prompt_tokens_total 143\nllamacpp:prompt_tokens_cached_total 156\n\
                 llamacpp:tokens_predicted_total 81\n",
                299,
                81,
            ),
            ("llamacpp:prompt_tokens_total 143\nllamacpp:tokens_predicted_total 81\n", 143, 81),
        ] {
            assert_eq!(tokens(page.as_bytes()), Some(Tokens { prompt, completion }));
        }
        assert_eq!(tokens(b"go_goroutines 7\n"), None);
    }
}
