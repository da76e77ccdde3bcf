"""Drives an OpenAI-shaped server with the official SDKs. Runs in the clients' environment.

    python clients.py sdk  BASE_URL MODEL SKIP ENGINE_URL...   the checks below but SKIP (or "-"), one JSON line each
    python clients.py load BASE_URL MODEL SECONDS              streams without a pause; says "warm", then one JSON line

ENGINE_URLs are the engines' own addresses: a cancelled request must stop there, not only here.
The SDKs' own retries are off, so every failure a client would see is seen.
"""

import asyncio
import json
import re
import sys
import time
import urllib.request
from collections import Counter

import anthropic
import openai

PATIENCE_S = 120
QUESTION = [{"role": "user", "content": "Say something about rivers."}]
LONG_TOKENS = 1500
LONG = {"ignore_eos": True}  # the tiny model ends when it likes; this makes lengths certain


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Sdk:
    """The checks. Each returns what it saw, and counts the generations it asked for."""

    def __init__(self, base, model, engines):
        self.base, self.model, self.engines = base, model, engines
        settings = {"api_key": "unused", "max_retries": 0, "timeout": PATIENCE_S}
        self.openai = openai.OpenAI(base_url=f"{base}/v1", **settings)
        self.async_openai = openai.AsyncOpenAI(base_url=f"{base}/v1", **settings)
        self.anthropic = anthropic.Anthropic(base_url=base, **settings)
        self.generations = 0

    def asked(self, **more):
        self.generations += 1
        return {"model": self.model, "messages": QUESTION, "max_tokens": 8, **more}

    def openai_models(self):
        names = [model.id for model in self.openai.models.list()]
        expect(self.model in names, f"{self.model} is not among {names}")
        return f"{names}"

    def openai_whole(self):
        answer = self.openai.chat.completions.create(**self.asked())
        expect(answer.choices[0].finish_reason in ("stop", "length"), f"finish {answer.choices[0].finish_reason}")
        expect(answer.usage.prompt_tokens > 0, "no prompt tokens")
        return f"{answer.usage.prompt_tokens}+{answer.usage.completion_tokens} tokens"

    def openai_stream(self):
        """No usage was asked for, so none may arrive, whatever the gateway asks for itself."""
        chunks = list(self.openai.chat.completions.create(**self.asked(stream=True)))
        expect(all(chunk.choices for chunk in chunks), "a chunk without choices reached a client that asked for none")
        expect(all(chunk.usage is None for chunk in chunks), "usage reached a client that asked for none")
        expect(chunks[-1].choices[0].finish_reason in ("stop", "length"), "no finish reason at the end")
        return f"{len(chunks)} chunks"

    def openai_stream_usage(self):
        wanted = self.asked(stream=True, stream_options={"include_usage": True})
        chunks = list(self.openai.chat.completions.create(**wanted))
        expect(not chunks[-1].choices and chunks[-1].usage, "the last chunk is not the usage")
        return f"{chunks[-1].usage.completion_tokens} tokens in {len(chunks)} chunks"

    def openai_text(self):
        """The older text endpoint, streamed."""
        self.generations += 1
        stream = self.openai.completions.create(model=self.model, prompt="Once", max_tokens=8, stream=True)
        return f"{len(list(stream))} chunks"

    def openai_async(self):
        async def together():
            async def whole():
                answer = await self.async_openai.chat.completions.create(**self.asked())
                return answer.usage.completion_tokens

            async def streamed():
                stream = await self.async_openai.chat.completions.create(**self.asked(stream=True))
                return len([chunk async for chunk in stream])

            return await asyncio.gather(*[whole() for _ in range(4)], *[streamed() for _ in range(4)])

        return f"tokens and chunks {asyncio.run(together())}"

    def openai_cancel_stream(self):
        before = tokens_made(self.engines)
        with self.openai.chat.completions.create(**self.long(stream=True)) as stream:
            for _, _ in zip(range(3), stream):
                pass
        return self.cut_short(before)

    def openai_cancel_async(self):
        """A client that loses patience with a non-stream request."""

        async def impatient():
            async with openai.AsyncOpenAI(base_url=f"{self.base}/v1", api_key="unused", max_retries=0) as client:
                try:
                    # Not the SDK's own timeout: that one was seen to leave the connection open.
                    await asyncio.wait_for(client.chat.completions.create(**self.long()), 0.4)
                except asyncio.TimeoutError:
                    return
            raise AssertionError("the answer came before the client could leave")

        before = tokens_made(self.engines)
        asyncio.run(impatient())
        return self.cut_short(before)

    def long(self, **more):
        """A request for thousands of tokens, seconds of work."""
        return {**self.asked(extra_body=LONG, n=2, **more), "max_tokens": LONG_TOKENS}

    def cut_short(self, before):
        """The engine must have dropped the work. Its metrics answer late while it is busy, so tokens are counted."""
        idle = wait_until_idle(self.engines)
        made = tokens_made(self.engines) - before
        expect(made < LONG_TOKENS * 1.5, f"the engine went on to make {made:.0f} tokens for nobody")
        return f"idle after {idle:.1f} s, {made:.0f} of {2 * LONG_TOKENS} tokens made"

    def openai_errors(self):
        """An engine's refusal of a prompt that is too long arrives as the SDK's own typed error."""
        too_long = [{"role": "user", "content": "A river. " * 8000}]
        try:
            self.openai.chat.completions.create(**self.asked(messages=too_long))
        except openai.BadRequestError as error:
            expect(error.body, "no error body")
            return f"400 {error.type}"
        raise AssertionError("a prompt longer than the context was accepted")

    def anthropic_whole(self):
        answer = self.anthropic.messages.create(**self.asked())
        expect(answer.type == "message" and answer.usage.output_tokens > 0, f"{answer}")
        return f"{answer.usage.input_tokens}+{answer.usage.output_tokens} tokens"

    def anthropic_stream(self):
        kinds = Counter()
        with self.anthropic.messages.stream(**self.asked()) as stream:
            kinds.update(event.type for event in stream)
        expect(kinds["message_start"] == 1 and kinds["message_stop"] == 1, f"{dict(kinds)}")
        return f"{sum(kinds.values())} events"


CHECKS = {
    "openai models": Sdk.openai_models,
    "openai": Sdk.openai_whole,
    "openai stream": Sdk.openai_stream,
    "openai stream with usage": Sdk.openai_stream_usage,
    "openai text completion": Sdk.openai_text,
    "openai async, 8 at once": Sdk.openai_async,
    "openai cancel of a stream": Sdk.openai_cancel_stream,
    "openai cancel without a stream": Sdk.openai_cancel_async,
    "openai error": Sdk.openai_errors,
    "anthropic": Sdk.anthropic_whole,
    "anthropic stream": Sdk.anthropic_stream,
}


def metric(engines, names):
    """The sum of metrics over engines, by any of their names (vLLM's and llama-server's)."""
    wanted = rf"^(?:{'|'.join(names)})(?:\{{[^}}]*\}})? (\S+)"
    total = 0.0
    for engine in engines:
        with urllib.request.urlopen(f"{engine}/metrics", timeout=60) as page:
            total += sum(float(value) for value in re.findall(wanted, page.read().decode(), flags=re.M))
    return total


def tokens_made(engines):
    return metric(engines, ["vllm:generation_tokens_total", "llamacpp:tokens_predicted_total"])


def wait_until_idle(engines, patience_s=60):
    """Seconds until nothing runs or waits."""
    names = ["vllm:num_requests_running", "vllm:num_requests_waiting"]
    names += ["llamacpp:requests_processing", "llamacpp:requests_deferred"]
    begun = time.monotonic()
    while metric(engines, names) > 0:
        expect(time.monotonic() - begun < patience_s, f"still running {patience_s} s after the client left")
        time.sleep(0.05)
    return time.monotonic() - begun


def say(**fields):
    print(json.dumps(fields), flush=True)


def sdk(base, model, skip, *engines):
    session = Sdk(base, model, engines)
    for name, check in CHECKS.items():
        if name == skip:
            continue
        before = session.generations
        try:
            verdict, detail = "pass", check(session)
        except Exception as error:  # any failure of any SDK is a finding, told and counted
            verdict, detail = "FAIL", f"{type(error).__name__}: {error}"
        say(name=name, verdict=verdict, detail=detail, generations=session.generations - before)


def load(base, model, seconds):
    """Streams from 8 clients; a failure before the first chunk is an error a client must never see."""
    ended, broken, begun = Counter(), [], time.monotonic()

    async def client(session, number):
        turn = 0
        while time.monotonic() - begun < float(seconds):
            turn += 1
            first = False
            try:
                stream = await session.chat.completions.create(
                    model=model,
                    messages=[{"role": "user", "content": f"client {number}, turn {turn}"}],
                    max_tokens=24,
                    stream=True,
                    extra_body=LONG,
                )
                async for _ in stream:
                    first = True
                ended["whole"] += 1
            except Exception as error:  # every kind counts
                ended["cut after the first byte" if first else "failed before the first byte"] += 1
                broken.append(f"{type(error).__name__}: {error}")
            if ended["whole"] == 16:
                print("warm", flush=True)

    async def all_clients():
        session = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="unused", max_retries=0, timeout=PATIENCE_S)
        await asyncio.gather(*[client(session, number) for number in range(8)])

    asyncio.run(all_clients())
    say(ended=dict(ended), broken=broken[:3])


{"sdk": sdk, "load": load}[sys.argv[1]](*sys.argv[2:])
