"""``periplus trail verify --effects``: check whether the steps produce the files of the recorded checkpoints."""

from __future__ import annotations

__all__ = ["check_effects", "configure_effects", "effect_lines", "effects_of", "is_shown"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import EffectsOut, FileOut
    from periplus.project import TrailFile
    from periplus.trail import ObjectReader

_SHOWN_MAX: Final = 20


def configure_effects(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--effects", action="store_true", help="also apply the file steps in memory to the commit that the run started from,"
        " and compare with the recorded checkpoints")  # fmt: skip
    add(
        "--repository",
        metavar="DIR",
        help="with --effects: the repository with that commit (default: this one)",
    )


def check_effects(face: Face, arguments: argparse.Namespace) -> str:
    """Return the folder with the commits. Raises UsageError, NotFoundError."""
    from periplus.base.errors import NotFoundError, UsageError

    if arguments.repository is None:
        return face.cwd
    if not arguments.effects:
        raise UsageError("--repository needs --effects", mend="Give both or neither.")
    path = os.path.join(face.cwd, arguments.repository)
    if not os.path.isdir(path):
        raise NotFoundError(f"there is no folder {path}", safe="Nothing was changed.", mend="Check the name.")
    return path


def effects_of(face: Face, found: TrailFile, store: ObjectReader | None, repository: str) -> list[EffectsOut]:
    """Return the effects of a valid trail; of each part of a concatenation."""
    from periplus.cli.trail.schemas import EffectsOut, StepEffectOut
    from periplus.project.trail_store.git_effects import trail_effects

    parts = []
    for part in trail_effects(found.data, repository, store, _root(face, found.name)):
        effects = part.effects
        first = effects.first_wrong
        steps = [StepEffectOut(step.at, step.op, step.verdict, step.detail) for step in effects.steps]
        parts.append(EffectsOut(part.digest.hex(), effects.verdict, effects.summary, first.at if first is not None else None,
                                steps, list(effects.missing)))  # fmt: skip
    return parts


def is_shown(files: list[FileOut]) -> bool:
    """Return whether every requested effect is verified."""
    return all(one.verdict == "verified" for file in files for one in file.effects or ())


def effect_lines(face: Face, file: FileOut) -> Iterator[str]:
    paint = face.palette
    colours = {"verified": paint.good, "wrong": paint.bad, "not shown": paint.warn}
    for number, one in enumerate(file.effects or ()):
        part = f"part {number} " if len(file.effects or ()) > 1 else ""
        word, _, rest = one.summary.partition(": ") if one.verdict != "wrong" else ("WRONG", "", one.summary)
        yield f"  effects  {part}{colours[one.verdict]}{word}{paint.end}: {visible(rest)}"
        told = [step for step in one.steps if step.verdict in ("wrong", "not judged", "start")]
        for step in told[:_SHOWN_MAX]:
            yield f"    {step.index:>5}  {step.verdict:10}  {step.op:10}  {visible(step.detail)}"
        if len(told) > _SHOWN_MAX:
            yield f"    and {len(told) - _SHOWN_MAX:,} more; --json has all"


def _root(face: Face, name: str) -> str:
    """Return the folder that the agent worked in, from the card of a trail in this store."""
    from periplus.base.errors import PeriplusError

    if not name.startswith("trl_"):
        return ""
    try:
        with face.open() as project:
            entity = project.journal.get("trail", name)
    except PeriplusError:
        return ""  # absolute paths are then outside of the tree
    return str(entity.value.get("cwd", "")) if entity is not None else ""
