"""The stage `refusals`: what the official SDKs make of every refusal of the gateway. Needs no real engine.

Starts simulated replicas and a gateway with keys, limits, slots and a short queue; refusal_clients.py asks.
Standard library only.
"""

import hashlib
import json
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import engines
from gateway import Gateway, free_port, wait_for

NAME = "refusals"
PATIENCE_S = 30

# The clients know these keys and models by name. Every pool has a replica of its own, so that slots are not shared.
CONFIG = """
[listen]
max_body = "64KiB"

[[pools]]
name = "roomy"
replicas = ["{roomy}"]

[[pools]]
name = "narrow"
replicas = ["{narrow}"]
slots = 1

[[pools]]
name = "gone"
replicas = ["{gone}"]

{routes}
{keys}
"""

ROUTES = {
    "tiny": ("roomy", ""),
    "other": ("roomy", ""),
    "no queue": ("narrow", "queue = { max_length = 0 }"),
    "short queue": ("narrow", 'queue = { max_length = 1, max_wait = "200ms" }'),
    "gone": ("gone", ""),
}
KEYS = {
    "normal": "",
    "one at a time": "max_concurrent = 1",
    "one a minute": "requests_per_minute = 1",
    "few tokens": "tokens_per_minute = 100",
    "other only": 'routes = ["other"]',
}


def config(**urls):
    routes = [
        f'[[routes]]\nmodel = "{model}"\ntargets = [{{ pool = "{pool}", upstream_model = "sim" }}]\n{more}\n'
        for model, (pool, more) in ROUTES.items()
    ]
    keys = [
        f'[[keys]]\nname = "{name}"\nhash = "sha256:{hashlib.sha256(name.encode()).hexdigest()}"\n{limit}\n'
        for name, limit in KEYS.items()
    ]
    return CONFIG.format(routes="\n".join(routes), keys="\n".join(keys), **urls)


@contextmanager
def simulated(binary):
    """One simulated replica; gives its URL."""
    port = free_port()
    log = open(engines.REAL / "refusals-sim.log", "ab")
    command = [str(binary), "sim", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, PATIENCE_S, "the simulated replica")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def ask_everything(table, base):
    """Runs the clients; returns what the usage lines must say, by request id."""
    told = {}
    command = [str(engines.python_in("clients")), str(Path(__file__).with_name("refusal_clients.py")), base]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        row = json.loads(line)
        table.add(NAME, row["name"], row["verdict"], row["detail"])
        told.update({seen["request_id"]: seen for seen in row["seen"]})
    if process.wait() != 0:
        table.add(NAME, "SDK clients", "FAIL", f"ended with {process.returncode}")
    return told


def usage_lines(gateway, told):
    """Each refusal has exactly one usage line, of the same status and code."""
    gateway.stop()
    refused = {}
    for line in gateway.usage():
        if line["error_type"] is not None and line["outcome"] != "client_gone":
            if line["request_id"] in refused:
                raise AssertionError(f"two lines of {line['request_id']}")
            refused[line["request_id"]] = line
    if not told or refused.keys() != told.keys():
        raise AssertionError(f"{len(refused)} lines of refusals for {len(told)} that clients saw")
    for request_id, seen in told.items():
        line = refused[request_id]
        if (line["status"], line["error_type"]) != (seen["status"], seen["code"]):
            raise AssertionError(f"the client was told {seen}, the line says {line}")
    return f"{len(told)} refusals, each with its line, status and code"


def stage(table, binary):
    try:
        with ExitStack() as running:
            roomy, narrow = (running.enter_context(simulated(binary)) for _ in range(2))
            path = engines.REAL / "refusals.toml"
            path.write_text(config(roomy=roomy, narrow=narrow, gone=f"http://127.0.0.1:{free_port()}"))
            gateway = running.enter_context(Gateway(binary, ["--config", path], NAME))
            told = ask_everything(table, gateway.base)
            table.run(NAME, "refusals in usage lines", lambda: usage_lines(gateway, told))
    except RuntimeError as error:
        table.add(NAME, "gateway starts", "FAIL", str(error))
