"""Several agents at once: the start of a lane, the supervisor while nothing happens, a step from offer to merge, going on after a kill.

Agents are scripts, so that the supervisor's own part is what is measured. The limits are those that the project allows itself.
"""

from __future__ import annotations

__all__ = ["measure"]

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.measure import Bench, Figure, Row, figure, row

if TYPE_CHECKING:
    from periplus.dispatch.supervision import Supervisor
    from periplus.project import Project

WORKER: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dispatch_worker.py")
LANES: Final = 8
_LANE_S: Final = 0.5
_IDLE_PERCENT: Final = 1.0
_STEP_MS: Final = 150.0
_RESUME_S: Final = 1.0
_PATIENCE_S: Final = 300.0
_ALLOWED: Final = "what is allowed"


def measure(bench: Bench) -> Iterator[Row]:
    yield from _lane(bench)
    yield from _idle(bench)
    yield from _steps(bench)


def _lane(bench: Bench) -> Iterator[Row]:
    """Time until the agents of eight lanes run, of one of them, beside bare ``git worktree add``."""
    count, rounds = bench.size(10_000, 50), bench.size(5, 1)
    ours, bare = [], []
    for number in range(rounds):
        with _supervised(bench, f"lane{number}", [f"sleep s{one}" for one in range(LANES)], files=count) as (
            project,
            supervisor,
        ):
            for one in range(LANES):
                path = os.path.join(bench.folder, f"bare{number}-{one}")
                begun = time.perf_counter()
                subprocess.run(
                    ["git", "-C", project.folder, "worktree", "add", "-q", "--detach", path],
                    check=True,
                    capture_output=True,
                )
                bare.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            _look_until(supervisor, lambda supervisor=supervisor: _count(supervisor, "running") == LANES)  # type: ignore[misc]
            ours.append((time.perf_counter() - begun) / LANES)
            _stop(supervisor)
    plain, mine = figure(bare), figure(ours)
    beyond = max(0.001, mine.value - plain.value)
    yield row("dispatch", f"start of a lane, {count:,} files", "s", mine, "git worktree add", plain)
    yield row(
        "dispatch",
        f"the same beyond git worktree add, {count:,} files",
        "s",
        _exactly(beyond),
        _ALLOWED,
        _exactly(_LANE_S),
    )


def _idle(bench: Bench) -> Iterator[Row]:
    """Processor time of a supervisor whose eight agents are silent."""
    seconds = bench.size(30, 2)
    with _supervised(bench, "idle", [f"sleep s{one}" for one in range(LANES)]) as (_, supervisor):
        _look_until(supervisor, lambda: _count(supervisor, "running") == LANES)
        supervisor.look()
        begun, spent = time.perf_counter(), time.process_time()
        while time.perf_counter() - begun < seconds:
            supervisor.look()
            supervisor.sleep()
        percent = 100 * (time.process_time() - spent) / (time.perf_counter() - begun)
        _stop(supervisor)
    yield row(
        "dispatch",
        f"supervisor, {LANES} silent lanes",
        "% of a core",
        _exactly(max(percent, 0.001)),
        _ALLOWED,
        _exactly(_IDLE_PERCENT),
    )


def _steps(bench: Bench) -> Iterator[Row]:
    """Processor time of a step from offer to merge, and the first look of a supervisor that goes on with all of them."""
    count = bench.size(40, 3)
    with _supervised(bench, "steps", [f"write s{one}" for one in range(count)]) as (project, supervisor):
        spent, children = time.process_time(), _children_s()
        if supervisor.run() != "done":
            raise RuntimeError("the dispatch was not done")
        own, git = time.process_time() - spent, _children_s() - children
    yield row(
        "dispatch",
        f"supervisor, CPU a step of {count}",
        "ms",
        _exactly(1_000 * own / count),
        _ALLOWED,
        _exactly(_STEP_MS),
    )
    yield row(
        "dispatch",
        f"the same with git and keepers, {count} steps",
        "ms",
        _exactly(1_000 * (own + git) / count),
        _ALLOWED,
        _exactly(_STEP_MS),
    )
    with _supervised(bench, "resume", [f"sleep s{one}" for one in range(count)], lanes=count) as (project, supervisor):
        _look_until(supervisor, lambda: _count(supervisor, "running") == count)
        begun = time.perf_counter()
        with type(project).open(project.folder, project.writer) as again:
            another = _supervisor(bench, again, supervisor.workplace.dispatch_id)
            another.look()
            found = _count(another, "running")
        seconds = time.perf_counter() - begun
        _stop(supervisor)
        if found != count:
            raise RuntimeError(f"{found} of {count} lanes were taken over")
    yield row(
        "dispatch", f"going on with {count} steps after a kill", "s", _exactly(seconds), _ALLOWED, _exactly(_RESUME_S)
    )


@contextmanager
def _supervised(
    bench: Bench, name: str, steps: list[str], *, lanes: int = LANES, files: int = 20
) -> Iterator[tuple[Project, Supervisor]]:
    """A project of ``files`` files with a plan, and its supervisor."""
    from periplus.dispatch.supervision import Order, prepare_dispatch
    from periplus.journal import Writer
    from periplus.memory.coordination.plans import NewStep
    from periplus.project import Project

    folder = os.path.join(bench.folder, name)
    for number in range(files):
        path = os.path.join(folder, f"d{number // 100}", f"f{number}.txt")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"file {number}\n" * 20)
    with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8") as file:
        file.write(".periplus/\n")
    person = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    for words in (("init", "-q"), ("add", "."), (*person, "commit", "-qm", "Begin")):
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)
    Project.init(folder)
    with Project.open(folder, Writer.named("bench")) as project:
        plan = project.work.make_plan(name, [NewStep(text) for text in steps])
        order = Order(("scripted",), plan.plan.item_id, lanes=lanes, oracle=("true",))
        held = prepare_dispatch(project, order, _options(bench))
        yield project, _supervisor(bench, project, held.item_id)


def _supervisor(bench: Bench, project: Project, dispatch: str) -> Supervisor:
    from periplus.agent.sandbox import Unconfined
    from periplus.dispatch.supervision import Supervisor

    supervisor = Supervisor(project, dispatch, _options(bench), sandbox=Unconfined())
    supervisor.workplace.places.make()
    supervisor.lane.queue.begin()
    return supervisor


def _options(bench: Bench):  # type: ignore[no-untyped-def]  # its type is imported where it is used
    from periplus.agent.settings import AgentRow
    from periplus.dispatch.adapters import command_adapter
    from periplus.dispatch.roles.roles import shipped_roles
    from periplus.dispatch.supervision import SupervisorOptions

    row_ = AgentRow("scripted", (sys.executable, "-P", "-S", WORKER))
    environment = {"PATH": os.environ["PATH"], "HOME": bench.folder, "GIT_CONFIG_NOSYSTEM": "1"}
    return SupervisorOptions(
        os.path.join(bench.folder, "state"), environment, bench.folder, os.path.join(bench.folder, "config"), ("periplus",),
        {"scripted": command_adapter(row_)}, {role.name: role for role in shipped_roles()},
    )  # fmt: skip


def _look_until(supervisor: Supervisor, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError("the supervisor did not get there")
        if not supervisor.look():
            time.sleep(0.005)


def _count(supervisor: Supervisor, state: str) -> int:
    """The assignments in a state whose job runs."""
    at = supervisor.workplace
    found = [one for one in at.assignments() if one.value.get("state") == state]
    return sum(at.run_folder(str(one.value.get("run"))).standing() == "running" for one in found)


def _stop(supervisor: Supervisor) -> None:
    """Stop what runs: the folders are removed next."""
    supervisor.workplace.stop("the measure is over")
    for assignment in supervisor.workplace.assignments():
        supervisor.workplace.run_folder(str(assignment.value.get("run"))).kill()
    _look_until(supervisor, lambda: _count(supervisor, "cancelled") == 0)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _exactly(value: float) -> Figure:
    return Figure(value, value, value)
