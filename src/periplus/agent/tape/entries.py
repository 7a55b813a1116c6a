"""Entries of the tape, which a fold makes of turns. Each kind is a value with one written form.

An entry is text for the model and is frozen once written. It counts what it leaves out, with the call that shows it.
"""

from __future__ import annotations

__all__ = [
    "ROOT",
    "BaseEntry",
    "CommitmentsEntry",
    "Entry",
    "EpochEntry",
    "FindingEntry",
    "InstructionsEntry",
    "KnowledgeEntry",
    "OutsideEntry",
    "PatchEntry",
    "ReplyEntry",
    "TurnEntry",
    "call_handle",
    "file_handle",
    "patch_handle",
    "render",
    "turn_handle",
]

from typing import Final, TypeAlias

import msgspec

from periplus.agent.contracts import Tier
from periplus.agent.tape.fence import cut_lines, cut_text, fence, left_out, one_line
from periplus.agent.tape.instruction_text import instructions_text
from periplus.agent.tape_notes import Anchor, FilePatch, InstructionFile
from periplus.base.text.token_estimate import estimate_tokens

ROOT: Final = "@periplus/"
"""Prefix of the session's own handles."""
REQUEST_CHARACTERS: Final = 1_500
REPLY_CHARACTERS: Final = 900
PATCH_LINES: Final = 80


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    turn: int


class TurnEntry(_Entry, frozen=True):
    """Digest of a turn: the request, the work done, how it ended."""

    asked: str
    did: str
    ended: str

    def text(self) -> str:
        asked = cut_text(self.asked.strip(), REQUEST_CHARACTERS, turn_handle(self.turn))
        did = f"\ndone: {self.did}" if self.did else ""
        return (
            f"## Turn {self.turn} ({self.ended}); all of it: read(path='{turn_handle(self.turn)}')\nasked: {asked}{did}"
        )

    def line(self) -> str:
        """One line of the digest, for an epoch."""
        return f"{self.turn}: {one_line(self.asked, 110)} ({self.ended})"


class ReplyEntry(_Entry, frozen=True):
    """The model's answer at the end of a turn."""

    said: str

    def text(self) -> str:
        text = cut_text(self.said.strip(), REPLY_CHARACTERS, turn_handle(self.turn))
        return fence(text, f"the answer of turn {self.turn}")  # it may quote anybody


class BaseEntry(_Entry, frozen=True):
    """A file as it was when first edited, or as a fold found it: the base of later patches."""

    anchor: Anchor

    def text(self) -> str:
        anchor = self.anchor
        handle = file_handle(anchor)
        name = f"{anchor.path} (base, sha256 {anchor.sha256[:12]}, {anchor.lines:,} lines)"
        if not anchor.shown:
            return f"{name}: {anchor.note or 'not shown'}; read(path={handle!r})"
        pieces: list[str] = []
        at = 1
        for first, text in anchor.shown:
            if first > at:
                pieces.append(_gap(anchor, at, first - at))
            pieces.append(text)
            at = first + text.count("\n") + (0 if text.endswith("\n") else 1)
        if at <= anchor.lines:
            pieces.append(_gap(anchor, at, anchor.lines - at + 1))
        return fence("".join(piece if piece.endswith("\n") else f"{piece}\n" for piece in pieces), name)


def _gap(anchor: Anchor, at: int, count: int) -> str:
    return left_out(count, "lines", f"read(path={file_handle(anchor)!r}, start={at})")


class PatchEntry(_Entry, frozen=True):
    """A file's change in a turn."""

    patch: FilePatch

    def text(self) -> str:
        return _patch_text(self.turn, self.patch, f"{self.patch.path} (patch of turn {self.turn}")


class OutsideEntry(_Entry, frozen=True):
    """A change by somebody else of a file that the tape knows."""

    patch: FilePatch

    def text(self) -> str:
        return _patch_text(self.turn, self.patch, f"{self.patch.path} (changed outside, seen in turn {self.turn}")


def _patch_text(turn: int, patch: FilePatch, name: str) -> str:
    if not patch.after:
        return f"{name}): the file is gone"
    new = ", new file" if not patch.before else ""
    if not patch.diff:
        return f"{name}{new}): {patch.note or 'the same bytes'}"
    body = cut_lines(patch.diff.rstrip("\n"), PATCH_LINES, 0, patch_handle(turn, patch.path))
    return fence(body, f"{name}{new}, +{patch.added} -{patch.removed})")


class FindingEntry(_Entry, frozen=True):
    """A finding, and how well it is known."""

    tier: Tier
    found: str

    def text(self) -> str:
        return f"found ({self.tier}): {self.found}"


class KnowledgeEntry(_Entry, frozen=True):
    """Knowledge that was given to a turn and used by it."""

    handle: str
    preview: str

    def text(self) -> str:
        return fence(self.preview, f"{self.handle} (knowledge used in turn {self.turn})")


class InstructionsEntry(_Entry, frozen=True):
    """The project's instructions, as they are at a fold."""

    files: tuple[InstructionFile, ...]
    is_trusted: bool = False

    def text(self) -> str:
        return instructions_text(self.files, is_trusted=self.is_trusted)


class EpochEntry(_Entry, frozen=True):
    """An outline of all turns up to ``turn``: ``lines`` are the last of them, the others stand behind handles alone."""

    lines: tuple[str, ...]

    def text(self) -> str:
        gone = self.turn - len(self.lines)
        head = f"# Turns 1 to {self.turn:,}, as an outline; each is a page: read(path='@periplus/turns/N.md'), or search(path='@periplus/turns/', pattern=…)"  # fmt: skip
        more = [left_out(gone, "turns", "list(path='@periplus/turns/')")] if gone else []
        return "\n".join([head, *more, *self.lines])


class CommitmentsEntry(_Entry, frozen=True):
    """Rules and open commitments, word for word, as they are at a fold."""

    body: str

    def text(self) -> str:
        return f"# What holds and what is open (as of turn {self.turn})\n{self.body}"


Entry: TypeAlias = (
    TurnEntry
    | ReplyEntry
    | BaseEntry
    | PatchEntry
    | OutsideEntry
    | FindingEntry
    | InstructionsEntry
    | KnowledgeEntry
    | EpochEntry
    | CommitmentsEntry
)


def turn_handle(turn: int, root: str = ROOT) -> str:
    return f"{root}turns/{turn}.md"


def file_handle(anchor: Anchor) -> str:
    return f"@periplus/files/{anchor.sha256}/{anchor.path}"


def call_handle(turn: int, step: int, place: int, root: str = ROOT) -> str:
    """Handle of the full output of the call at ``place`` (from 1) of a step. ``root`` is that of the session's pages."""
    return f"{root}trail/{turn}/{step}.{place}.txt"


def patch_handle(turn: int, path: str, root: str = ROOT) -> str:
    return f"{root}turns/{turn}/patch/{path}"


def render(entries: tuple[Entry, ...]) -> tuple[str, int]:
    """The text of entries, and an estimate of its tokens."""
    text = "\n".join(entry.text() for entry in entries)
    return text, estimate_tokens(text)
