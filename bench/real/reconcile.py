"""Usage lines held against the engines' own token counters by `sluicegate usage --against`. Standard library only.

    reconcile.py GATEWAY-BINARY ENGINE-URL...

First whole and streamed answers, chats and plain completions, streams with and without usage; then clients that leave
in the middle of a stream. The engines must have no other traffic meanwhile.
"""

import concurrent.futures
import http.client
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from gateway import Gateway

AT_ONCE = 4
PATIENCE_S = 60
WORDS = "the sluice lets through what the mill can take and holds the rest back until there is room for it".split()
WHOLE_KINDS = ("whole", "stream", "stream with usage", "completion")
WHOLE, LEFT = [(number, WHOLE_KINDS[number % 4]) for number in range(40)], [(number, "left") for number in range(10)]
# Events that are read before a client leaves, and tokens that it has asked for.
READ, ASKED = 10, 1500


def body(number, kind):
    text = " ".join(WORDS[(number + at) % len(WORDS)] for at in range(20 + number % 7 * 15))
    asked = {"model": "tiny", "max_tokens": ASKED if kind == "left" else 24 + number % 3 * 8, "ignore_eos": True}
    if kind == "completion":
        return "/v1/completions", {**asked, "prompt": text}
    asked["messages"] = [{"role": "user", "content": f"{number} {text}"}]
    if kind != "whole":
        asked["stream"] = True
    if kind == "stream with usage":
        asked["stream_options"] = {"include_usage": True}
    return "/v1/chat/completions", asked


def send(base, number, kind):
    """One request; a client that leaves closes its connection in the middle of the stream."""
    path, asked = body(number, kind)
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(base).netloc, timeout=PATIENCE_S)
    connection.request("POST", path, json.dumps(asked), {"content-type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise AssertionError(f"{kind}: {answer.status} {answer.read()[:200]}")
    if kind == "left":
        for _ in range(2 * READ):  # each event is followed by a blank line
            answer.readline()
        answer.close()
    else:
        answer.read()
    connection.close()


GAUGES = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
GAUGES += ("llamacpp:requests_processing ", "llamacpp:requests_deferred ")


def is_idle(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    gauges = [line for line in lines if line.startswith(GAUGES)]
    return bool(gauges) and all(float(line.split()[-1]) == 0 for line in gauges)


def wait_until_idle(urls):
    deadline = time.monotonic() + PATIENCE_S
    while not all(is_idle(url) for url in urls):
        if time.monotonic() > deadline:
            raise AssertionError(f"an engine still works {PATIENCE_S} s after the last request")
        time.sleep(0.2)


def reconciled(binary, urls, requests):
    """The report of `sluicegate usage --against` on these requests, through a gateway of their own."""
    wait_until_idle(urls)
    against = [word for url in urls for word in ("--against", url)]
    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder) / "baseline.json"
        subprocess.run([binary, "usage", *against, "--save-baseline", baseline], check=True, capture_output=True)
        with Gateway(binary, [word for url in urls for word in ("--replica", url)], name="reconcile") as gateway:
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as clients:
                list(clients.map(lambda request: send(gateway.base, *request), requests))
            wait_until_idle(urls)
        lines = gateway.usage()
        command = [binary, "usage", gateway.lines, *against, "--baseline", baseline, "--tolerance", "0", "--json"]
        told = subprocess.run(command, capture_output=True, text=True)
    if not told.stdout or len(lines) != len(requests):
        raise AssertionError(f"{len(lines)} lines for {len(requests)} requests; {told.stderr}")
    return json.loads(told.stdout), lines


def counts(report):
    told = []
    for kind in ("prompt", "completion"):
        lines, engines = (report[side][f"{kind}_tokens"] for side in ("gateway", "engines_total"))
        told.append(f"{kind} {lines:,} of {engines:,}")
    return ", ".join(told)


def whole_answers(binary, urls):
    """Of answers that came to their end the lines hold what the engines counted, to the token."""
    report, _ = reconciled(binary, urls, WHOLE)
    if not report["within_tolerance"] or report["estimated_tokens"]:
        raise AssertionError(f"{counts(report)}, {report['estimated_tokens']} estimated")
    return f"{len(WHOLE)} requests: {counts(report)}"


def clients_that_leave(binary, urls):
    """Of an answer that was left the engine reports nothing: the line holds what was seen of it, which is less."""
    report, lines = reconciled(binary, urls, LEFT)
    outcomes = [(line["outcome"], line["usage_source"]) for line in lines]
    if outcomes != [("client_gone", "estimated")] * len(LEFT):
        raise AssertionError(f"{outcomes}")
    if report["completion"]["tokens"] > 0 or report["engines_total"]["completion_tokens"] >= len(LEFT) * ASKED:
        raise AssertionError(f"the lines say more than the engines, or these were not cancelled: {counts(report)}")
    return f"{len(LEFT)} left: {counts(report)}"


if __name__ == "__main__":
    binary, urls = sys.argv[1], sys.argv[2:]
    print(whole_answers(binary, urls))
    print(clients_that_leave(binary, urls))
