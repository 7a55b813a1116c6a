"""Recording and replay of conversations with a model, as lines of JSON, for tests, demonstrations and bug reports.

Each line is one exchange: a digest of the request, and the whole answer. Secrets are masked before a line is written.
"""

from __future__ import annotations

__all__ = ["RecordedClient", "RecordingClient", "request_digest"]

import os
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from periplus.agent.contracts import (
    AssistantMessage,
    LLMClient,
    Message,
    ModelError,
    StreamEvent,
    StreamingClient,
    ToolSchema,
)
from periplus.base.errors import FormatError, environment_failure
from periplus.base.files import Files, read_plain, write_all
from periplus.base.text.secrets import mask_secrets

_BYTES_MAX: Final = 256 << 20
_VERSION: Final = 1


class _Exchange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    v: int
    asked: str
    answer: AssistantMessage


def request_digest(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
    """SHA-256 over the request in hexadecimal: equal for equal messages and tools in the same order."""
    import hashlib

    return hashlib.sha256(msgspec.json.encode([list(messages), list(tools)], order="sorted")).hexdigest()


class RecordedClient:
    """Replays the answers of a recording in order.

    ``strict``: each request has to equal the recorded one byte for byte; otherwise only the order counts. Raises ModelError if a request
    differs or the recording ends.
    """

    def __init__(self, path: str, *, strict: bool = True) -> None:
        """Open the recording. Raises FormatError, EnvironmentFailure."""
        self._path, self._strict = path, strict
        try:
            data = read_plain(path, _BYTES_MAX)
        except OSError as error:
            raise environment_failure(error, "read", path) from error
        decoder = msgspec.json.Decoder(_Exchange)
        self._exchanges: list[_Exchange] = []
        for number, line in enumerate(data.splitlines(), 1):
            try:
                exchange = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise FormatError(
                    f"{path}, line {number}: not an exchange with a model: {error}",
                    safe="Nothing was run.",
                    mend="Give a file that `periplus run --record FILE` made.",
                ) from error
            if exchange.v != _VERSION:
                raise FormatError(f"{path}, line {number}: version {exchange.v}; this Periplus reads {_VERSION}")
            self._exchanges.append(exchange)
        self._at = 0

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage:
        if self._at >= len(self._exchanges):
            raise ModelError(
                f"{self._path}: the recording ends after {len(self._exchanges)} answer{'s' * (len(self._exchanges) != 1)}"
            )
        exchange = self._exchanges[self._at]
        if self._strict and exchange.asked != request_digest(messages, tools):
            raise ModelError(
                f"{self._path}: request {self._at + 1} differs from the recorded one",
                mend="Record it again, or replay it without the strict check.",
            )
        self._at += 1
        return exchange.answer

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        message = self.complete(messages, tools)
        for line in message.content.splitlines(keepends=True):
            yield StreamEvent(kind="text", text=line)
        yield StreamEvent(kind="message", message=message)


class RecordingClient:
    """Passes requests to ``client`` and appends each exchange to the file ``path`` before the answer is returned."""

    def __init__(self, client: LLMClient, path: str, files: Files | None = None) -> None:
        """Open the file. Raises EnvironmentFailure if it cannot be written."""
        self._client, self._path = client, path
        self._files = files or Files()
        try:
            self._fd = self._files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise environment_failure(error, "write to", path) from error

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantMessage:
        answer = self._client.complete(messages, tools)
        self._keep(messages, tools, answer)
        return answer

    def stream(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Iterator[StreamEvent]:
        if not isinstance(self._client, StreamingClient):
            yield StreamEvent(kind="message", message=self.complete(messages, tools))
            return
        for event in self._client.stream(messages, tools):
            if event.message is not None:
                self._keep(messages, tools, event.message)
            yield event

    def cancel(self) -> None:
        cancel = getattr(self._client, "cancel", None)
        if cancel is not None:
            cancel()

    def close(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    def _keep(self, messages: Sequence[Message], tools: Sequence[ToolSchema], answer: AssistantMessage) -> None:
        exchange = _Exchange(v=_VERSION, asked=request_digest(messages, tools), answer=answer)
        line, _ = mask_secrets(msgspec.json.encode(exchange).decode())
        try:
            msgspec.json.decode(line, type=_Exchange)
        except msgspec.DecodeError:  # masking broke the syntax of the line
            empty = AssistantMessage(content="(left out: it holds a secret)", finish_reason=answer.finish_reason)
            line = msgspec.json.encode(msgspec.structs.replace(exchange, answer=empty)).decode()
        try:
            write_all(self._files, self._fd, line.encode() + b"\n")
        except OSError as error:
            raise environment_failure(error, "write to", self._path) from error
