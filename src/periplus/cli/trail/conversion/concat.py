"""``periplus trail concat``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, visible
from periplus.cli.trail.inputs import named_trail, signed, trail_readers


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trails", nargs="+", metavar="TRAIL", help="ids, digests (or prefixes), or files, in order")
    add("--out", metavar="FILE", required=True, help="the file to write")
    add("--sign", action="store_true", help="sign the result with the key of this store")
    add(
        "--v1",
        action="store_true",
        help="join trails of version 1 as version 1 does, without the END and BEGIN between them",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.common.inputs import check_target
    from periplus.cli.trail.schemas import TrailConcatOut, TrailPartOut
    from periplus.trail import Parts, concat

    path = face.path(arguments.out)
    check_target(path)
    if arguments.v1:
        return _concat_flux(face, arguments, path)
    files: list[bytes] = []
    parts: list[TrailPartOut] = []
    for name in arguments.trails:
        found, _ = named_trail(face, name)
        files.append(found.data)
        parts.extend(
            TrailPartOut(found.name, reader.digest.hex(), reader.step_count, reader.status)
            for reader in trail_readers(found)
        )
    data = concat(files)
    if arguments.sign:
        data = signed(face, data, arguments.out)
    write_atomic(Files(), path, data)
    result = TrailConcatOut(path, Parts(data).digest.hex(), arguments.sign, len(data), parts)

    def lines() -> Iterator[str]:
        yield f"Wrote {visible(path)} ({len(data):,} bytes), digest {result.digest}"
        for number, part in enumerate(parts, 1):
            yield f"  part {number:<3} {part.digest[:16]}  {part.steps:>7,} steps  {part.status}  {visible(part.name)}"

    face.emit(result, lines)
    return 0


def _concat_flux(face: Face, arguments: argparse.Namespace, path: str) -> int:
    """Join files of version 1. It keeps one header and one status, and does not mark where a part began."""
    import hashlib

    from periplus.base.errors import UsageError
    from periplus.base.files import Files, write_atomic
    from periplus.cli.trail.conversion.versions import errors_naming
    from periplus.cli.trail.schemas import TrailConcatOut, TrailPartOut
    from periplus.trail.v1.reader import FluxReader
    from periplus.trail.v1.writer import concatenate_flux

    if arguments.sign:
        raise UsageError("version 1 has no signature", safe="Nothing was written.", mend="Omit --sign or --v1.")
    files: list[bytes] = []
    parts: list[TrailPartOut] = []
    for name in arguments.trails:
        found, _ = named_trail(face, name)
        with errors_naming(found.name):
            reader = FluxReader(found.data)
            reader.require_sound()
        files.append(found.data)
        digest = hashlib.sha256(found.data).hexdigest()
        parts.append(TrailPartOut(found.name, digest, reader.step_count - 2, reader.status or ""))
    data = concatenate_flux(*files)
    write_atomic(Files(), path, data)
    result = TrailConcatOut(path, hashlib.sha256(data).hexdigest(), False, len(data), parts)
    size = f"{len(data):,} bytes, {FluxReader(data).step_count - 2:,} steps"
    face.emit(result, lambda: [f"Wrote {visible(path)} ({size}), version 1, SHA-256 {result.digest}"])
    return 0
