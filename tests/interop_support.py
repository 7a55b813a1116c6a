"""What the tests of the importers share."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from periplus.interop import Imported, import_transcript
from periplus.trail.format.reader import TrailReader
from periplus.trail.integrity.verification import verify
from periplus.trail.model import Digest, Step
from periplus.trail.opcodes import opcode_name

FIXTURES = Path(__file__).parent / "fixtures" / "interop"
SHARED = Path(__file__).parents[2] / "shared" / "transcripts"
KEY = b"key of the trails of these tests"


class Objects(dict):
    """An object store in memory."""

    def put(self, data: bytes) -> bytes:
        digest = hashlib.sha256(data).digest()
        self[digest] = data
        return digest


def read(path: Path | str, **options) -> Imported:
    """Import a file and check what must hold for every import."""
    objects = Objects()
    imported = import_transcript(str(path), trail_key=KEY, put_object=objects.put, **options)
    check(imported)
    return imported


def check(imported: Imported) -> None:
    reader = TrailReader(imported.trail)
    assert reader.to_bytes() == imported.trail
    report = verify(imported.trail)
    assert report.ok, report.summary
    assert report.digest == imported.trail_digest
    assert reader.step_count == imported.counts["steps"]
    assert len(imported.files) == imported.counts["files"]


def steps_of(imported: Imported) -> list[Step]:
    return list(TrailReader(imported.trail).steps())


def named(imported: Imported, *names: str) -> list[Step]:
    return [step for step in steps_of(imported) if opcode_name(step.code) in names]


def plain(imported: Imported) -> list[tuple]:
    """Each step as its name and operands, digests in short."""
    return [(opcode_name(step.code), *(_short(operand) for operand in step.operands)) for step in steps_of(imported)]


def _short(operand):
    return f"{operand.algorithm}:{operand.value.hex()[:8]}" if isinstance(operand, Digest) else operand


def write_lines(path: Path, records: list) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def shared_files(folder: str) -> list[Path]:
    root = SHARED / folder
    if not root.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {root}")
    return sorted(root.rglob("*.jsonl"))
