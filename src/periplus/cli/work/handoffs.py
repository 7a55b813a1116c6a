"""``handoff``: hand unfinished work over to another agent or person."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.changes import add_insist, changed, check_typed
from periplus.cli.common.face import Face, visible
from periplus.cli.work.text import tell_who_is_meant

if TYPE_CHECKING:
    from periplus.cli.work.schemas import HandoffOut
    from periplus.journal import Entity


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "handoff"
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    write = action("write", "hand over the state of your work")
    write.add_argument("text", metavar="TEXT", help="the state of the work")
    write.add_argument("--to", default="", metavar="NAME", help="who takes it over (default: anybody)")
    write.add_argument(
        "--file", action="append", default=[], metavar="PATH", help="a file that was worked on (repeatable)"
    )
    write.add_argument("--tests", default="", metavar="TEXT", help="the state of the tests")
    write.add_argument(
        "--unfinished", action="append", default=[], metavar="TEXT", help="what is left to do (repeatable)"
    )
    write.add_argument("--plan", default="", metavar="PLAN", help="the plan it belongs to")
    write.add_argument("--trail", default="", metavar="TRAIL", help="the trail of the run it comes from")
    write.add_argument("--corrects", default="", metavar="ID", help="the handoff that this one replaces")
    write.add_argument(
        "--key",
        default="",
        metavar="KEY",
        help="repeat a write with an unknown outcome under its key; it is written at most once",
    )
    add_insist(write)
    listing = action("list", "list open handoffs, the newest first")
    listing.add_argument("--all", action="store_true", help="include closed ones")
    take = action("accept", "take over the work of a handoff")
    take.add_argument("id", metavar="ID", help="its id, or a unique prefix of it")
    take.add_argument("--force", action="store_true", help="also a handoff that is for somebody else")
    close = action("close", "close a handoff whose work is done")
    close.add_argument("id", metavar="ID", help="its id, or a unique prefix of it")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    return {"write": _write, "list": _list, "accept": _accept, "close": _close}[arguments.action](face, arguments)


def _write(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.memory.coordination.handoffs import NewHandoff

    with face.open(allow_secrets=arguments.insist) as project:
        files = tuple(project.work.path(path, cwd=face.cwd) for path in arguments.file)
        new = NewHandoff(arguments.text, arguments.to, files, arguments.tests, tuple(arguments.unfinished), arguments.plan,
                         arguments.trail)  # fmt: skip
        done = project.work.hand_off(new, corrects=arguments.corrects, key=arguments.key)
        tell_who_is_meant(face, project, arguments.to, f"handoff write '…' --corrects {done.item_id} --to {{}}")
    return _told(face, done)


def _list(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.work.schemas import HandoffListOut

    with face.open() as project:
        result = HandoffListOut([_out(one) for one in project.work.handoffs(with_closed=arguments.all)])

    def lines() -> Iterator[str]:
        for one in result.handoffs:
            yield from _lines(face, one)
        if not result.handoffs:
            yield "No handoff was written."

    face.emit(result, lines)
    return 0 if result.handoffs else 1


def _accept(face: Face, arguments: argparse.Namespace) -> int:
    with face.open() as project:
        return _told(face, project.work.accept_handoff(arguments.id, force=arguments.force))


def _close(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import NotFoundError

    with face.open() as project:
        found = project.show(arguments.id)
        if found.item_type != "handoff":
            raise NotFoundError(f"{found.item_id} is a {found.item_type}, not a handoff")
        done = project.work.change_state([found.item_id], "closed")
    return changed(face, done)


def _told(face: Face, entity: Entity) -> int:
    from periplus.cli.work.schemas import HandoffOneOut

    out = _out(entity)
    face.emit(HandoffOneOut(out), lambda: _lines(face, out))
    return 0


def _out(entity: Entity) -> HandoffOut:
    from periplus.cli.work.schemas import HandoffOut

    value = entity.value
    text = {name: str(value.get(name, "")) for name in
            ("state", "text", "author", "recipient", "tests", "plan", "trail", "accepted_by", "created")}  # fmt: skip
    lists = {
        name: list(map(str, held)) if isinstance(held := value.get(name), list) else []
        for name in ("files", "unfinished")
    }
    return HandoffOut(
        entity.item_id, text["state"], text["text"], text["author"], text["recipient"], lists["files"], text["tests"],
        lists["unfinished"], text["plan"], text["trail"], text["accepted_by"], text["created"],
    )  # fmt: skip


def _lines(face: Face, one: HandoffOut) -> Iterator[str]:
    to = f" to {visible(one.recipient)}" if one.recipient else ""
    by = f" by {visible(one.accepted_by)}" if one.accepted_by else ""
    paint = face.palette
    yield f"{paint.name}{one.id}{paint.end} {visible(one.state)}{by}, from {visible(one.author)}{to}: {visible(' '.join(one.text.split()))}"
    if one.files:
        yield f"  files: {visible(', '.join(one.files))}"
    if one.tests:
        yield f"  tests: {visible(' '.join(one.tests.split()))}"
    for left in one.unfinished:
        yield f"  to do: {visible(' '.join(left.split()))}"
