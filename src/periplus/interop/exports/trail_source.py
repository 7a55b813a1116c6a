"""What an exporter reads: the parts of a trail, and the long texts that stand outside it."""

from __future__ import annotations

__all__ = ["ExportSource", "Moment", "text_of"]

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from periplus.base.errors import DamageError, NotFoundError
from periplus.trail import Digest, OperandValue, Step, TextObject, TrailReader, Withheld, opcode_name

ReadObject = Callable[[bytes], bytes]


class Moment(NamedTuple):
    """A step in its place: ``number`` counts through all parts, ``at_ms`` since 1970-01-01 UTC, 0 where no time is known."""

    number: int
    part: int
    op: str
    step: Step
    at_ms: int

    def operand(self, number: int) -> OperandValue:
        """Operand ``number`` of the opcode's row, None where it is absent."""
        return self.step.operands[number] if number < len(self.step.operands) else None


class ExportSource:
    """A trail to export: ``data`` is its file, ``readers`` its parts (one, unless it is a concatenation).

    ``read_object`` gives the object with a SHA-256, and raises NotFoundError or DamageError where it cannot be had.
    """

    def __init__(
        self, name: str, data: bytes, readers: tuple[TrailReader, ...], digest: bytes, read_object: ReadObject
    ) -> None:
        self.name = name
        self.readers = readers
        self.digest = digest
        self.file_sha256 = hashlib.sha256(data).digest()
        self._read_object = read_object
        self.root = next(filter(None, map(self._folder, self.moments())), "")  # where the run worked, "" if not known

    def _folder(self, moment: Moment) -> str:
        folder = moment.operand(1) if moment.op in ("COMMAND_RUN", "TEST_RUN") else None
        return folder.rstrip("/") if isinstance(folder, str) and folder.startswith("/") else ""

    def path(self, value: OperandValue) -> str:
        """A path operand, from the folder in which the run worked where it lies there."""
        path = self.text(value)
        return path[len(self.root) + 1 :] if self.root and path.startswith(f"{self.root}/") else path

    def moments(self) -> Iterator[Moment]:
        """The steps of all parts in order."""
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
        """The object, None where it was left out or is damaged: an export says less then."""
        try:
            return self._read_object(sha256)
        except (NotFoundError, DamageError):
            return None

    def text(self, value: OperandValue) -> str:
        """A text operand as people read it, a long one whole where it is at hand; "" for an absent one."""
        if isinstance(value, TextObject):
            data = self.object(value.sha256)
            if data is not None:
                return data.decode("utf-8", "replace")
        return text_of(value)

    def content(self, value: OperandValue) -> bytes | None:
        """The bytes that a digest operand names, where they are at hand."""
        if isinstance(value, Digest) and value.algorithm == "sha256":
            return self.object(value.value)
        return None


def text_of(value: OperandValue) -> str:
    """A value as text, without any object: what is not in the file is named in brackets."""
    if isinstance(value, TextObject):
        return f"[a text of {value.length:,} bytes, sha256:{value.sha256.hex()}]"
    if isinstance(value, Digest):
        return f"{value.algorithm}:{value.value.hex()}"
    if isinstance(value, Withheld):
        return "[withheld]"
    return "" if value is None else str(value)
