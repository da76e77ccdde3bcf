#!/usr/bin/env python3
"""Holds `sluicegate load` against `vllm bench serve` and guidellm on one engine.

    agree.py URL [--rounds 5] [--rate 4] [--requests 80] [--prompt 64] [--output 32] [--gate PATH]

The tools take turns, round after round, so that what else the machine does falls on all of them alike; each round has
words of its own, since the engine would know the last round's prompts. Prints the median over the rounds, and the range.
vLLM is installed by engines.py; guidellm is used where $SLUICEGATE_REAL/guidellm has it
(python -m venv; pip install guidellm==0.8.1).
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from engines import OFFLINE, REAL, TINY_MODEL

# Ten processes of guidellm on two cores were seen to send nothing for a minute.
ONE_WORKER = {"GUIDELLM__MAX_WORKER_PROCESSES": "1"}
FIGURES = ["requests/s", "ttft mean", "ttft p50", "ttft p99", "tpot mean", "tpot p50", "itl mean", "e2e mean", "e2e p50"]


def run(words, folder):
    told = subprocess.run([str(word) for word in words], cwd=folder, env={**os.environ, **OFFLINE, **ONE_WORKER}, capture_output=True)
    if told.returncode != 0:
        raise SystemExit(f"{words[0]} failed:\n{told.stdout.decode()[-2000:]}{told.stderr.decode()[-2000:]}")
    return told.stdout.decode()


def gate(options, seed, folder):
    words = [options.gate, "load", options.url, "--rate", options.rate, "--requests", options.requests, "--json"]
    words += ["--prompt-tokens", options.prompt, "--output-tokens", options.output, "--ignore-eos", "--seed", seed]
    told = json.loads(run(words, folder))
    assert told["failed"] == 0, told
    of = lambda name, figure: told[f"{name}_ms"][figure]
    return {
        "requests/s": told["requests_per_second"],
        **{f"ttft {figure}": of("ttft", figure) for figure in ("mean", "p50", "p99")},
        **{f"tpot {figure}": of("tpot", figure) for figure in ("mean", "p50")},
        "itl mean": of("itl", "mean"),
        **{f"e2e {figure}": of("e2e", figure) for figure in ("mean", "p50")},
    }


def vllm(options, seed, folder):
    words = [REAL / "vllm/bin/vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", options.url]
    words += ["--endpoint", "/v1/chat/completions", "--model", "tiny", "--tokenizer", TINY_MODEL, "--ignore-eos"]
    words += ["--dataset-name", "random", "--random-input-len", options.prompt, "--random-output-len", options.output]
    words += ["--num-prompts", options.requests, "--request-rate", options.rate, "--seed", seed]
    words += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-filename", "vllm.json"]
    run(words, folder)
    told = json.loads((Path(folder) / "vllm.json").read_text())
    assert told["completed"] == options.requests, told
    return {
        "requests/s": told["request_throughput"],
        "ttft mean": told["mean_ttft_ms"],
        "ttft p50": told["median_ttft_ms"],
        "ttft p99": told["p99_ttft_ms"],
        "tpot mean": told["mean_tpot_ms"],
        "tpot p50": told["median_tpot_ms"],
        # It books the distance from the role's chunk to the first token, which come together, as one more.
        "itl mean": told["mean_itl_ms"] * options.output / (options.output - 1),
        "e2e mean": told["mean_e2el_ms"],
        "e2e p50": told["median_e2el_ms"],
    }


def guidellm(options, seed, folder):
    request = f"kind=openai_http,target={options.url},model=tiny,request_format=/v1/chat/completions"
    words = [REAL / "guidellm/bin/guidellm", "run", "--backend", request]
    words += ["--tokenizer", f"kind=hf_auto,model={TINY_MODEL}", "--profile", f"kind=poisson,rate={options.rate}"]
    words += ["--constraint", f"kind=max_requests,count={options.requests}", "--disable-console-interactive"]
    words += ["--data", f"kind=synthetic_text,prompt_tokens={options.prompt},output_tokens={options.output}"]
    words += ["--seed", f"kind=static,value={seed}", "--output", f"kind=json,path={folder}/guidellm.json"]
    run(words, folder)
    told = json.loads((Path(folder) / "guidellm.json").read_text())
    metrics = told["benchmarks"][0]["metrics"]
    of = lambda name: metrics[name]["successful"]
    return {
        "requests/s": of("requests_per_second")["mean"],
        "ttft mean": of("time_to_first_token_ms")["mean"],
        "ttft p50": of("time_to_first_token_ms")["median"],
        "ttft p99": of("time_to_first_token_ms")["percentiles"]["p99"],
        "tpot mean": None,
        "tpot p50": None,
        "itl mean": of("inter_token_latency_ms")["mean"],
        "e2e mean": of("request_latency")["mean"] * 1e3,
        "e2e p50": of("request_latency")["median"] * 1e3,
    }


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=4)
    parser.add_argument("--requests", type=int, default=80)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--output", type=int, default=32)
    parser.add_argument("--gate", default="sluicegate")
    options = parser.parse_args()
    tools = {"sluicegate load": gate, "vllm bench serve": vllm}
    if (REAL / "guidellm/bin/guidellm").exists():
        tools["guidellm"] = guidellm
    seen = {name: [] for name in tools}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.rounds):
            for name, tool in tools.items():
                seen[name].append(tool(options, seed + 1, folder))
                print(seed, name, seen[name][-1], flush=True)
    print("| |", " | ".join(tools), "|")
    print("|---|" + "---|" * len(tools))
    for figure in FIGURES:
        cells = []
        for rounds in seen.values():
            values = [of[figure] for of in rounds if of[figure] is not None]
            told = f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})" if values else ""
            cells.append(told)
        print(f"| {figure} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
