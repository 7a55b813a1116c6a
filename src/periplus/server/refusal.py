"""An error with a wire code of the server's choice."""

from __future__ import annotations

__all__ = ["Refused", "field_of", "told_code"]

import re
from typing import Final

from periplus.base.errors import PeriplusError, RedactedError, UsageError
from periplus.context.wire import REDACTED_FIELD, ErrorCode, code_of

_FIELD: Final = re.compile(r"[A-Za-z0-9_.\[\]]{1,255}(?=:)")


class Refused(PeriplusError):  # noqa: N818 - named after the result, not the failure
    """A request that is answered with ``wire_code``."""

    def __init__(self, wire_code: ErrorCode, wrong: str, *, field: str = "") -> None:
        super().__init__(wrong)
        self.wire_code = wire_code
        self.field = field


def field_of(error: BaseException) -> str:
    """Return the field name at the beginning of an error: names may go to the client, texts may not.

    A reason for a refusal is sent in place of the field, as one of the names that the protocol defines.
    """
    if isinstance(error, RedactedError):
        return REDACTED_FIELD
    if isinstance(error, Refused):
        return error.field
    found = _FIELD.match(str(error)) if isinstance(error, UsageError) else None
    return found.group() if found else ""


def told_code(error: BaseException) -> ErrorCode:
    return error.wire_code if isinstance(error, Refused) else code_of(error)
