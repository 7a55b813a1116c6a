"""The part of the tour with several agents: a plan of three steps for two of them, with a failing test, a crash and a conflict.

The agents are scripts (``tour_worker``). All else is real: worktrees, tests, the merge queue, the records.
"""

from __future__ import annotations

__all__ = ["dispatched"]

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from periplus.cli.common.face import counted

if TYPE_CHECKING:
    from periplus.cli.common.face import Face
    from periplus.journal import Entity
    from periplus.memory.entities.schemas import Assignment

_FILES: Final = {
    "slug.sh": "#!/bin/sh\n# Prints its words in lower case, joined by hyphens.\nprintf '%s\\n' \"$*\" | tr 'A-Z' 'a-z' | tr ' ' '-'\n",
    "test.sh": "#!/bin/sh\ngot=$(sh slug.sh Set Sail)\n"
    'if [ "$got" != set-sail ]; then\n  echo "wanted set-sail, got $got"\n  exit 1\nfi\necho passed\n',
    ".gitignore": ".periplus/\n",
}
_STEPS: Final = ("Cut long slugs", "Leave out punctuation", "Say in a README how it is used")
_AGENTS: Final = ("anna", "bert")
_ORACLE: Final = ("sh", "test.sh")
_WHY: Final = {
    "oracle": "its test fails: back to {agent}", "conflict": "it conflicts with what was merged: back to {agent}",
    "queue": "the merge fails its test: back to {agent}", "attempt": "offered again, to {agent}",
}  # fmt: skip


def dispatched(face: Face, folder: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run the dispatch; return the results for --json. ``ok`` says whether all is as expected, None if it could not be tried."""
    from periplus.base.errors import PeriplusError
    from periplus.cli.tour.scratch_repository import commit_all
    from periplus.dispatch.supervision import Order, Supervisor, prepare_dispatch
    from periplus.memory.coordination.plans import NewStep
    from periplus.project import Project

    os.makedirs(folder)
    for name, text in _FILES.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    if not commit_all(folder, "Slugs"):
        tell("skipped: git is not installed")
        return {"ok": None}
    Project.init(folder)
    lines = _Lines(tell)
    with Project.open(folder, face.writer(), store=folder) as project:
        options = _options(face, folder)
        plan = project.work.make_plan("Better slugs", [NewStep(text) for text in _STEPS])
        order = Order(_AGENTS, plan.plan.item_id, lanes=len(_AGENTS), oracle=_ORACLE)
        try:
            held = prepare_dispatch(project, order, options)
            outcome = Supervisor(project, held.item_id, options, lines).run()
        except PeriplusError as error:
            tell(f"skipped: {error}")
            return {"ok": None}
        branch = str(held.value["branch"])
        merged = _log(folder, branch)
        found = list(lines.last.values())
    tokens, cost = sum(one.tokens_in + one.cached + one.out for one in found), sum(one.cost for one in found)
    tell(
        f"— {outcome}: {counted(len(merged) - 1, 'merges')} on {branch}, each tested; {tokens:,} tokens, ${cost / 1e6:.3f} by the trails"
    )
    returns = sorted({one.why for held in found for one in held.returns})
    is_expected = (
        outcome == "done" and len(merged) == len(_STEPS) + 1 and {"oracle", "conflict", "attempt"} <= set(returns)
    )
    return {
        "ok": is_expected,
        "outcome": outcome,
        "merges": len(merged) - 1,
        "returns": returns,
        "tokens": tokens,
        "cost": cost,
    }


def _options(face: Face, folder: str) -> Any:
    from periplus.agent.settings import AgentRow
    from periplus.dispatch.adapters import command_adapter
    from periplus.dispatch.roles.roles import shipped_roles
    from periplus.dispatch.supervision import SupervisorOptions

    worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tour_worker.py")
    rows = [AgentRow(name, (sys.executable, "-P", worker)) for name in _AGENTS]
    environment = {"PATH": face.environment.get("PATH", os.defpath), "HOME": folder, "GIT_CONFIG_NOSYSTEM": "1"}
    return SupervisorOptions(
        os.path.join(folder, "..", "state"), environment, folder, os.path.join(folder, "..", "nobody"), ("periplus",),
        {row.name: command_adapter(row) for row in rows}, {role.name: role for role in shipped_roles()},
    )  # fmt: skip


def _log(folder: str, branch: str) -> list[str]:
    from periplus.interop.git_history.git_process import run_git

    done = run_git(folder, "rev-list", "--first-parent", "--end-of-options", branch)
    return done.stdout.decode().split() if done.returncode == 0 else []


class _Lines:
    """Tells what happens to assignments, a line for what a person would want to know; ``last`` are they in the end."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._returns: dict[str, int] = {}
        self.last: dict[str, Assignment] = {}

    def __call__(self, assignment: Entity) -> None:
        from periplus.dispatch.supervision.workplace import shape

        value = shape(assignment)
        before = self.last.get(assignment.item_id)
        self.last[assignment.item_id] = value
        for one in value.returns[self._returns.get(assignment.item_id, 0) :]:
            self._tell(f"  {value.text}: {_WHY.get(one.why, one.why).format(agent=value.agent)}")
        self._returns[assignment.item_id] = len(value.returns)
        if before is None:
            self._tell(f"  {value.text}: {value.agent} begins, in a worktree of its own")
        elif value.state != before.state and value.state in ("failed", "integrated"):
            said = (
                f"{value.agent} failed ({_last(value.reason)})"
                if value.state == "failed"
                else f"tested and merged, by {value.agent}"
            )
            self._tell(f"  {value.text}: {said}")


def _last(reason: str) -> str:
    return reason.rpartition(": ")[2][:80]
