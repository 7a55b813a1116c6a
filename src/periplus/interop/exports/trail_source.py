"""Input of an exporter: the parts of a trail, and the long texts stored outside it."""

from __future__ import annotations

__all__ = ["ExportSource", "Moment", "text_of"]

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from periplus.base.errors import DamageError, NotFoundError
from periplus.trail import Digest, OperandValue, Step, TextObject, TrailReader, Withheld, opcode_name

ReadObject = Callable[[bytes], bytes]


class Moment(NamedTuple):
    """A step with its place: ``number`` counts through all parts, ``at_ms`` since 1970-01-01 UTC, 0 where no time is
    known.
    """

    number: int
    part: int
    op: str
    step: Step
    at_ms: int

    def operand(self, number: int) -> OperandValue:
        """Return operand ``number`` of the opcode's row, None where it is absent."""
        return self.step.operands[number] if number < len(self.step.operands) else None


class ExportSource:
    """A trail to export: ``data`` is its file, ``readers`` its parts (one, unless it is a concatenation).

    ``read_object`` returns the object with a SHA-256, and raises NotFoundError or DamageError.
    """

    def __init__(
        self, name: str, data: bytes, readers: tuple[TrailReader, ...], digest: bytes, read_object: ReadObject
    ) -> None:
        self.name = name
        self.readers = readers
        self.digest = digest
        self.file_sha256 = hashlib.sha256(data).digest()
        self._read_object = read_object
        self.root = next(
            filter(None, map(self._folder, self.moments())), ""
        )  # the working folder of the run, "" if unknown

    def _folder(self, moment: Moment) -> str:
        folder = moment.operand(1) if moment.op in ("COMMAND_RUN", "TEST_RUN") else None
        return folder.rstrip("/") if isinstance(folder, str) and folder.startswith("/") else ""

    def path(self, value: OperandValue) -> str:
        """Return a path operand, relative to the working folder of the run where it lies there."""
        path = self.text(value)
        return path[len(self.root) + 1 :] if self.root and path.startswith(f"{self.root}/") else path

    def moments(self) -> Iterator[Moment]:
        """Yield the steps of all parts in order."""
        index = 0
        for part, reader in enumerate(self.readers):
            at_ms = reader.header.started_ms
            for step in reader.steps():
                at_ms += step.delta_ms
                yield Moment(index, part, opcode_name(step.code), step, at_ms if reader.header.started_ms else 0)
                index += 1

    @property
    def step_count(self) -> int:
        return sum(reader.step_count for reader in self.readers)

    def object(self, sha256: bytes) -> bytes | None:
        """Return the object, None where it was left out or is damaged: the export is shorter then."""
        try:
            return self._read_object(sha256)
        except (NotFoundError, DamageError):
            return None

    def text(self, value: OperandValue) -> str:
        """Return a text operand for display, a long one whole where it is available; "" for an absent one."""
        if isinstance(value, TextObject):
            data = self.object(value.sha256)
            if data is not None:
                return data.decode("utf-8", "replace")
        return text_of(value)

    def content(self, value: OperandValue) -> bytes | None:
        """Return the bytes that a digest operand names, where they are available."""
        if isinstance(value, Digest) and value.algorithm == "sha256":
            return self.object(value.value)
        return None


def text_of(value: OperandValue) -> str:
    """Return a value as text without reading objects: texts outside the file are named in brackets."""
    if isinstance(value, TextObject):
        return f"[a text of {value.length:,} bytes, sha256:{value.sha256.hex()}]"
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()}"
    if isinstance(value, Withheld):
        return "[withheld]"
    return "" if value is None else str(value)
