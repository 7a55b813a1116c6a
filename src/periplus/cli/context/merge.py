"""``periplus context merge``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, counted, plain, visible
from periplus.cli.context.text import SHORT, atom_lines, atom_out

if TYPE_CHECKING:
    from periplus.cli.context.schemas import ContextMergeOut, KnownAtomOut
    from periplus.context.deltas.merge import Choice, Side


_CONFLICTS: Final = {
    "annotated": "one side removed it, the other annotated it",
    "decided": "it was in conflict before: one side decided to remove it, the other to keep it",
    "molecule": "one side removed it, the other built a molecule on it",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("other", nargs="?", default="", metavar="CONTEXT", help="the context to merge: a ref, a digest or a prefix of one (default: the contexts at which clones left the ref)")  # fmt: skip
    add("--ref", default="main", metavar="NAME", help="the ref to merge into (default: main)")
    add(
        "--ours",
        action="append",
        default=[],
        metavar="DIGEST",
        help="for this atom in conflict, keep our version (repeatable)",
    )
    add(
        "--theirs",
        action="append",
        default=[],
        metavar="DIGEST",
        help="for this atom in conflict, take their version (repeatable)",
    )
    add("--favour", choices=("ours", "theirs"), help="which version wins in all other conflicts")
    add("-m", "--message", default="", metavar="TEXT", help="why")
    add("--dry-run", action="store_true", help="show the result, change nothing")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.context.schemas import ContextMergeOut, MergeConflictOut, SettledOut

    choose: dict[str, Choice] = dict.fromkeys((plain(one, "--ours") for one in arguments.ours), "ours")
    for one in arguments.theirs:
        if one in choose:
            raise UsageError(f"{one[:80]!r} is named with both --ours and --theirs", safe="Nothing was changed.")
        choose[plain(one, "--theirs")] = "theirs"
    with face.open() as project:
        done = project.contexts.merge(
            plain(arguments.other, "CONTEXT"), ref=plain(arguments.ref, "--ref"), choose=choose, favour=arguments.favour,
            message=plain(arguments.message, "--message"), dry_run=arguments.dry_run,
        )  # fmt: skip

    def side(digest: bytes, one: Side) -> KnownAtomOut | None:
        return (
            atom_out(digest, one.atom, one.commit_info.context if one.commit_info is not None else b"")
            if one.atom is not None
            else None
        )

    result = ContextMergeOut(
        done.outcome, done.head.hex(), done.ref, done.ours.hex(), [one.hex() for one in done.theirs],
        [
            MergeConflictOut(one.digest.hex(), one.kind, atom_out(one.digest, one.base) if one.base is not None else None,
                             side(one.digest, one.ours), side(one.digest, one.theirs), [each.hex() for each in one.molecules])
            for one in done.conflicts
        ],
        [
            SettledOut(atom_out(one.digest, one.atom), list(one.fields), side(one.digest, one.ours), side(one.digest, one.theirs))
            for one in done.settled
        ],
    )  # fmt: skip
    return face.emit(result, lambda: _lines(face, result, is_dry=arguments.dry_run), 5 if result.conflicts else 0)


def _lines(face: Face, done: ContextMergeOut, *, is_dry: bool) -> Iterator[str]:
    paint = face.palette
    for settled in done.settled:
        ours, theirs = settled.ours, settled.theirs
        is_dated = ours is None or theirs is None or ours.time != theirs.time
        stands = "the later value is kept" if is_dated else "neither is later, so the greater value is kept"
        yield f"{paint.warn}settled{paint.end}  both annotated {', '.join(settled.fields)}: {stands}"
        yield from atom_lines(face, settled.atom, "  ")
    for one in done.conflicts:
        yield f"{paint.bad}conflict{paint.end}  {_CONFLICTS[one.kind]}"
        for name, atom in (("ours", one.ours), ("theirs", one.theirs)):
            if atom is None:
                yield f"  {name:6} removed it"
            else:
                yield from atom_lines(face, atom, f"  {name:6} ")
    if done.conflicts:
        yield f"Nothing was changed: {counted(len(done.conflicts), 'conflicts')}. Choose a side, for one atom or for all:"
        yield f"  periplus context merge … --ours {done.conflicts[0].digest[:SHORT]}, or --theirs {done.conflicts[0].digest[:SHORT]}, or --favour ours"
        return
    told = {
        "merged": "merged",
        "fast-forward": "moved forward: theirs builds on ours",
        "already": "nothing to do: ours builds on theirs",
        "kept": "kept; another clone had ended it",
    }
    would = "would be " if is_dry and done.outcome != "already" else ""
    yield f"{paint.name}{done.context[:SHORT]}{paint.end} {visible(done.ref)}: {would}{told[done.outcome]}"
