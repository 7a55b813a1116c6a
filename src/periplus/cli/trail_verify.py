"""``periplus trail verify``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.face import Face, visible
from periplus.cli.trail_inputs import named_trail

if TYPE_CHECKING:
    from periplus.cli.trail_schemas import FileOut
    from periplus.project import TrailFile
    from periplus.trail import ObjectReader


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trails", nargs="*", metavar="TRAIL", help="ids, digests or files (default: every trail of the store)")
    add("--key", metavar="HEX|FILE", help="the Ed25519 public key that must have signed it")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.trail_schemas import TrailVerifyOut

    key = _key(arguments.key)
    files = [_verified(*found, key) for found in _to_verify(face, arguments.trails)]
    is_ok = all(file.ok for file in files)

    def lines() -> Iterator[str]:
        paint = face.palette
        for file in files:
            mark = f"{paint.good}verified{paint.end}" if file.ok else f"{paint.bad}WRONG{paint.end}"
            yield f"{mark}  {visible(file.name)}  {visible(file.summary)}"
            if file.ok and len(files) > 1:
                continue
            reached = [check for check in file.checks if check.detail != "not reached"]
            for check in reached:
                yield f"  {check.verdict:8} {check.name:10} {visible(check.detail)}"
            if len(reached) < len(file.checks):
                yield f"  {len(file.checks) - len(reached)} more checks were not reached"
        if not files:
            yield "No trails to verify."

    face.emit(TrailVerifyOut(is_ok, files), lines)
    return 0 if is_ok else 3


def _verified(found: TrailFile, store: ObjectReader | None, trouble: str, key: bytes | None) -> FileOut:
    from periplus.cli.trail_schemas import FileOut, TrailCheckOut
    from periplus.trail import verify

    if trouble:
        return FileOut(found.name, "", False, trouble, None, [TrailCheckOut("object", "error", trouble)])
    report = verify(found.data, store=store, key=key)
    checks = [TrailCheckOut(check.name, check.verdict, check.detail) for check in report.checks]
    return FileOut(found.name, report.digest.hex(), report.ok, report.summary, report.offset, checks)


def _to_verify(face: Face, names: list[str]) -> Iterator[tuple[TrailFile, ObjectReader | None, str]]:
    """Each trail with the store of its objects; or the reason why its bytes cannot be had."""
    from periplus.base.errors import DamageError, NotFoundError
    from periplus.project import TrailFile

    if names:
        for name in names:
            try:
                yield (*named_trail(face, name), "")
            except DamageError as error:
                yield TrailFile(name, b""), None, str(error)
        return
    with face.open() as project:
        for trail in project.trails():
            try:
                yield project.trail_bytes(trail.item_id), project.journal.objects, ""
            except (DamageError, NotFoundError) as error:
                yield TrailFile(trail.item_id, b""), None, str(error)


def _key(text: str | None) -> bytes | None:
    from periplus.cli.inputs import read_public_key

    return None if text is None else read_public_key(text)
