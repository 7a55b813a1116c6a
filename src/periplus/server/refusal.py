"""The error of a request that a context server answers with a code of its own choice."""

from __future__ import annotations

__all__ = ["Refused", "field_of", "told_code"]

import re
from typing import Final

from periplus.base.errors import PeriplusError, RedactedError, UsageError
from periplus.context.wire import REDACTED_FIELD, ErrorCode, code_of

_FIELD: Final = re.compile(r"[A-Za-z0-9_.\[\]]{1,255}(?=:)")


class Refused(PeriplusError):  # noqa: N818 - what it is, not what went wrong
    """A request that is answered by ``wire_code``."""

    def __init__(self, wire_code: ErrorCode, wrong: str, *, field: str = "") -> None:
        super().__init__(wrong)
        self.wire_code = wire_code
        self.field = field


def field_of(error: BaseException) -> str:
    """The field that an error names at its beginning, if it does: names of fields may cross the wire, texts may not.

    Why something was refused is said by a name in the field's place, of the few that the protocol has for that.
    """
    if isinstance(error, RedactedError):
        return REDACTED_FIELD
    if isinstance(error, Refused):
        return error.field
    found = _FIELD.match(str(error)) if isinstance(error, UsageError) else None
    return found.group() if found else ""


def told_code(error: BaseException) -> ErrorCode:
    return error.wire_code if isinstance(error, Refused) else code_of(error)
