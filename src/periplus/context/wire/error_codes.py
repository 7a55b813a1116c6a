"""The table of ERROR codes. Only its texts cross the wire, never the text of an exception.

::

    WireError (UsageError)        the caller of a machine: a stream that is not open, a frame that is too large, no capability
    ProtocolError (FormatError)   the peer: bytes that break the rules; raised inside a machine only, which closes the connection
    RemoteError (RefusedError)    the peer said ERROR to a request; ``error_of`` gives the fitting error of the field
"""

from __future__ import annotations

__all__ = [
    "ERRORS", "REDACTED_FIELD", "ErrorCode", "ErrorRow", "ProtocolError", "RemoteError", "WireError", "code_of", "error_of", "message_of",
]  # fmt: skip

from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import (
    ConflictError,
    DamageError,
    EnvironmentFailure,
    FormatError,
    LockTimeoutError,
    NotFoundError,
    PeriplusError,
    RefusedError,
    UsageError,
)

ErrorCode: TypeAlias = Literal[
    "ambiguous", "bad_request", "busy", "cancelled", "conflict", "damaged", "flow_control", "frame_too_large", "handshake_timeout",
    "idle_timeout", "internal", "not_found", "protocol", "rate_limited", "refused", "shutting_down", "too_large", "too_many_streams",
    "unauthorized", "unknown_base", "unsupported", "unsupported_version",
]  # fmt: skip


class ErrorRow(NamedTuple):
    """A row of the table. ``is_fatal``: the connection ends with it. ``is_retryable``: the same request may succeed
    later.

    ``mend`` is the next step for the user if the message does not say it; it does not cross the wire.
    """

    code: ErrorCode
    is_fatal: bool
    is_retryable: bool
    message: str
    mend: str = ""


# The ``field`` of an ERROR ``refused`` for objects that were redacted at the server; older peers show it as it is.
REDACTED_FIELD: Final = "redacted"
_OWNER: Final = "Ask whoever runs the server."

_ROWS: Final = (
    ErrorRow("ambiguous", False, False, "A short hash stands for more than one object; use the whole digest."),
    ErrorRow("bad_request", False, False, "The request has a value that is not allowed; see the named field."),
    ErrorRow("busy", False, True, "The server is overloaded; ask again later."),
    ErrorRow("cancelled", False, True, "The stream was cancelled."),
    ErrorRow("conflict", False, False, "The present value is not the expected one; nothing was changed."),
    ErrorRow("damaged", False, False, "Stored data is damaged; the owner of the store can run periplus doctor."),
    ErrorRow("flow_control", True, False, "More was sent, or granted, than the window allows."),
    ErrorRow("frame_too_large", True, False, "A frame is larger than agreed."),
    ErrorRow("handshake_timeout", True, True, "The handshake took too long."),
    ErrorRow("idle_timeout", True, True, "Nothing arrived within the agreed time."),
    ErrorRow("internal", False, True, "The server failed; its log says why."),
    ErrorRow("not_found", False, False, "What was asked for is not here."),
    ErrorRow("protocol", True, False, "A frame breaks the rules of the protocol."),
    ErrorRow("rate_limited", False, True, "Too many requests in too short a time; nothing was done."),
    ErrorRow("refused", False, False, "The server does not allow this.", _OWNER),
    ErrorRow("shutting_down", False, True, "The server is shutting down and takes no more requests."),
    ErrorRow(
        "too_large",
        False,
        False,
        "The answer or the request is too large; ask for a stream, or for less.",
    ),
    ErrorRow("too_many_streams", False, True, "More requests are open than agreed."),
    ErrorRow(
        "unauthorized",
        True,
        False,
        "The token is missing or wrong.",
        "Name a file with the server's token with --token-file; whoever runs the server has it.",
    ),
    ErrorRow("unknown_base", False, False, "A context on which this one is based is not here."),
    ErrorRow(
        "unsupported",
        False,
        False,
        "The server does not offer this; a read-only server, for example, takes no pushes.",
        _OWNER,
    ),
    ErrorRow("unsupported_version", True, False, "The two sides share no version of the protocol; this side speaks 2."),
)
ERRORS: Final[dict[str, ErrorRow]] = {row.code: row for row in _ROWS}


class WireError(UsageError):
    """The caller broke the rules of a machine: a stream that is not open, a payload that fits no frame, a missing
    capability.
    """

    code = "wire"


class ProtocolError(FormatError):
    """The peer broke the rules; ``wire_code`` is sent to the peer, the text is for the log of this side."""

    code = "protocol"

    def __init__(self, wrong: str, wire_code: ErrorCode = "protocol", *, stream: int = 0) -> None:
        super().__init__(wrong)
        self.wire_code = wire_code
        self.stream = stream


class RemoteError(RefusedError):
    """The peer answered a request with ERROR, or ended the connection with it."""

    code = "remote"

    def __init__(
        self, wire_code: str, wrong: str, *, is_retryable: bool = False, safe: str = "", mend: str = ""
    ) -> None:
        super().__init__(wrong, safe=safe, mend=mend)
        self.wire_code = wire_code
        self.is_retryable = is_retryable


def message_of(code: str) -> str:
    """Return our own text for ``code``, whatever the peer sent; an unknown code is named."""
    row = ERRORS.get(code)
    return row.message if row is not None else "The peer reports an error with an unknown code."


def code_of(error: BaseException) -> ErrorCode:
    """Return the code for ``error``, by its class only, never by its text."""
    for kind, code in _KINDS:
        if isinstance(error, kind):
            return code
    return "internal"


_SAFE: Final = "No ref was moved; what was transferred is kept."
_AGAIN: Final = "Repeat the command later: it continues where it stopped."
_KINDS: Final[tuple[tuple[type[BaseException], ErrorCode], ...]] = (
    (ProtocolError, "protocol"),
    (NotFoundError, "not_found"),
    (ConflictError, "conflict"),
    (RefusedError, "refused"),
    (DamageError, "damaged"),
    (LockTimeoutError, "busy"),
    (EnvironmentFailure, "internal"),
    (UsageError, "bad_request"),
)


def error_of(code: str, field: str = "") -> PeriplusError:
    """Return the exception for an ERROR of a peer: the same classes as a local store raises."""
    text = f"the peer refused {field}: {message_of(code)}" if field else f"the peer says: {message_of(code)}"
    if code in {"not_found", "unknown_base"}:
        return NotFoundError(text)
    if code == "conflict":
        return ConflictError(text)
    if code == "damaged":
        return DamageError(text)
    if code in {"bad_request", "ambiguous"}:
        return UsageError(text)
    if (code, field) == ("refused", REDACTED_FIELD):
        return RemoteError(
            code,
            "the peer refused this: it would bring back what was redacted there",
            safe="No ref was moved there.",
            mend="Redact it here, too, with `periplus redact`; then push again.",
        )
    row = ERRORS.get(code)
    if row is None:
        return RemoteError(code, text, safe=_SAFE)
    mend = row.mend or (_AGAIN if row.is_retryable else "")
    return RemoteError(code, text, is_retryable=row.is_retryable, safe=_SAFE, mend=mend)
