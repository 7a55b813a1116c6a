"""``periplus loop next``: the present phase, in the foreground."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, visible
from periplus.cli.common.interrupts import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from periplus.dispatch.loops.runner import LoopRunner
    from periplus.journal import Entity

_STOPPING: Final = "\nperiplus: stopping the agents; their work stays, and the next call goes on with it.\n"
_EXIT: Final = {"opened": 0, "closed": 0, "shut": 1, "exhausted": 1, "interrupted": EXIT_INTERRUPTED}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", default="", metavar="ID",
                        help="the loop, or a unique prefix of its id (default: the open one)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="go on through all phases, as long as gates open")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what agents would be told, start and write nothing"
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.common.changes import check_typed
    from periplus.cli.dispatch.loop.loop_view import heading_lines, loop_out, next_lines
    from periplus.cli.dispatch.loop.schemas import LoopTurnOut, PhaseOut
    from periplus.cli.dispatch.surroundings import surroundings_of
    from periplus.dispatch.loops.runner import LoopRunner
    from periplus.memory.coordination.loops import find_loop

    check_typed(arguments)

    def told(assignment: Entity) -> None:
        value = assignment.value
        if not face.as_json:
            face.out(f"  {value.get('state')!s:12} {visible(str(value.get('agent')))}  {assignment.item_id}")
            face.flush()

    phases: list[PhaseOut] = []
    with face.open() as project:
        loop = find_loop(project.journal, arguments.id)
        if arguments.dry_run:
            return _show_trial(face, loop)
        runner = LoopRunner(project, loop.item_id, surroundings_of(face, project).options, told)
        with _interruptible(face, runner):
            while True:
                turn = runner.phase()
                phases.append(PhaseOut(turn.phase, turn.outcome))
                if not face.as_json:
                    face.out(f"{turn.phase}: {turn.outcome}")
                if turn.outcome != "opened" or not arguments.all:
                    break
    result = LoopTurnOut(loop_out(turn.loop), phases)

    def lines() -> Iterator[str]:
        yield from heading_lines(result.loop, face.palette, face.width)
        yield from next_lines(result.loop)

    return face.emit(result, lines, _EXIT[turn.outcome])


def _show_trial(face: Face, loop: Entity) -> int:
    from periplus.base.errors import RefusedError
    from periplus.cli.dispatch.loop.loop_view import loop_out
    from periplus.cli.dispatch.loop.schemas import LoopTrialOut
    from periplus.dispatch.loops.phase_orders import step_texts
    from periplus.dispatch.loops.runner import shape_of

    held = shape_of(loop)
    if held.state == "closed":
        raise RefusedError(f"the loop {loop.item_id} is closed: {held.reason}", safe="Nothing was started.")
    result = LoopTrialOut(loop_out(loop), [step.text for step in step_texts(held)])

    def lines() -> Iterator[str]:
        for order in result.orders:
            yield f"Would ask {visible(' or '.join(held.agents))}:"
            yield from (f"    {visible(row)}" for row in order.splitlines())

    return face.emit(result, lines)


@contextmanager
def _interruptible(face: Face, runner: LoopRunner) -> Iterator[None]:
    """Let Ctrl-C stop the agents."""

    def interrupt(_number: int, _frame: object) -> None:
        os.write(face.stderr.fileno(), _STOPPING.encode())
        runner.stop()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
