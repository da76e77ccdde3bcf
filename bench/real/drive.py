#!/usr/bin/env python3
"""Runs the gateway in front of real engines and checks what real clients see.

    drive.py [--gateway PATH] [--only NAME] [--allow-missing] [--report] [--keep] [--direct]

Three stages: the gateway's refusals as the SDKs see them, without an engine; two vLLM behind the gateway, one of
them killed under load at the end; then one vLLM and one llama-server. Prints a table of checks: pass, FAIL, or
missing (an engine or SDK is not installed). `--only` takes the name of a stage or the beginning of a check's.
`--keep` leaves the engines running for the next run; `--direct` drives the first engine without the gateway, to
learn what the engine itself does. Standard library only; see `cargo xtask real --help`.
"""

import argparse
import datetime
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import engines
import reconcile
import refusals
from gateway import Gateway, answers, wait_for

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "real-engines.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
ENGINE_PATIENCE_S = 900
VLLM_PORTS, LLAMA_PORT = (18101, 18102), 18201
LOAD_S = 30
BENCH_PROMPTS = 16
# llama-server goes on for a minute or more with a non-stream request whose client has left, whoever stands in front.
NOT_FOR_LLAMA = "openai cancel without a stream"
TWO_VLLM, VLLM_AND_LLAMA = "two vLLM", "vLLM and llama-server"
STAGES = (refusals.NAME, TWO_VLLM, VLLM_AND_LLAMA)
GENERATION_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/messages")


class Table:
    """Checks in the order they ran. `only`: a stage's name, or the beginning of checks' names."""

    def __init__(self, only):
        self.stage = only if only in STAGES else None
        self.only, self.rows = "" if self.stage else only or "", []

    def wants(self, stage):
        return self.stage in (None, stage)

    def add(self, stage, name, verdict, detail):
        if name.startswith(self.only) or verdict == "missing":
            self.rows.append((stage, name, verdict, detail))
            print(f"{verdict:8} {stage:22} {name:40} {detail}", flush=True)

    def run(self, stage, name, check):
        if not name.startswith(self.only):
            return
        try:
            self.add(stage, name, "pass", check())
        except Exception as error:  # a check may fail in any way; the table goes on
            self.add(stage, name, "FAIL", f"{type(error).__name__}: {error}")

    def count(self, verdict):
        return sum(row[2] == verdict for row in self.rows)


class Fleet:
    """Engines, started once and shared by the stages; what ran before is used and left alone."""

    def __init__(self, keep):
        self.keep, self.ours = keep, []

    def start(self, wanted):
        started = []
        for engine, port, more in wanted:
            if not answers(f"http://127.0.0.1:{port}/health"):
                print(f"starting {engine} on {port} (log in {engines.REAL})", flush=True)
                started.append((engine, port, engines.start(engine, port, more)))
                self.ours.append((engine, port))
        for engine, port, process in started:
            wait_for(f"http://127.0.0.1:{port}/health", process, ENGINE_PATIENCE_S, f"{engine} on {port}")

    def stop(self):
        for engine, port in [] if self.keep else self.ours:
            engines.stop(engine, port)


def client_process(*words):
    command = [str(engines.python_in("clients")), str(Path(__file__).with_name("clients.py")), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_sdks(table, stage, base, engine_urls, skip=None):
    """Every SDK check but the skipped one; returns how many generations were asked for, and how many given up."""
    generations = cancelled = 0
    process = client_process("sdk", base, "tiny", skip or "-", *engine_urls)
    for line in process.stdout:
        row = json.loads(line)
        generations += row["generations"]
        cancelled += row["name"].startswith("openai cancel")
        table.add(stage, row["name"], row["verdict"], row["detail"])
    if process.wait() != 0:
        table.add(stage, "SDK clients", "FAIL", f"ended with {process.returncode}")
    return generations, cancelled


def bench_serve(base):
    """vLLM's own load generator, which counts what failed."""
    command = [engines.REAL / "vllm" / "bin" / "vllm", "bench", "serve", "--backend", "openai-chat"]
    command += ["--base-url", base, "--endpoint", "/v1/chat/completions", "--model", "tiny"]
    command += ["--tokenizer", engines.TINY_MODEL, "--dataset-name", "random", "--random-input-len", "64"]
    command += ["--random-output-len", "16", "--num-prompts", BENCH_PROMPTS, "--max-concurrency", "4", "--ignore-eos"]
    environment = {**engines.os.environ, **engines.OFFLINE}
    done = subprocess.run(
        [str(word) for word in command], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    counts = dict(re.findall(r"^(Successful|Failed) requests:\s+(\d+)", done.stdout, flags=re.M))
    expected = {"Successful": str(BENCH_PROMPTS), "Failed": "0"}
    if done.returncode != 0 or counts != expected:
        raise AssertionError(f"{counts}, exit {done.returncode}: {done.stdout[-300:]}")
    return f"{BENCH_PROMPTS} of {BENCH_PROMPTS} prompts"


def kill_under_load(base, port):
    """No client may see an error before its first byte; streams that the dead replica had begun are cut."""
    process = client_process("load", base, "tiny", LOAD_S)
    if process.stdout.readline().strip() != "warm":
        raise AssertionError("the load ended before it was warm")
    engines.stop("vllm", port, how=signal.SIGKILL)
    told = json.loads(process.stdout.readlines()[-1])
    process.wait()
    ended = told["ended"]
    if ended.get("failed before the first byte", 0) or ended.get("whole", 0) < 32:
        raise AssertionError(f"{ended}, for example {told['broken']}")
    return ", ".join(f"{count} {how}" for how, count in sorted(ended.items()))


def usage_lines(gateway, generations, cancelled):
    gateway.stop()
    lines = [line for line in gateway.usage() if line.get("endpoint") in GENERATION_PATHS]
    outcomes = [line["outcome"] for line in lines]
    if len(lines) != generations:
        raise AssertionError(f"{len(lines)} lines for {generations} requests")
    if outcomes.count("client_gone") != cancelled:
        raise AssertionError(f"{cancelled} requests were cancelled, lines say {outcomes}")
    counted = [line for line in lines if line["outcome"] == "ok"]
    without = [line for line in counted if line["usage_source"] != "engine" or not line["prompt_tokens"]]
    if without:
        raise AssertionError(f"no usage of the engine in {without[0]}")
    return f"{len(lines)} lines, all {len(counted)} good ones with the engine's tokens"


def stage(table, fleet, name, wanted, gateway_binary):
    """One gateway in front of the wanted engines: the SDKs and their usage lines, then load, then a death. Between them
    the lines of every kind of request are held against the engines' counters."""
    try:
        fleet.start(wanted)
    except RuntimeError as error:
        table.add(name, "engines start", "FAIL", str(error))
        return
    urls = [f"http://127.0.0.1:{port}" for _, port, _ in wanted]
    words = [word for url in urls for word in ("--replica", url)]
    try:
        with Gateway(gateway_binary, words) as gateway:
            with_llama = any(engine == "llama" for engine, _, _ in wanted)
            counts = run_sdks(table, name, gateway.base, urls, skip=NOT_FOR_LLAMA if with_llama else None)
            table.run(name, "usage lines", lambda: usage_lines(gateway, *counts))
        table.run(name, "lines and engines, whole answers", lambda: reconcile.whole_answers(gateway_binary, urls))
        table.run(name, "lines and engines, clients leave", lambda: reconcile.clients_that_leave(gateway_binary, urls))
        with Gateway(gateway_binary, words) as gateway:
            table.run(name, "vllm bench serve", lambda: bench_serve(gateway.base))
            engine, port, _ = wanted[-1]
            if engine == "vllm":
                table.run(name, "replica killed under load", lambda: kill_under_load(gateway.base, port))
    except RuntimeError as error:
        table.add(name, "gateway starts", "FAIL", str(error))


def direct(table, fleet):
    """The engine alone: what the clients see without us."""
    fleet.start([("vllm", VLLM_PORTS[0], [])])
    url = f"http://127.0.0.1:{VLLM_PORTS[0]}"
    run_sdks(table, "vllm alone", url, [url])
    table.run("vllm alone", "vllm bench serve", lambda: bench_serve(url))


def stages(table, fleet, gateway_binary):
    first, second = (("vllm", port, []) for port in VLLM_PORTS)
    llama = ("llama", LLAMA_PORT, [])
    for name, needed, run in [
        (refusals.NAME, ["clients"], lambda: refusals.stage(table, gateway_binary)),
        (TWO_VLLM, ["vllm", "clients"], lambda: stage(table, fleet, TWO_VLLM, [first, second], gateway_binary)),
        (
            VLLM_AND_LLAMA,
            ["vllm", "llama", "clients"],
            lambda: stage(table, fleet, VLLM_AND_LLAMA, [first, llama], gateway_binary),
        ),
    ]:
        if not table.wants(name):
            continue
        if missing := engines.missing(needed):
            table.add(name, "the whole stage", "missing", f"not installed: {', '.join(missing)}")
        else:
            run()


def write_report(table):
    """Puts the table between its marks; the words around it are written by people."""
    text = REPORT.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    day = datetime.datetime.now(datetime.timezone.utc).date()
    head = [f"Run of {day}:", "", "| engines | check | verdict | seen |", "|---|---|---|---|"]
    clean = [[str(cell).replace("|", "/").replace("\n", " ")[:160] for cell in row] for row in table.rows]
    body = [f"| {' | '.join(cells)} |" for cells in clean]
    REPORT.write_text(before + "\n".join([BEGIN, "", *head, *body, "", END]) + after)
    print(f"wrote {REPORT.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", type=Path, default=ROOT / "target" / "release" / "sluicegate")
    parser.add_argument("--only", metavar="NAME")
    parser.add_argument("--allow-missing", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--direct", action="store_true")
    options = parser.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    table, fleet = Table(options.only), Fleet(options.keep)
    try:
        if options.direct:
            direct(table, fleet)
        else:
            stages(table, fleet, options.gateway)
    finally:
        fleet.stop()
    failed, missing = table.count("FAIL"), table.count("missing")
    print(f"\n{table.count('pass')} passed, {failed} failed, {missing} missing")
    if missing:
        print("MISSING: part of this was not tried; install with `cargo xtask real install`", file=sys.stderr)
    if options.report:
        write_report(table)
    if failed or not table.rows or (missing and not options.allow_missing):
        sys.exit(1)


if __name__ == "__main__":
    main()
