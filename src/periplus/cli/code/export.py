"""``periplus code export``: the graph for other tools, to a file or to standard output."""

from __future__ import annotations

__all__ = ["FORMATS", "export"]

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from periplus.base.errors import UsageError, environment_failure
from periplus.cli.common.face import Face, counted, visible

if TYPE_CHECKING:
    import argparse

    from periplus.code.code_map import CodeMap
    from periplus.code.exports import Graph

FORMATS: Final = ("json", "dot", "mermaid", "graphml", "scip")


def export(face: Face, code_map: CodeMap, arguments: argparse.Namespace, around: str) -> int:
    """Write the graph, or the part around the symbol ``around``, as ``--format`` says."""
    from periplus.code.documents.schemas import ExportOut

    is_for_terminal = arguments.output is None and face.stdout.isatty()
    if arguments.format == "scip" and is_for_terminal:
        raise UsageError(
            "SCIP is no text for a terminal",
            safe="Nothing was written.",
            mend="periplus code export --format scip --output index.scip",
        )
    if arguments.output is None and face.as_json and arguments.format != "json":
        raise UsageError(
            "--json is for a document of JSON",
            safe="Nothing was written.",
            mend="Add --output FILE, or leave out --json.",
        )
    if arguments.output is not None and (not arguments.output or os.path.isdir(face.path(arguments.output))):
        raise UsageError(
            f"{arguments.output!r} is no name of a file",
            safe="Nothing was written.",
            mend="Name a file: --output graph.json",
        )
    if around:
        (symbol, *_) = code_map.symbols(around)
        graph = code_map.around(symbol, arguments.depth)
    else:
        graph = code_map.graph()
    pieces = _pieces(arguments.format, graph, code_map.root)
    if arguments.output is None:
        for piece in pieces:
            _write_out(face, piece)
        return 0
    path = face.path(arguments.output)
    size = _write_file(path, pieces)
    result = ExportOut(path, arguments.format, size, len(graph.files), len(graph.symbols), len(graph.edges))
    told = f"{counted(result.files, 'files')}, {counted(result.symbols, 'symbols')}, {counted(result.edges, 'edges')}"
    return face.emit(result, lambda: [f"Wrote {visible(path)} ({size:,} bytes): {told}"])


def _pieces(kind: str, graph: Graph, root: str) -> Iterator[bytes]:
    from periplus.code import exports

    if kind == "scip":
        from pathlib import PurePath

        from periplus import __version__

        return exports.encode_scip(graph, project_root=PurePath(root).as_uri(), version=__version__)
    encoders = {
        "json": exports.encode_json, "dot": exports.encode_dot, "mermaid": exports.encode_mermaid, "graphml": exports.encode_graphml,
    }  # fmt: skip
    return encoders[kind](graph)


def _write_out(face: Face, piece: bytes) -> None:
    buffer = getattr(face.stdout, "buffer", None)
    if buffer is None:
        face.out(piece.decode("utf-8", "replace"), end="")
        return
    face.flush()
    buffer.write(piece)


def _write_file(path: str, pieces: Iterable[bytes]) -> int:
    """Write a file whole or not at all; return its size in bytes."""
    import tempfile

    size = 0
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), prefix=".export-", delete=False) as file:
            try:
                for piece in pieces:
                    size += file.write(piece)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.replace(file.name, path)
            except BaseException:  # also an interrupt: nothing half done is left
                os.unlink(file.name)
                raise
    except OSError as error:
        raise environment_failure(error, "write", path) from error
    return size
