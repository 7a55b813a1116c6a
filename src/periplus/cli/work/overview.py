"""``periplus`` alone: what waits for the person, work in progress, changes of others, and the commands to type next.

At a terminal where the agent is set up a session follows. Without a store it says how to begin.
"""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, columns, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from periplus.cli.work.overview_schemas import OverviewOut
    from periplus.project import Project
    from periplus.project.care.waiting import Waiting, WaitingGroup, WaitingItem

_SHOWN_MAX: Final = 3  # items of a group
_CHANGES_SHOWN_MAX: Final = 5
_READER_CHARACTERS: Final = 40
_NAMED: Final = {
    "questions": ("question of an agent", "questions of agents"),
    "mail": ("message", "messages"),
    "conflicts": ("entity in conflict", "entities in conflict"),
    "handoffs": ("handoff to take over", "handoffs to take over"),
    "candidates": ("proposed memory to accept or refuse", "proposed memories to accept or refuse"),
    "skills": ("suggested skill", "suggested skills"),
    "review": ("memory to review", "memories to review"),
}
_BEGIN: Final = (
    ("periplus init", "make the store of this project"),
    ("periplus tour", "show what Periplus does, in seconds, offline"),
    ("periplus --help", "list all commands"),
)


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    """Do nothing: `periplus` alone takes only the common options."""
    del parser, command


def execute(face: Face, arguments: argparse.Namespace) -> int:
    why = _reason_without_store(face)
    if why:
        return _begin(face, why)
    with face.open() as project:
        reader = _reader_of(project.writer.name)
        found = project.waiting(reader)
        code = face.emit(_out(found), lambda: _lines(face, found), 3 if project.journal.damage is not None else 0)
        if face.width is not None and not face.as_json:
            face.flush()  # print the changes before they count as seen
            _note_look(project, reader)
    if not arguments.talks or code:
        return code
    from periplus.cli.agent.run import execute as run
    from periplus.cli.main import make_parser

    face.out()
    return run(face, make_parser("run", is_alone=True).parse_args(["run"]))


def _note_look(project: Project, reader: str) -> None:
    from periplus.base.errors import EnvironmentFailure

    try:
        project.note_look(reader)
    except EnvironmentFailure:
        pass  # a store that may not be written: the same changes are shown again


def _reader_of(name: str) -> str:
    """Return the name of the reader whose looks at the overview are those of the writer ``name``."""
    from periplus.base.ids import derived_id

    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())
    own = "" if letters == name else f"-{derived_id('who', 'overview', name)[-8:]}"
    return f"overview-{letters[:_READER_CHARACTERS]}{own}"


# -- without a store -----------------------------------------------------------------------------------------------------


def _reason_without_store(face: Face) -> str:
    """Return the reason why there is no store to show, as text; empty where there is one. Raises NotAStoreError for a store that
    is named or that lacks a part.
    """
    from periplus.base.errors import NotAStoreError
    from periplus.journal import STORE_FOLDER, find_root, project_root

    try:
        find_root(face.cwd, face.store)
    except NotAStoreError as error:
        if face.store or os.path.lexists(os.path.join(project_root(face.cwd), STORE_FOLDER)):
            raise
        return str(error)
    return ""


def _begin(face: Face, why: str) -> int:
    from periplus.cli.work.overview_schemas import GroupOut, NextOut, OverviewOut
    from periplus.journal import project_root

    top = project_root(face.cwd)
    is_git = any(os.path.lexists(os.path.join(top, name)) for name in (".git", "HEAD"))
    none = GroupOut(0, False, [], "")
    said = [NextOut(*one) for one in _BEGIN]
    result = OverviewOut(
        "", face.writer().name, 0, "", False, said, none, none, none, none, none, none, none, none, none, none, none, none, none,
        [], [], none, "",
    )  # fmt: skip

    def lines() -> Iterator[str]:
        paint = face.palette
        yield f"{paint.bold}Periplus is not in use here yet:{paint.end} {visible(why)}"
        if not is_git:
            yield "This folder is in no git project. Memory works without git, but what commits changed is not known then."
        yield ""
        yield "Begin with"
        yield from _command_lines(face, [(one.command, one.reason) for one in said])

    return face.emit(result, lines)


# -- with a store --------------------------------------------------------------------------------------------------------


def _lines(face: Face, found: Waiting) -> Iterator[str]:
    paint = face.palette
    if found.damage:
        yield f"{paint.bad}The store is damaged:{paint.end} {visible(found.damage)}"
    waiting = [(name, group) for name in _NAMED if (group := _group_named(found, name)).number or group.is_more]
    if waiting:
        yield f"{paint.bold}Waiting for {visible(found.name)}{paint.end}"
    else:
        yield f"{paint.bold}Nothing waits for {visible(found.name)}.{paint.end}"
    for name, group in waiting:
        yield f"  {paint.warn}{group.words()} {_NAMED[name][group.number != 1 or group.is_more]}{paint.end}: {group.command}"
        for item in group.first[:_SHOWN_MAX]:
            yield _item_line(face, item)
    yield from _work_lines(face, found)
    yield from _change_lines(face, found)
    yield f"{paint.bold}Next{paint.end}"
    yield from _command_lines(face, found.next)


def _work_lines(face: Face, found: Waiting) -> Iterator[str]:
    paint, width = face.palette, face.width
    rows = [
        visible(f"plan {one.plan.item_id}: {one.done:,} of {one.steps:,} steps done: {one.plan.text}", _room(width))
        for one in found.plans
    ]
    hidden = found.plans_open.number - len(found.plans)
    if hidden > 0 or found.plans_open.is_more:
        rows.append(f"and {hidden:,}{' or more' * found.plans_open.is_more} other plans: periplus plan list")
    steps = [
        f"{group.words()} {what}"
        for group, what in ((found.doing, "being done"), (found.ready, "ready"))
        if group.number or group.is_more
    ]
    if steps:
        rows.append(f"steps: {', '.join(steps)}: periplus plan ready")
    rows += [visible(f"dispatch {one.dispatch.item_id}: {one.words()}") for one in found.dispatches]
    rows += [visible(f"{item.note}: {item.text}", _room(width)) for item in found.at_work.first[:_SHOWN_MAX]]
    if found.present.number or found.present.is_more:
        names = "; ".join(f"{one.text} ({one.note})" if one.note else one.text for one in found.present.first)
        more = found.present.number - len(found.present.first)
        rows.append(
            visible(f"here now: {names or 'many sessions'}{f'; and {more:,} more' if more > 0 else ''}", _room(width))
        )
    if found.claims.number or found.claims.is_more:
        held = "; ".join(f"{one.note}: {one.text}" for one in found.claims.first[:_SHOWN_MAX])
        more = found.claims.number - _SHOWN_MAX
        rows.append(visible(f"claimed: {held}{f'; and {more:,} more' if more > 0 else ''}", _room(width)))
    if rows:
        yield f"{paint.bold}Work in progress{paint.end}"
        yield from (f"  {row}" for row in rows)


def _change_lines(face: Face, found: Waiting) -> Iterator[str]:
    paint, changes = face.palette, found.changes
    if found.looked_at:
        at = found.looked_at[:16].replace("T", " ")
        count = f"{changes.words()} changed" if changes.number else "nothing changed"
        all_of_them = f": periplus changed --since {found.looked_at}" if changes.number else ""
        yield f"{paint.bold}Since you looked ({at}Z){paint.end} {count}{all_of_them}"
    elif changes.first:
        yield f"{paint.bold}Newest changes of others{paint.end}: periplus changed"
    for item in changes.first[:_CHANGES_SHOWN_MAX]:
        yield _item_line(face, item, with_type=True)


def _item_line(face: Face, item: WaitingItem, *, with_type: bool = False) -> str:
    """Return the line of an item, cut at the terminal's width: its id comes first, for it is what commands take."""
    kind = f"{item.item_type} " if with_type else ""
    note = f" ({item.note})" if item.note else ""
    return f"    {visible(f'{item.item_id} {kind}{item.text}{note}', _room(face.width, 4))}"


def _room(width: int | None, before: int = 2) -> int | None:
    return None if width is None else max(1, width - before)


def _command_lines(face: Face, commands: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield commands with their reasons: beside them where there is room, else below. A command is never cut."""
    paint, width = face.palette, face.width
    longest = max((columns(command) for command, _ in commands), default=0)
    room = None if width is None else width - longest - 4
    for command, reason in commands:
        said = visible(command)
        if room is None or room >= max(columns(why) for _, why in commands):
            yield f"  {paint.name}{said}{paint.end}{' ' * (longest - columns(said))}  {reason}"
        else:
            yield f"  {paint.name}{said}{paint.end}"
            yield f"    {reason}"


def _group_named(found: Waiting, name: str) -> WaitingGroup:
    group: WaitingGroup = getattr(found, name)
    return group


def _out(found: Waiting) -> OverviewOut:
    from periplus.cli.work.dispatch_text import progress_outs
    from periplus.cli.work.overview_schemas import GroupOut, NextOut, OverviewItemOut, OverviewOut, PlanProgressOut

    def out(group: WaitingGroup) -> GroupOut:
        return GroupOut(group.number, group.is_more, [OverviewItemOut(*item) for item in group.first], group.command)

    return OverviewOut(
        found.root, found.name, found.records, found.damage, found.is_anything, [NextOut(*one) for one in found.next],
        out(found.questions), out(found.mail), out(found.conflicts), out(found.handoffs), out(found.candidates), out(found.skills),
        out(found.review), out(found.present), out(found.claims), out(found.at_work), out(found.doing), out(found.ready),
        out(found.plans_open), [PlanProgressOut(one.plan.item_id, one.plan.text, one.done, one.steps) for one in found.plans],
        progress_outs(found.dispatches), out(found.changes), found.looked_at,
    )  # fmt: skip
