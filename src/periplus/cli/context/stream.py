"""``periplus context stream``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, counted, number, plain
from periplus.cli.context.text import SHORT, atom_lines, context_argument, entry_out

if TYPE_CHECKING:
    from periplus.cli.context.schemas import ContextStreamOut
    from periplus.context import Chunk


def configure(parser: argparse.ArgumentParser) -> None:
    context_argument(parser)
    add = parser.add_argument
    add("--atoms", type=number(1), default=64, metavar="N", help="at most N atoms a chunk (default: 64)")
    add("--tokens", type=number(1), default=4_000, metavar="N", help="at most N tokens a chunk (default: 4000)")
    add("--bytes", type=number(1), default=1 << 20, metavar="N", help="at most N bytes a chunk (default: 1048576)")
    add("--resume", type=number(0), default=0, metavar="CHUNK", help="start at this chunk (default: 0)")
    add("--chunks", type=number(1), metavar="N", help="stop after N chunks")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.context.schemas import ContextStreamEndOut
    from periplus.context import ChunkLimits

    limits = ChunkLimits(arguments.atoms, arguments.tokens, arguments.bytes)
    with face.open() as project:
        contexts = project.contexts
        digest = contexts.resolve(plain(arguments.context, "CONTEXT"))
        stream = contexts.library.stream(digest, limits=limits, resume=arguments.resume)
        try:
            for count, chunk in enumerate(stream, 1):
                _tell(face, digest, chunk)
                face.stdout.flush()  # the reader has the chunk, and may close the pipe: then no more is read
                if count == arguments.chunks:
                    return 0
            end = stream.end
        finally:
            stream.close()
    if end is not None:
        result = ContextStreamEndOut(digest.hex(), end.atoms, end.tokens, end.chunks, end.head.hex())
        told = f"{counted(end.atoms, 'atoms')}, {counted(end.tokens, 'tokens')} in {counted(end.chunks, 'chunks')}, head {end.head.hex()[:SHORT]}"
        face.emit(result, lambda: [f"{face.palette.dim}-- end: {told}{face.palette.end}"])
    return 0


def _tell(face: Face, digest: bytes, chunk: Chunk) -> None:
    from periplus.cli.context.schemas import ContextStreamOut

    result = ContextStreamOut(
        digest.hex(), chunk.chunk_id, chunk.start, [entry_out(entry) for entry in chunk.entries], [one.digest.hex() for one in chunk.over],
        chunk.cumulative_tokens, chunk.progress_millionths / 1_000_000, chunk.is_final,
    )  # fmt: skip
    face.emit(result, lambda: _lines(face, result))


def _lines(face: Face, chunk: ContextStreamOut) -> Iterator[str]:
    paint = face.palette
    counts = f"{counted(len(chunk.atoms), 'atoms')}, {counted(chunk.cumulative_tokens, 'tokens')} so far, {chunk.progress:.0%}"
    yield f"{paint.dim}-- chunk {chunk.chunk}: {counts}{paint.end}"
    for atom in chunk.atoms:
        yield from atom_lines(face, atom)
    for digest in chunk.over:
        yield f"{paint.warn}{digest[:SHORT]}  larger than a chunk{paint.end}: raise --tokens or --bytes"
