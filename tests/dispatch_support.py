"""A git project with a store, a plan of scripted steps, and supervisors that do it with scripted workers."""

from __future__ import annotations

__all__ = ["Yard", "edit", "git"]

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from periplus.agent.sandbox import Unconfined
from periplus.agent.settings import AgentRow
from periplus.dispatch.adapters import command_adapter
from periplus.dispatch.roles.roles import shipped_roles
from periplus.dispatch.supervision import Order, Supervisor, SupervisorOptions, prepare_dispatch
from periplus.dispatch.supervision.workplace import shape
from periplus.journal import Writer
from periplus.memory.coordination.assignments import assignments_of
from periplus.memory.coordination.plans import NewStep
from periplus.project import Project

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dispatch_worker.py")
PATIENCE_S = 60
# Of numbers in files: their sum is even. So two changes that pass apart can fail together.
ORACLE = """\
import pathlib, sys
total = 0
for path in sorted(pathlib.Path("n").glob("*")):
    total += int(path.read_text())
print("sum", total)
sys.exit(total % 2)
"""


def git(folder, *words, code=0):
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout.strip()


def edit(path, text, message="", **result):
    """The acts of a worker that changes a file, commits and hands in."""
    acts = [{"write": {path: text}}]
    acts += [{"commit": message}] if message else []
    return [*acts, {"result": {"status": "done", "summary": f"changed {path}", **result}}]


class Yard:
    """A project below ``base``. ``agents`` are names of scripted workers."""

    def __init__(self, base, agents=("scripted", "other"), files=None):
        self.folder, self.state, self.scripts, self.home = (
            base / name for name in ("shop", "state", "scripts", "home")
        )
        for folder in (self.folder, self.scripts, self.home):
            folder.mkdir(parents=True)
        for name, text in {
            "check.py": ORACLE,
            "n/a": "2",
            "README.md": "# Shop\n",
            ".gitignore": ".periplus/\n",
            **(files or {}),
        }.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "WORKER_SCRIPTS": str(self.scripts),
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        git(self.folder, "init", "-q", "-b", "main")
        git(self.folder, "config", "user.name", "Ada")
        git(self.folder, "config", "user.email", "ada@example.org")
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-qm", "Begin")
        Project.init(str(self.folder))
        rows = [AgentRow(name, (sys.executable, "-P", WORKER), environment=("WORKER_SCRIPTS",)) for name in agents]
        self.options = SupervisorOptions(
            str(self.state), self.environment, str(self.home), str(self.home / ".config/periplus"), (sys.executable, "-P", "-m", "periplus"),
            {row.name: command_adapter(row) for row in rows}, {role.name: role for role in shipped_roles()},
        )  # fmt: skip

    def open(self):
        return Project.open(str(self.folder), Writer.named("ada"))

    def plan(self, project, **steps):
        """A plan of a step for each name; a value is a list of attempts, or a dict with those, ``after``, ``about``."""
        new, names = [], list(steps)
        for name, given in steps.items():
            how = given if isinstance(given, dict) else {"attempts": given}
            self.script(name, *how["attempts"])
            if "review" in how:
                self.script(f"{name}.review", *how["review"])
            after = tuple(names.index(one) + 1 for one in how.get("after", ()))
            new.append(NewStep(f"Do {name} [script {name}]", after, about=tuple(how.get("about", ()))))
        return project.work.make_plan("A plan", new)

    def script(self, name, *attempts):
        (self.scripts / name).write_text(json.dumps(attempts))

    def prompt(self, name, at=0):
        return (self.scripts / f"{name}.prompt{at}").read_text()

    def times(self, name):
        """How often a worker was started for a step."""
        path = self.scripts / f"{name}.count"
        return path.stat().st_size if path.exists() else 0

    def order(self, project, plan, **more):
        limits = {"retries": 1, "rounds": 3, "wall_s": 60, "oracle_s": 60, **more.pop("limits", {})}
        order = Order(
            **{"agents": ("scripted",), "plan": plan.plan.item_id, "oracle": (sys.executable, "check.py"), **more},
            limits=limits,
        )
        return prepare_dispatch(project, order, self.options)

    def supervisor(self, project, dispatch, **more):
        return Supervisor(project, dispatch.item_id, self.options, sandbox=Unconfined(), **more)

    def run(self, project, dispatch):
        return self.supervisor(project, dispatch).run()

    def wait(self, is_so):
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.02)

    def look_until(self, supervisor, is_so):
        """Let a supervisor look until ``is_so``."""
        supervisor.workplace.places.make()
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until, [one.value for one in supervisor.workplace.assignments()]
            if not supervisor.look():
                time.sleep(0.02)

    def assignments(self, project, dispatch):
        """The assignments by the name of their script."""
        found = map(shape, assignments_of(project.journal, dispatch.item_id))
        return {one.text.partition("[script ")[2].rstrip("]"): one for one in found}

    def starts(self):
        """The ids of the runs whose agent was started, one for each start."""
        path = self.scripts / "runs"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def check(self, project, dispatch):
        """Assert what holds whatever happened: nothing was done twice, lost, or integrated without its check."""
        starts = self.starts()
        assert len(starts) == len(set(starts)), "a run was started twice"
        found = list(map(shape, assignments_of(project.journal, dispatch.item_id)))
        runs = {run.id for one in found for run in one.runs}
        assert set(starts) <= runs, "somebody works of whom no record tells"
        branch = dispatch.value["branch"]
        commits = git(
            self.folder, "log", "--first-parent", "--format=%H", branch, "--not", dispatch.value["base"]
        ).split()
        merged = [one.merged for one in found if one.state == "integrated" and one.merged]
        assert sorted(commits) == sorted(merged), "what is on the branch is not what the records say"
        for one in found:
            if one.state == "integrated" and one.merged:
                assert one.verified == one.tip, one
                assert git(self.folder, "rev-parse", f"{one.merged}^2") == one.tip
            assert all(run.ended for run in one.runs) or one.state in ("offered", "running", "waiting"), one
            for name in ("tokens_in", "cached", "out", "cost"):
                assert getattr(one, name) == sum(getattr(run, name) for run in one.runs)
            step = project.journal.get("step", one.step)
            assert (one.state == "integrated") == (step.value["state"] == "done"), (one.state, step.value)
        assert self.history_passes(branch) == len(commits) + 1
        git(self.folder, "fsck", "--strict", "--no-dangling")

    def history_passes(self, branch):
        """Run the oracle on every commit of the first-parent history of the branch, and return how many there are."""
        clone = Path(tempfile.mkdtemp(dir=self.state)) / "history"
        git(self.folder, "clone", "-q", "--branch", branch, str(self.folder), str(clone))
        commits = git(clone, "rev-list", "--first-parent", "HEAD").split()
        for commit in commits:
            git(clone, "checkout", "-q", commit)
            subprocess.run([sys.executable, "check.py"], cwd=clone, check=True, capture_output=True)
        return len(commits)
