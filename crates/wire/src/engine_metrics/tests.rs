use super::{Engine, EngineMetrics, engine_metrics};

fn read(text: &str) -> EngineMetrics {
    engine_metrics(text.as_bytes())
}

#[test]
fn vllm_v1_is_read_under_its_own_names() {
    let text = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.125
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1974.0
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.7959895921691031e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1024.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 7.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1974.0
vllm:prompt_tokens_cached_total{engine="0",model_name="tiny"} 1024.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 348.0
vllm:cache_config_info{_block_size_resolved="True",block_size="128",engine="0",kv_cache_dtype_skip_layers="[]",num_cpu_blocks="None",num_gpu_blocks="8192",num_gpu_blocks_override="None",user_specified_block_size="False"} 1.0
"#;
    let expected = EngineMetrics {
        engine: Some(Engine::Vllm),
        running: Some(3),
        waiting: Some(2),
        kv_usage: Some(0.125),
        prompt_tokens_total: Some(1974),
        generation_tokens_total: Some(348),
        prefix_hits: Some(1024),
        prefix_queries: Some(1974),
        prefix_hit_rate: None,
        kv_blocks: Some(8192),
        block_size: Some(128),
    };
    assert_eq!(read(text), expected);
    assert_eq!(read(&text.replace('\n', "\r\n")), expected);
    assert_eq!(read(text.trim_end()), expected);
}

#[test]
fn vllm_v0_and_early_v1_names_are_read_too() {
    let v0 = "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_swapped{model_name=\"m\"} 9\n\
              vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\nvllm:cpu_cache_usage_perc{model_name=\"m\"} 0.9\n\
              vllm:gpu_prefix_cache_hit_rate{model_name=\"m\"} 0.25\nvllm:cpu_prefix_cache_hit_rate{model_name=\"m\"} -1\n";
    let read_v0 = read(v0);
    assert_eq!((read_v0.running, read_v0.waiting), (Some(1), None));
    assert_eq!((read_v0.kv_usage, read_v0.prefix_hit_rate), (Some(0.5), Some(0.25)));
    let early = "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 4\n";
    assert_eq!((read(early).prefix_queries, read(early).prefix_hits), (Some(10), Some(4)));
    let both = read(&format!("vllm:prefix_cache_queries_total 10\n{early}vllm:prefix_cache_hits_total 4\n"));
    assert_eq!(
        (both.prefix_queries, both.prefix_hits),
        (Some(10), Some(4)),
        "two names of one counter are not added"
    );
}

#[test]
fn a_48_series_of_data_parallel_engines_are_added() {
    let text = "vllm:num_requests_running{engine=\"0\"} 9\nvllm:num_requests_running{engine=\"1\"} 0\n\
                vllm:num_requests_waiting{engine=\"0\"} 4\nvllm:num_requests_waiting{engine=\"1\"} 0\n\
                vllm:kv_cache_usage_perc{engine=\"0\"} 0.75\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.1\n\
                vllm:cache_config_info{engine=\"0\",num_gpu_blocks=\"10\",block_size=\"16\"} 1\n\
                vllm:cache_config_info{engine=\"1\",num_gpu_blocks=\"20\",block_size=\"16\"} 1\n";
    let read = read(text);
    assert_eq!((read.running, read.waiting, read.kv_usage), (Some(9), Some(4), Some(0.75)));
    assert_eq!((read.kv_blocks, read.block_size), (Some(30), Some(16)));
}

#[test]
fn the_other_engines_are_read_under_their_names() {
    let sglang = "sglang:num_running_reqs{model_name=\"m\"} 5.0\nsglang:num_queue_reqs{model_name=\"m\"} 6.0\n\
                  sglang:num_used_tokens{model_name=\"m\"} 7.0\nsglang:token_usage{model_name=\"m\"} 0.28\n\
                  sglang:prompt_tokens_total{model_name=\"m\"} 8.128902e+06\n\
                  sglang:generation_tokens_total{model_name=\"m\"} 7.557572e+06\nsglang:cache_hit_rate{model_name=\"m\"} 0.0075\n";
    let llamacpp = "llamacpp:prompt_tokens_total 143\nllamacpp:prompt_tokens_cached_total 156\n\
                    llamacpp:tokens_predicted_total 81\nllamacpp:tokens_predicted_seconds_total 8.46823\n\
                    llamacpp:requests_processing 2\nllamacpp:requests_deferred 3\nllamacpp:kv_cache_usage_ratio 0.5\n";
    let tgi = "# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 4\ntgi_queue_size 1\n\
               tgi_request_input_length_sum 900\ntgi_request_input_length_count 3\ntgi_request_generated_tokens_sum 60\n";
    let expected = [
        (
            sglang,
            EngineMetrics {
                engine: Some(Engine::Sglang),
                running: Some(5),
                waiting: Some(6),
                kv_usage: Some(0.28),
                prompt_tokens_total: Some(8_128_902),
                generation_tokens_total: Some(7_557_572),
                prefix_hit_rate: Some(0.0075),
                ..EngineMetrics::default()
            },
        ),
        (
            llamacpp,
            EngineMetrics {
                engine: Some(Engine::LlamaCpp),
                running: Some(2),
                waiting: Some(3),
                kv_usage: Some(0.5),
                prompt_tokens_total: Some(143),
                generation_tokens_total: Some(81),
                prefix_hits: Some(156),
                prefix_queries: Some(299),
                ..EngineMetrics::default()
            },
        ),
        (
            tgi,
            EngineMetrics {
                engine: Some(Engine::Tgi),
                running: Some(4),
                waiting: Some(1),
                prompt_tokens_total: Some(900),
                generation_tokens_total: Some(60),
                ..EngineMetrics::default()
            },
        ),
    ];
    for (text, metrics) in expected {
        assert_eq!(read(text), metrics);
    }
}

#[test]
fn a_sample_line_may_be_written_in_any_legal_way() {
    // Line and the count read from it.
    let name = "vllm:num_requests_running";
    let cases = [
        ("{} 7", Some(7)),
        (" 7", Some(7)),
        ("\t7", Some(7)),
        ("{a=\"b\"}7", Some(7)),
        ("{a=\"b\", } \t 7.0 1700000000000", Some(7)),
        ("{a=\"b}\",c=\"d\\\"} 9\",e=\"\\\\\"} 7", Some(7)),
        ("{a=\"x y # {} \u{e9}\"} 7 # {trace_id=\"z\"} 1", Some(7)),
        (" 7e0", Some(7)),
        (" 0.7E+1", Some(7)),
        (" 6.6", Some(7)),
        (" +7", Some(7)),
        (" -0", Some(0)),
        (" 1e300", Some(u64::MAX)),
        (" NaN", None),
        (" +Inf", None),
        (" -Inf", None),
        (" -7", None),
        (" seven", None),
        ("", None),
        (" ", None),
        ("{} ", None),
        ("{a=\"b\" 7", None),
        ("{a=\"b} 7", None),
        ("{a=\"b\\", None),
        ("{", None),
        ("{}", None),
        (" 00000000000000000000000000000000000000000000000000000000000000007", None),
    ];
    for (rest, count) in cases {
        assert_eq!(read(&format!("{name}{rest}")).running, count, "{rest}");
        assert_eq!(read(&format!("x 1\r\n\n{name}{rest}\r\n# x\n")).running, count, "{rest}");
    }
}

#[test]
fn only_whole_names_at_the_start_of_a_line_count() {
    let others = [
        "vllm:num_requests_running_total 7",
        "vllm:num_requests_runnin 7",
        "xvllm:num_requests_running 7",
        "# vllm:num_requests_running 7",
        "vllm_num_requests_running 7",
        "vllm:vllm:num_requests_running 7",
        "tgi_queue_size_bucket{le=\"1\"} 7",
        "sglang:num_requests_running 7",
        "vllm:num_running_reqs 7",
        "vllm: 7",
        "tgi_ 7",
    ];
    for line in others {
        assert_eq!(read(line), EngineMetrics::default(), "{line}");
    }
}

#[test]
fn a_cache_configuration_without_numbers_tells_nothing() {
    let cases = [
        ("num_gpu_blocks=\"None\",block_size=\"16\"", None, Some(16)),
        ("xnum_gpu_blocks=\"5\",block_size=\"\"", None, None),
        ("a=\"num_gpu_blocks=\\\"9\\\"\",num_gpu_blocks=\"5\"", Some(5), None),
        ("a=\"b\"num_gpu_blocks=\"5\"", Some(5), None),
        ("a=b,num_gpu_blocks=\"5\"", None, None),
    ];
    for (labels, blocks, size) in cases {
        let read = read(&format!("vllm:cache_config_info{{{labels}}} 1"));
        assert_eq!((read.kv_blocks, read.block_size), (blocks, size), "{labels}");
    }
}

#[test]
fn a_long_page_is_read_to_its_end() {
    let bucket =
        "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.001\",model_name=\"tiny\"} 0.0\n";
    let page =
        format!("{}vllm:num_requests_running{{engine=\"0\"}} 2.0\n", bucket.repeat(60 * 1024 / bucket.len()));
    assert_eq!(read(&page).running, Some(2));
}
