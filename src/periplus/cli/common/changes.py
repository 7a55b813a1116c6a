"""Arguments and output shared by the commands that change entities."""

from __future__ import annotations

__all__ = ["add_insist", "changed", "check_typed"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, plain, visible

if TYPE_CHECKING:
    from periplus.memory.writing.lifecycle import Changed


def add_insist(parser: argparse.ArgumentParser) -> None:
    """Add ``--insist``, which writes a text that only looks like a secret."""
    parser.add_argument("--insist", action="store_true", help="write it even if it looks like a secret")


def check_typed(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an argument that is not UTF-8."""
    for name, value in vars(arguments).items():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and name not in ("store", "writer"):
                plain(word, f"'{visible(word, 60)}'")


def changed(face: Face, done: Changed) -> int:
    """Print the entities that a command changed; return the exit code."""
    from periplus.cli.common.conversion import entity_out
    from periplus.cli.common.schemas import ChangedOut

    result = ChangedOut([entity_out(one) for one in done.entities], done.receipt.key if done.receipt else "", list(done.near),
                        list(done.notes))  # fmt: skip

    def lines() -> Iterator[str]:
        if done.receipt is None:
            yield "Nothing changed."
        for one in done.entities:
            state = visible(str(one.value.get("state", "")))
            text = visible(" ".join(str(one.value.get("text", one.value.get("name", ""))).split()))
            yield f"{one.item_type} {face.palette.name}{one.item_id}{face.palette.end}{' ' + state if state else ''}: {text}"
        for note in done.notes:
            yield f"  {visible(note)}."
        for near in done.near:
            yield f"  Similar entity: {near}. See `periplus show {near}`."

    face.emit(result, lines)
    return 0
