"""Drives the official SDKs into every refusal of the gateway. Runs in the clients' environment.

    python refusal_clients.py BASE_URL      one JSON line for each refusal and SDK

Keys and models are those of refusals.py. Every refusal is asked for whole and as a stream where the SDK can.
The SDKs' own retries are off, so that the first answer is the one seen.
"""

import json
import sys
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import anthropic
import openai

PATIENCE_S = 30
QUESTION = [{"role": "user", "content": "Say something about rivers."}]
LONG = {"max_tokens": 2000, "extra_body": {"ignore_eos": True}}

# For each status: the exception class, and the error's `type`, as the provider's own API has them.
OPENAI = {
    400: (openai.BadRequestError, "invalid_request_error"),
    401: (openai.AuthenticationError, "authentication_error"),
    404: (openai.NotFoundError, "invalid_request_error"),
    413: (openai.APIStatusError, "invalid_request_error"),
    429: (openai.RateLimitError, "rate_limit_error"),
    503: (openai.InternalServerError, "server_error"),
}
ANTHROPIC = {
    400: (anthropic.BadRequestError, "invalid_request_error"),
    401: (anthropic.AuthenticationError, "authentication_error"),
    404: (anthropic.NotFoundError, "not_found_error"),
    413: (anthropic.RequestTooLargeError, "request_too_large"),
    429: (anthropic.RateLimitError, "rate_limit_error"),
    503: (anthropic.ServiceUnavailableError, "overloaded_error"),
}


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class OpenAi:
    name, classes, prefix, path = "openai", OPENAI, "/v1", "/chat/completions"

    without_key = {"Authorization": openai.Omit()}

    def client(self, base, key):
        return openai.OpenAI(base_url=base, api_key=key or "unused", max_retries=0, timeout=PATIENCE_S)

    def create(self, client, **asked):
        return client.chat.completions.create(**asked)

    def check_body(self, error, case, kind):
        expect((error.code, error.type) == (case.code, kind), f"code {error.code}, type {error.type}")
        expect(error.param == case.param, f"param {error.param}, not {case.param}")
        expect(error.request_id == error.response.headers["x-request-id"], f"request_id {error.request_id}")
        return error.body["message"]


class Anthropic:
    name, classes, prefix, path = "anthropic", ANTHROPIC, "", "/v1/messages"

    without_key = {"X-Api-Key": anthropic.Omit(), "Authorization": anthropic.Omit()}

    def client(self, base, key):
        return anthropic.Anthropic(base_url=base, api_key=key or "unused", max_retries=0, timeout=PATIENCE_S)

    def create(self, client, **asked):
        return client.messages.create(**asked)

    def check_body(self, error, case, kind):
        # This dialect has no code: it stands in the usage line alone.
        expect((error.body["type"], error.body["error"]["type"]) == ("error", kind), f"body {error.body}")
        expect(error.request_id == error.response.headers["x-request-id"], f"request_id {error.request_id}")
        return error.body["error"]["message"]


SDKS = (OpenAi(), Anthropic())


@dataclass(frozen=True)
class Case:
    """A refusal: how to meet it, and what must be seen."""

    name: str
    status: int
    code: str
    key: str | None = "normal"
    asked: dict = field(default_factory=dict)
    raw: bytes | None = None  # a body that no SDK would write
    bases: dict | None = None  # what follows BASE_URL, by the SDK's name, where it is not what should
    param: str | None = None
    retry_after: range | None = None
    fields: tuple = ()
    says: str = ""
    meanwhile: Callable = nullcontext  # takes BASE_URL, gives a context manager

    def ask(self, sdk, base, stream):
        base += self.bases[sdk.name] if self.bases else sdk.prefix
        with sdk.client(base, self.key) as client:
            if self.raw is not None:
                fields = {"content-type": "application/json"}
                return client.post(sdk.path, cast_to=object, content=self.raw, options={"headers": fields})
            asked = {"model": "tiny", "messages": QUESTION, "max_tokens": 8, "stream": stream, **self.asked}
            # An SDK wants some key; leaving its field out of a request is how none is sent.
            return sdk.create(client, **asked, extra_headers=sdk.without_key if self.key is None else None)


def long_text(size):
    return {"messages": [{"role": "user", "content": "A" * size}]}


def a_stream_of(model, key):
    """A stream that goes on all the while. It has begun, so it has its slot and its place."""

    @contextmanager
    def going_on(base):
        sdk = SDKS[0]
        with sdk.client(base + sdk.prefix, key) as client:
            with sdk.create(client, model=model, messages=QUESTION, stream=True, **LONG) as stream:
                next(iter(stream))
                yield

    return going_on


def a_request_of(key):
    """One request before, which is answered."""

    @contextmanager
    def answered(base):
        sdk = SDKS[0]
        with sdk.client(base + sdk.prefix, key) as client:
            sdk.create(client, model="tiny", messages=QUESTION, max_tokens=1)
            yield

    return answered


WRONG_BASES = {"openai": "", "anthropic": "/v1"}
LIMIT_FIELDS = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")
CASES = [
    Case("missing key", 401, "missing_api_key", key=None, fields=("www-authenticate",)),
    Case("bad key", 401, "invalid_api_key", key="unknown", fields=("www-authenticate",)),
    Case("unknown model", 404, "model_not_found", asked={"model": "unknown"}, param="model", says="unknown"),
    Case("model not allowed", 404, "model_not_found", key="other only", param="model"),
    Case("model missing", 400, "invalid_model", raw=json.dumps({"messages": QUESTION}).encode(), param="model"),
    Case("model not a string", 400, "invalid_model", asked={"model": 7}, param="model"),
    Case("bad JSON", 400, "invalid_json", raw=b'{"model": "tiny", "messages": ['),
    Case("wrong base URL", 404, "unknown_path", bases=WRONG_BASES, says="did you mean"),
    Case("too large", 413, "request_too_large", asked=long_text(100_000), says="65536"),
    # Far more than the sockets hold: the answer comes while the client still writes.
    Case("far too large", 413, "request_too_large", asked=long_text(30_000_000), says="65536"),
    Case(
        "key limit, requests at a time",
        429,
        "key_limit",
        key="one at a time",
        retry_after=range(1, 2),
        meanwhile=a_stream_of("tiny", "one at a time"),
    ),
    Case(
        "key limit, requests a minute",
        429,
        "key_limit",
        key="one a minute",
        retry_after=range(2, 61),
        fields=LIMIT_FIELDS,
        meanwhile=a_request_of("one a minute"),
    ),
    Case("key limit below the request", 400, "key_limit_too_small", key="few tokens", asked={"max_tokens": 1000}),
    Case(
        "overloaded, queue full",
        429,
        "queue_full",
        asked={"model": "no queue"},
        retry_after=range(1, 61),
        meanwhile=a_stream_of("no queue", "normal"),
    ),
    Case(
        "overloaded, waited too long",
        503,
        "queue_timeout",
        asked={"model": "short queue"},
        retry_after=range(1, 61),
        meanwhile=a_stream_of("short queue", "normal"),
    ),
    Case("no healthy replica", 503, "no_healthy_instances", asked={"model": "gone"}, retry_after=range(3, 4)),
]


def refusal(case, sdk, base, stream):
    """Asks; returns the SDK's error."""
    try:
        case.ask(sdk, base, stream)
    except (openai.APIError, anthropic.APIError) as error:
        return error
    raise AssertionError("it was answered")


def check(case, sdk, error):
    wanted, kind = sdk.classes[case.status]
    expect(type(error) is wanted, f"{type(error).__name__}, not {wanted.__name__}: {error}")
    head = error.response.headers
    expect(error.status_code == case.status, f"status {error.status_code}")
    message = sdk.check_body(error, case, kind)
    expect(case.says in message and message, f"the message says {message}")
    expect(head.get("x-request-id"), f"no x-request-id in {dict(head)}")
    after = head.get("retry-after")
    if case.retry_after is None:
        expect(after is None, f"Retry-After {after}")
    else:
        expect(after is not None and int(after) in case.retry_after, f"Retry-After {after}, not {case.retry_after}")
    for name in case.fields:
        expect(head.get(name), f"no {name} in {dict(head)}")
    return f"{case.status} {case.code}: {type(error).__name__}" + (f", again after {after} s" if after else "")


def check_both(case, sdk, base, seen):
    """The same refusal whole and as a stream. What no SDK would write is posted once."""
    for stream in (False,) if case.raw else (False, True):
        error = refusal(case, sdk, base, stream)
        if isinstance(error, (openai.APIStatusError, anthropic.APIStatusError)):
            request_id = error.response.headers.get("x-request-id")
            seen.append({"request_id": request_id, "status": error.status_code, "code": case.code})
        detail = check(case, sdk, error)
    return detail


def main(base):
    for case in CASES:
        rows = []
        try:
            with case.meanwhile(base):
                for sdk in SDKS:
                    rows.append((f"{sdk.name}: {case.name}", *verdict(case, sdk, base)))
        except Exception as error:  # what should go on meanwhile does not
            rows.append((case.name, "FAIL", f"{type(error).__name__}: {error}", []))
        for name, how, detail, seen in rows:
            print(json.dumps({"name": name, "verdict": how, "detail": detail, "seen": seen}), flush=True)


def verdict(case, sdk, base):
    seen = []
    try:
        return "pass", check_both(case, sdk, base, seen), seen
    except Exception as error:  # any failure of any SDK is a finding, told and counted
        return "FAIL", f"{type(error).__name__}: {error}", seen


main(sys.argv[1])
