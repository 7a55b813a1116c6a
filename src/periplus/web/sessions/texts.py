"""Texts of a trail for display: read where they are kept, and cut to what is shown."""

from __future__ import annotations

__all__ = ["Texts", "first_line"]

from typing import Final

from periplus.interop.exports.trail_source import ExportSource
from periplus.trail import Digest, OperandValue, TextObject, Withheld
from periplus.web.sessions.values import Limits, Passage

WITHHELD: Final = "withheld"
LINE_CHARACTERS_MAX: Final = 200
_READ_FOR_LINE: Final = 4_000  # characters of a text in which its first line is looked for


class Texts:
    """Read the texts of ``source`` within ``limits``."""

    def __init__(self, source: ExportSource, limits: Limits) -> None:
        self.source = source
        self.limits = limits

    def passage(self, value: OperandValue, label: str = "") -> Passage | None:
        """Return a text as far as it is shown, None for an absent or an empty one."""
        if value is None or value == "":
            return None
        if isinstance(value, Withheld):
            return Passage(label, "", missing=WITHHELD)
        if isinstance(value, TextObject):
            data = self.source.object(value.sha256)
            name = value.sha256.hex()
            if data is None:
                return Passage(label, "", missing=f"{value.length:,} bytes, which are not here", sha256=name)
            return self.cut(data.decode("utf-8", "replace"), label, name)
        return self.cut(self.source.text(value), label)

    def content(self, value: OperandValue, label: str = "") -> Passage | None:
        """Return the content that a digest names, None where it is not available."""
        data = self.source.content(value)
        if data is None:
            return None
        assert isinstance(value, Digest)
        return self.cut(data.decode("utf-8", "replace"), label, value.value.hex())

    def cut(self, text: str, label: str = "", sha256: str = "") -> Passage:
        """Return the beginning of ``text`` within the limits."""
        text = text.replace("\r\n", "\n")
        end = min(len(text), self.limits.characters)
        at = -1
        for _ in range(self.limits.lines):
            at = text.find("\n", at + 1, end)
            if at < 0:
                break
        else:
            end = at
        shown = text[:end]
        return Passage(label, shown, len(text) - len(shown), sha256=sha256)

    def line(self, value: OperandValue, most: int = LINE_CHARACTERS_MAX) -> str:
        """Return the first line of a text that says something."""
        if isinstance(value, Withheld):
            return f"[{WITHHELD}]"
        return first_line(self.source.text(value), most)

    def path(self, value: OperandValue) -> str:
        """Return a path, relative to the folder in which the session ran where it lies there."""
        if isinstance(value, Withheld):
            return f"[{WITHHELD}]"
        return first_line(self.source.path(value))


def first_line(text: str, most: int = LINE_CHARACTERS_MAX) -> str:
    """Return the first line of ``text`` that is not blank, cut to ``most`` characters."""
    for line in text[:_READ_FOR_LINE].splitlines():
        words = " ".join(line.split())
        if words:
            return words if len(words) <= most else words[: most - 1] + "…"
    return ""
