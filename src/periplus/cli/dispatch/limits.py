"""Options for the limits of a dispatch."""

from __future__ import annotations

__all__ = ["LIMITS", "add_limits", "limits_of"]

import argparse
from typing import Final

from periplus.cli.common.face import number

LIMITS: Final = (
    ("retries", "N", 0, 100, 1, "new attempts at a step after a failure"),
    ("rounds", "N", 0, 100, 3, "returns of work to its author"),
    ("wall", "SECONDS", 0, 604_800, 3_600, "time of one attempt; 0 is no limit"),
    ("silence", "SECONDS", 0, 604_800, 900, "time without a sign of life before an attempt is stopped; 0 is no limit"),
    ("tokens", "N", 0, 10**12, 0, "tokens of the whole dispatch; 0 is no limit"),
    ("cents", "N", 0, 10**9, 0, "cost of the whole dispatch; 0 is no limit"),
    ("disk", "MB", 0, 10**7, 4_096, "size of one worktree; 0 is no limit"),
)
_FIELDS: Final = {"wall": "wall_s", "silence": "silence_s", "disk": "disk_bytes"}


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add an option for each limit."""
    for name, metavar, least, most, default, what in LIMITS:
        parser.add_argument(
            f"--{name}", type=number(least, most), metavar=metavar, help=f"at most: {what} (default: {default:,})"
        )


def limits_of(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the limits that were typed, by the fields of ``memory.entities.schemas.Limits``."""
    return {
        _FIELDS.get(name, name): given * (1_000_000 if name == "disk" else 1)
        for name, *_ in LIMITS
        if (given := getattr(arguments, name)) is not None
    }
