"""Common parts of the provider adapters: call arguments, errors, and streams that are read in a thread.

Each adapter has a pure half (messages → the body of a request, pieces of an answer → the answer) and an edge, which is the provider's own
SDK with its retries turned off: the loop alone retries.
"""

from __future__ import annotations

__all__ = [
    "ARGUMENT_CHARACTERS_MAX",
    "CONNECT_S",
    "IDLE_S",
    "Pieces",
    "SdkClient",
    "broken_off",
    "call_of",
    "data_url",
    "failure",
    "inheriting",
    "known_id",
    "known_name",
    "missing",
    "reading",
]

import math
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from periplus.agent.contracts import (
    AssistantMessage,
    ContextOverflowError,
    Image,
    Message,
    ModelError,
    StreamEvent,
    ToolCall,
    ToolSchema,
    Usage,
)
from periplus.base.errors import PeriplusError, UsageError
from periplus.base.text.secrets import mask_secrets

ARGUMENT_CHARACTERS_MAX: Final = 4 << 20  # for one call; a model that writes more is stopped here
CONNECT_S: Final = 20.0
IDLE_S: Final = 300.0  # between two pieces of an answer: a model may think for long before its first
_TOLD_CHARACTERS_MAX: Final = 600
_RETRYABLE: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_PAID_UP: Final = ("insufficient_quota", "billing", "credit balance")
_TOO_LONG: Final = (
    "context_length_exceeded", "context length", "context window", "prompt is too long", "input is too long",
    "maximum context", "too many tokens", "request_too_large", "reduce the length", "exceeds the available context",
    "exceed context limit", "maximum prompt length", "maximum number of tokens",
)  # fmt: skip
_OWN_HOSTS: Final = frozenset({"api.openai.com", "api.anthropic.com"})
_ID_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ID_CHARACTERS_MAX: Final = 64


def call_of(call_id: str, name: str, raw: str) -> ToolCall:
    """Build a call whose arguments came as text. Arguments that cannot be read are kept, with the problem."""
    import json

    if len(raw) > ARGUMENT_CHARACTERS_MAX:
        problem = f"the arguments have {len(raw):,} characters; the limit is {ARGUMENT_CHARACTERS_MAX:,}"
        return ToolCall(id=call_id, name=name, raw=raw[:_TOLD_CHARACTERS_MAX], problem=problem)
    if not raw.strip():
        return ToolCall(id=call_id, name=name)
    try:
        args = json.loads(raw, parse_constant=_no_number, parse_float=_finite)
    except ValueError as error:
        return ToolCall(id=call_id, name=name, raw=raw, problem=f"the arguments are not JSON: {error}")
    except RecursionError:
        return ToolCall(
            id=call_id, name=name, raw=raw[:_TOLD_CHARACTERS_MAX], problem="the arguments are nested too deep"
        )
    if not isinstance(args, dict):
        problem = f"the arguments are a JSON {type(args).__name__}, not an object"
        return ToolCall(id=call_id, name=name, raw=raw, problem=problem)
    return ToolCall(id=call_id, name=name, args=args, raw=raw)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    """Reject numbers that overflow to infinity, which no provider would accept back."""
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:40]} is too large a number")
    return value


def known_id(call_id: str) -> str:
    """Turn a call id into one that every provider accepts; it may come from another provider, or from the loop."""
    if call_id and len(call_id) <= _ID_CHARACTERS_MAX and _ID_CHARACTERS.issuperset(call_id):
        return call_id
    import hashlib

    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def known_name(name: str) -> str:
    """Turn a tool's name into one that every provider accepts. A model may ask for an invalid one (``multi_tool_use.parallel``), and a
    provider that refuses the name would refuse each request from then on.
    """
    made = "".join(sign if sign in _ID_CHARACTERS else "_" for sign in name[:_ID_CHARACTERS_MAX])
    return made or "unnamed"


def data_url(image: Image) -> str:
    import binascii

    return f"data:{image.media_type};base64,{binascii.b2a_base64(image.data, newline=False).decode()}"


def inheriting(client: Any) -> Any:
    """Keep the SDK's settings from the environment only for the SDK's own provider.

    Headers (which may have the key of a gateway), organisation and project of the user are sent to nobody else.
    """
    if client.base_url.host in _OWN_HOSTS:
        return client
    client._custom_headers = {}  # noqa: SLF001 - there is no other way; a test sees whether they are gone
    for name in ("organization", "project"):
        if hasattr(client, name):
            setattr(client, name, None)
    return client


def missing(package: str) -> UsageError:
    """Return the error for an SDK that is not installed."""
    return UsageError(f"models of this kind need the package {package}", safe="Nothing was sent.",
                      mend=f"Install it: pip install 'periplus[{package}]'")  # fmt: skip


def failure(error: Exception, provider: str, *, was_there: bool = False) -> PeriplusError:
    """Translate an SDK error into ours. Keys in provider messages are masked.

    A connection that this machine refuses has no listener: waiting does not help, unless the server ``was_there`` a moment ago and is being
    restarted.
    """
    status = getattr(error, "status_code", 0) or 0
    absent = _where_nobody_listens(error)
    if absent:
        return ModelError(f"{provider}: nothing listens at {absent} on this machine", is_retryable=was_there,
                          mend=f"Start the server of the model (Ollama's: `ollama serve`), or give the right address: base_url of "
                          f"[providers.{provider}] in agent.toml. Then try: periplus models list --ask {provider}")  # fmt: skip
    body = getattr(error, "body", None)
    told, _ = mask_secrets(_told(error, body))
    text = f"{told} {_code(body)}".lower()
    if _is_too_long(status, text):
        return ContextOverflowError(f"{provider}: the request is longer than the model's window: {told}", status=status)
    if not status:
        kind = type(error).__name__
        is_away = "Connection" in kind or "Timeout" in kind or isinstance(error, (OSError, TimeoutError))
        what = (
            "gave no answer in time"
            if "Timeout" in kind
            else "cannot be reached"
            if is_away
            else "gave an incomplete answer"
        )
        mend = (
            f"Check that its address is right and can be reached: periplus models list --ask {provider}"
            if is_away
            else ""
        )
        return ModelError(f"{provider} {what}: {told}", is_retryable=is_away or "Error" in kind, mend=mend)
    is_retryable = (status in _RETRYABLE or _is_passing(body)) and not any(sign in text for sign in _PAID_UP)
    mend = ""
    if status in (401, 403):
        mend = f"Give a valid key: periplus models key {provider}"
    elif status == 404:
        mend = f"List the provider's models: periplus models list --ask {provider}"
    return ModelError(f"{provider} answered {status}: {told}", is_retryable=is_retryable, status=status,
                      retry_after_s=_retry_after_s(getattr(error, "response", None)), mend=mend)  # fmt: skip


def _is_too_long(status: int, text: str) -> bool:
    """Return whether a shorter request may be accepted. Status 413 says so for gateways too. A request over a minute's allowance stays
    over it in the next minute: waiting does not help with that 429.
    """
    if status == 413 or (status == 429 and "request too large" in text):
        return True
    return status in (0, 400) and any(sign in text for sign in _TOO_LONG)


def _where_nobody_listens(error: BaseException) -> str:
    """Return host and port of this machine that refused the connection; empty for other errors."""
    url = getattr(getattr(error, "request", None), "url", None)
    host = str(getattr(url, "host", ""))
    is_here = host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")  # noqa: S104 - an address that is compared
    cause: BaseException | None = error if is_here else None
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    return "" if cause is None else str(getattr(url, "netloc", b"").decode("ascii", "replace"))


def _code(body: object) -> str:
    inner = body.get("error", body) if isinstance(body, dict) else None
    return f"{inner.get('type', '')} {inner.get('code', '')}" if isinstance(inner, dict) else ""


def _is_passing(body: object) -> bool:
    """Detect a transient error in the middle of a stream, which has no status of its own."""
    return any(sign in _code(body) for sign in ("overloaded_error", "rate_limit", "api_error", "server_error"))


def _told(error: Exception, body: object) -> str:
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    text = str(message or "") or str(error) or type(error).__name__
    return " ".join(text.split())[:_TOLD_CHARACTERS_MAX]


def _retry_after_s(response: Any) -> float | None:
    """Parse Retry-After (RFC 9110 §10.2.3: seconds or a date) and the milliseconds that some providers send."""
    headers: Mapping[str, str] = getattr(response, "headers", {})
    try:
        if headers.get("retry-after-ms"):
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        said = headers.get("retry-after", "")
        if said and not said[0].isdigit():
            from datetime import UTC, datetime
            from email.utils import parsedate_to_datetime

            return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
        return float(said) if said else None
    except (ValueError, TypeError):
        return None


_STOPPED: Final = "the turn was stopped before the answer came"


class Pieces:
    """The pieces of an answer, read by a thread, so that a waiting caller can be stopped at any moment.

    A blocked socket cannot be woken on all systems, so it is left behind and closed by its own thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: queue.SimpleQueue[tuple[str, Any]] | None = None
        self._is_stopped = False
        self._was_there = False  # the server has answered before

    def begin(self) -> None:
        """Announce an answer. A cancellation from here on cancels it, even while the SDK is still loading."""
        with self._lock:
            self._is_stopped = False

    def cancel(self) -> None:
        """End the answer that is being read, or was announced, with a ModelError. Without one, do nothing."""
        with self._lock:
            self._is_stopped = True
            if self._current is not None:
                self._current.put(("cancelled", None))

    def read(self, open_stream: Callable[[], Any], provider: str) -> Iterator[Any]:
        """Yield what ``open_stream()`` gives, piece by piece. Raises ModelError and ContextOverflowError."""
        found: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        left = threading.Event()
        with self._lock:
            if self._is_stopped:
                raise ModelError(_STOPPED)
            self._current = found
        threading.Thread(target=_feed, args=(open_stream, found, left), name="periplus-model", daemon=True).start()
        try:
            while True:
                kind, value = found.get()
                if kind == "piece":
                    self._was_there = True
                    yield value
                elif kind == "end":
                    return
                elif kind == "cancelled":
                    raise ModelError(_STOPPED)
                else:
                    self._was_there |= bool(getattr(value, "status_code", 0))
                    raise failure(value, provider, was_there=self._was_there) from value
        finally:
            left.set()
            with self._lock:
                if self._current is found:
                    self._current = None


class SdkClient(ABC):
    """Base of all provider clients. Subclasses implement ``stream``; the SDK's own client is opened at the first request."""

    def __init__(
        self, model: str, *, key: str, base_url: str, max_tokens: int, provider: str,
        extra: Mapping[str, Any] | None = None, cost: Callable[[Usage], int] = lambda _: 0,
    ) -> None:  # fmt: skip
        self._model, self._provider, self._max_tokens = model, provider, max_tokens
        self._key, self._base_url = key or "none", base_url  # an empty key makes a header that no SDK sends
        self._extra = dict(extra or {})
        self._cost = cost
        self._pieces = Pieces()
        self._held: Any = None
        self._warming: threading.Thread | None = None

    @abstractmethod
    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]: ...

    @abstractmethod
    def _open(self) -> Any:
        """Open the SDK's client. Raises UsageError if the SDK is not installed."""

    def warm(self) -> None:
        """Start loading the SDK, which takes a second or more, while the caller prepares the first request. Nothing is sent; errors
        surface with the first request. Who warms a client closes it, so that no thread is in the middle of an import then.
        """
        if self._held is None and self._warming is None:
            self._warming = threading.Thread(target=self._warm, name="periplus-sdk", daemon=True)
            self._warming.start()

    def _warm(self) -> None:
        try:
            self._held = inheriting(self._open())
        except Exception:  # noqa: BLE001 - whatever it is, the first request meets it again and tells it
            self._held = None

    def _settle(self) -> None:
        warming, self._warming = self._warming, None
        if warming is not None:
            warming.join()

    @property
    def _client(self) -> Any:
        self._settle()
        if self._held is None:
            self._held = inheriting(self._open())
        return self._held

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage:
        for event in self.stream(messages, tools):
            if event.message is not None:
                return event.message
        raise broken_off()

    def cancel(self) -> None:
        self._pieces.cancel()

    def close(self) -> None:
        self._settle()
        if self._held is not None:
            self._held.close()
            self._held = None


@contextmanager
def reading(provider: str) -> Iterator[None]:
    """Treat a malformed piece of an answer as a retryable error of the provider."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ModelError(f"{provider} gave an answer that cannot be read: {error}", is_retryable=True) from error


def broken_off() -> ModelError:
    return ModelError("the answer broke off before its end", is_retryable=True)


def _feed(open_stream: Callable[[], Any], found: queue.SimpleQueue[tuple[str, Any]], left: threading.Event) -> None:
    try:
        stream = open_stream()
        try:
            for piece in stream:
                if left.is_set():
                    return
                found.put(("piece", piece))
        finally:
            stream.close()
        found.put(("end", None))
    except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits is told
        found.put(("error", error))
