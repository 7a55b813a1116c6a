"""``session`` and ``who``: begin and end sessions of work, and list who works here."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.changes import add_insist, check_typed
from periplus.cli.common.face import Face, visible
from periplus.cli.work.text import claim_line, claim_out

if TYPE_CHECKING:
    from periplus.cli.work.schemas import SessionOut
    from periplus.journal import Entity


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "who":
        return
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    begin = action("begin", "begin a session, or continue one")
    begin.add_argument("name", metavar="NAME", help="the name of the session; set PERIPLUS_SESSION to the same")
    begin.add_argument("--model", default="", metavar="NAME", help="the model in use")
    begin.add_argument("--tool", default="", metavar="NAME", help="the program in use")
    begin.add_argument("--title", default="", metavar="TEXT", help="what it is for")
    add_insist(begin)
    end = action("end", "end a session and release its claims")
    end.add_argument("name", nargs="?", default="", metavar="NAME", help="its name (default: PERIPLUS_SESSION)")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    check_typed(arguments)
    if arguments.command == "who":
        return _who(face)
    from periplus.cli.work.schemas import SessionOneOut
    from periplus.memory.coordination.sessions import NewSession

    with face.open(allow_secrets=getattr(arguments, "insist", False)) as project:
        if arguments.action == "begin":
            new = NewSession(arguments.name, arguments.model, arguments.tool, arguments.title)
            session = project.work.begin_session(new)
        else:
            session = project.work.seal_session(arguments.name)
    out = _out(session)

    def lines() -> Iterator[str]:
        yield f"{out.id} {visible(out.state)}: {visible(out.agent)}, {visible(out.name)}"
        if arguments.action == "begin" and face.environment.get("PERIPLUS_SESSION", "") != out.name:
            import shlex

            yield f"Next: export PERIPLUS_SESSION={visible(shlex.quote(out.name))}, so that your writes belong to it"

    face.emit(SessionOneOut(out), lines)
    return 0


def _who(face: Face) -> int:
    from periplus.cli.work.dispatch_text import (
        agent_lines,
        agents_at_work,
        progress_lines,
        progress_outs,
        question_lines,
        question_outs,
    )
    from periplus.cli.work.schemas import PresentOut, WhoOut

    with face.open() as project:
        symbols = project.work.claimed_symbols()
        present = [
            PresentOut(one.name, _out(one.session) if one.session is not None else None,
                       [claim_out(project, claim, symbols) for claim in one.claims])
            for one in project.work.who()
        ]  # fmt: skip
        progress = project.work.dispatched.progress()
        agents, questions = agents_at_work(project), question_outs(project.work.dispatched.questions())
        now_ms = project.journal.clock.now_ms()

    def lines() -> Iterator[str]:
        for one in present:
            session = f" {visible(one.session.name)}, seen {one.session.seen[:16]}Z" if one.session is not None else ""
            model = f", {visible(one.session.model)}" if one.session is not None and one.session.model else ""
            yield f"{face.palette.name}{visible(one.name)}{face.palette.end}{session}{model}"
            for claim in one.claims:
                yield f"  {claim_line(face, claim, now_ms)}"
        if not present and not agents:
            yield "Nobody works here now."
        yield from agent_lines(face, agents)
        yield from progress_lines(face, progress)
        yield from question_lines(face, questions)

    face.emit(WhoOut(present, agents, progress_outs(progress), questions), lines)
    return 0 if present or agents else 1


def _out(entity: Entity) -> SessionOut:
    from periplus.cli.work.schemas import SessionOut

    names = ("state", "name", "agent", "model", "tool", "title", "started", "seen", "ended")
    return SessionOut(entity.item_id, *(str(entity.value.get(name, "")) for name in names))
