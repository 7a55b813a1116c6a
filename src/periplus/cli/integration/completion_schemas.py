"""The JSON document of ``completion``."""

from __future__ import annotations

__all__ = ["COMPLETION_SCHEMAS", "CompletionOut"]

from typing import Final

import msgspec


class CompletionOut(msgspec.Struct, tag_field="schema", tag="periplus.completion/1"):
    """The ``script`` for ``shell``."""

    shell: str
    script: str


COMPLETION_SCHEMAS: Final[dict[str, type[msgspec.Struct]]] = {"completion": CompletionOut}
