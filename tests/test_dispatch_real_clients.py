"""Real clients under the supervisor: a step from brief to integration, a question, a claim, a killed run. The model is a script on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from cli_support import PERIPLUS
from client_support import CLIENTS, FILES, PATIENCE_S, Client, Codex, Shop, calls, say, untrusting
from dispatch_support import git
from fake_provider import FakeProvider, Hanging
from periplus.agent.sandbox import Unconfined
from periplus.dispatch.adapters import ADAPTERS
from periplus.dispatch.roles.roles import shipped_roles
from periplus.dispatch.supervision import Order, Supervisor, SupervisorOptions, prepare_dispatch
from periplus.dispatch.supervision.workplace import shape
from periplus.journal import Writer
from periplus.memory.coordination.assignments import assignments_of
from periplus.memory.coordination.dispatches import answer_question, open_questions
from periplus.project import Project
from periplus.project.trail_store.model_costs import trail_costs
from test_dispatch_clients import replace_usage

pytestmark = [pytest.mark.rig, pytest.mark.slow]

TASK = "Harden the password check"
DECISION = "Passwords are hashed with argon2id"
CHECK = b"import pathlib, sys\nsys.exit('argon2' not in pathlib.Path('src/auth.py').read_text())\n"
COMMIT = "git add -A && git commit -qm Harder"
# Swaps the lines of a file whose name no hook can read from the command.
BEHIND = "python3 -c \"import pathlib; p = pathlib.Path('src', 'liam'[::-1] + '.py'); p.write_text('\\n'.join(p.read_text().split('\\n')[::-1]))\""
DONE = "The check uses argon2 now."
RESULT = ".periplus-result.json"
PER_REQUEST = (700, 300, 10)  # fresh, cached and output tokens, see replace_usage
_RUN = re.compile(r'\\"run\\+": \\+"(job_\w+)')
_CLIENTS = {client.name: Codex(is_reviewed=False) if client.name == "codex" else client for client in CLIENTS}
each = pytest.mark.parametrize("client", _CLIENTS.values(), ids=lambda client: client.name)


class Model:
    """Answers requests of agents with one step after the other: an answer, or a function of what is asked that makes it."""

    def __init__(self, rig, client, *steps):
        self.rig, self.client, self.left, self.asked = rig, client, list(steps), []

    def __call__(self, body):
        if not self.client.is_of_agent(body):
            return say("A title")
        self.asked.append(json.dumps({name: value for name, value in body.items() if name != "tools"}))
        step = self.left.pop(0) if self.left else say("No step is left.")
        step = step(self.asked[-1]) if callable(step) else step
        return step if isinstance(step, Hanging) else replace_usage(step)


class Rig:
    """The shop with its store, clients on the PATH, and supervisors whose agents reach the model at ``provider``."""

    def __init__(self, tmp_path, *clients):
        self.clients = clients
        paths = {client.name: client.path() for client in clients}
        files = [file for client in clients for file in client.files]
        self.shop = Shop(tmp_path, [*files, ("check.py", CHECK)])
        self.shop("init")
        self.shop("remember", DECISION, "--type", "decision", "--about", "src/auth.py")
        self.state = tmp_path / "state"
        programs = tmp_path / "bin"
        programs.mkdir()
        self.provider = FakeProvider(otherwise=self.answer)
        self.model = None
        environment = self.shop.environment(ANTHROPIC_AUTH_TOKEN="")
        environment["PATH"] = os.pathsep.join((os.fspath(programs), environment["PATH"]))
        adapters = {adapter.name: adapter for adapter in ADAPTERS}
        for name, path in paths.items():
            for program in adapters[name].programs:
                (programs / program).symlink_to(path)
        for client in clients:
            environment |= untrusting(client, self.shop, self.provider.url)
        home = os.fspath(self.shop.home)
        self.options = SupervisorOptions(
            os.fspath(self.state), environment, home, f"{home}/.config/periplus", (PERIPLUS,), adapters, {role.name: role for role in shipped_roles()},
        )  # fmt: skip
        self.before = self.status()

    @property
    def folder(self):
        """The worktree that an agent works in."""
        (found,) = (path for path in self.state.glob("dispatch/*/worktrees/*") if not path.name.startswith("queue-"))
        return found

    def answer(self, body):
        return self.model(body)

    def status(self):
        """All of git's status but for the store, whose records are files in it."""
        return git(
            self.shop.folder, "status", "--porcelain=v2", "--branch", "--untracked-files=all", "--", ".", ":!.periplus"
        )

    @contextlib.contextmanager
    def open(self):
        with Project.open(os.fspath(self.shop.folder), Writer.named("ada")) as project:
            yield project

    def order(self, project, **more):
        names = tuple(client.name for client in self.clients)
        limits = {"retries": 1, "rounds": 3, "wall_s": PATIENCE_S, "oracle_s": 60}
        model = "gemini-2.5-pro" if names == ("gemini",) else ""
        order = Order(
            **{"agents": names[:1], "task": TASK, "oracle": (sys.executable, "check.py"), "model": model, **more},
            limits=limits,
        )
        return prepare_dispatch(project, order, self.options)

    def supervisor(self, project, dispatch):
        return Supervisor(project, dispatch.item_id, self.options, sandbox=Unconfined())

    def run(self, project, dispatch, model):
        """Let a new supervisor do the dispatch to its end; gives the one assignment."""
        self.model = model
        assert self.supervisor(project, dispatch).run() == "done", self.assignment(project, dispatch)
        assert model.left == [], self.assignment(project, dispatch)
        assert "No step is left." not in model.asked[-1]
        return self.assignment(project, dispatch)

    def look_until(self, project, dispatch, model, is_so):
        self.model = model
        supervisor = self.supervisor(project, dispatch)
        supervisor.workplace.places.make()
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until, self.assignment(project, dispatch)
            if not supervisor.look():
                time.sleep(0.02)

    def fork(self, dispatch, model):
        """Start a supervisor in a process of its own, before the provider has a thread; return its process id."""
        pid = os.fork()
        if pid:
            return pid
        try:
            with self.open() as project:
                self.run(project, dispatch, model)
        finally:
            os._exit(99)

    def kill(self, run, *, with_keeper):
        """Kill the process group of a client and, before it, the keeper that would tell of that."""
        self.wait_for_record()
        (path,) = self.state.glob(f"dispatch/*/runs/{run}/process")
        marks = json.loads(path.read_text())
        if with_keeper:
            os.kill(marks["keeper"]["pid"], signal.SIGKILL)
        os.killpg(marks["leader"]["pid"], signal.SIGKILL)

    def wait_for_record(self):
        """Wait until the client has written what it read: some write their record a moment later."""
        until = time.monotonic() + PATIENCE_S
        while not any(
            b"def check(password)" in path.read_bytes() for path in self.shop.home.rglob("*") if path.is_file()
        ):
            assert time.monotonic() < until
            time.sleep(0.02)

    def assignment(self, project, dispatch):
        (found,) = assignments_of(project.journal, dispatch.item_id)
        return shape(found)

    def placed(self):
        """Return the files of the worktree that are not as they were committed: hooks, server and instructions."""
        tracked = git(self.folder, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        changed = [name for name in tracked if (self.folder / name).read_bytes() != self.committed(name)]
        return changed + git(self.folder, "ls-files", "--others").splitlines()

    def committed(self, name):
        words = ["git", "show", f"HEAD:{name}"]
        return subprocess.run(words, cwd=self.folder, check=True, capture_output=True).stdout

    # -- steps of the model ---------------------------------------------------------------------------------------------

    def read(self, *paths):
        return lambda _: self.clients[0].read(self, *paths)

    def edit(self, path, old, new):
        return lambda _: self.clients[0].edit(self, path, old, new)

    def work(self):
        """The steps of a model that does the task."""
        return [
            self.read("src/auth.py"), self.edit("src/auth.py", "hash(password)", "argon2(password)"), self.clients[0].command(COMMIT),
            self.hand_in(status="done", summary=DONE, lessons=["hash is not a hash of passwords"]), say(DONE),
        ]  # fmt: skip

    def hand_in(self, client=None, **result):
        """Write the result file for the run that the request names last."""

        def step(asked):
            answer = json.dumps({"v": 1, "run": _RUN.findall(asked)[-1], **result})
            return (client or self.clients[0]).command(f"printf %s '{answer}' > {RESULT}")

        return step

    # -- what must hold -------------------------------------------------------------------------------------------------

    def check(self, project, dispatch, assignment, changed=frozenset({"src/auth.py"})):
        """Assert that the work is integrated, that nothing else is, and that all of it is accounted for."""
        assert assignment.state == "integrated"
        branch, base = dispatch.value["branch"], dispatch.value["base"]
        assert set(git(self.shop.folder, "diff", "--name-only", base, branch).splitlines()) == set(changed)
        commits = git(self.shop.folder, "log", "--name-only", "--format=", base + ".." + branch).splitlines()
        assert {name for name in commits if name} == set(changed)
        assert "argon2(password)" in git(self.shop.folder, "show", f"{branch}:src/auth.py")
        assert self.status() == self.before
        assert [path.name for path in self.state.glob("dispatch/*/worktrees/*")] == []
        assert project.work.claims() == []
        assert max(Counter(run.id for run in assignment.runs).values()) == 1
        self.check_sums(project, assignment)

    def check_sums(self, project, assignment):
        runs = [run for run in assignment.runs if run.purpose in ("work", "review")]
        for name in ("tokens_in", "cached", "out", "cost"):
            assert getattr(assignment, name) == sum(getattr(run, name) for run in runs)
        trails = {run.trail for run in runs}
        assert "" not in trails
        sums = [trail_costs(project, trail) for trail in trails]
        assert [sum(one) for one in zip(*(one[:3] for one in sums), strict=True)] == [
            assignment.tokens_in,
            assignment.cached,
            assignment.out,
        ]


@each
def test_a_step_from_brief_to_integration(client, tmp_path):
    rig = Rig(tmp_path, client)
    with rig.provider, rig.open() as project:
        dispatch = rig.order(project)
        read, *rest = rig.work()
        placed = []

        def look(asked):
            placed.extend(rig.placed())
            return read(asked)

        model = Model(rig, client, look, *rest)
        done = rig.run(project, dispatch, model)
        assert len(placed) >= 2  # hooks or server, and instructions
        assert DECISION in model.asked[0]
        assert [run.purpose for run in done.runs] == ["work", "oracle", "queue"]
        rig.check(project, dispatch, done)
        assert (done.tokens_in, done.cached, done.out) == tuple(5 * one for one in PER_REQUEST)
        assert done.summary == DONE
        author = f"{client.name}-{done.step[-8:]} (periplus) <ada@example.org>"
        assert git(rig.shop.folder, "log", "-1", "--format=%an <%ae>", done.tip) == author
        assert git(rig.shop.folder, "rev-list", "--count", f"{done.base}..{done.tip}") == "1"
        shown = rig.shop("trail", "show", done.runs[0].trail).lines
        assert any("FILE_EDIT" in line and "auth.py" in line for line in shown)
        assert any("SAY" in line and DONE in line for line in shown)
        assert len(rig.shop.json("trail", "list").trails) == 1


@each
def test_a_question_is_answered_in_the_same_session(client, tmp_path):
    rig = Rig(tmp_path, client)
    with rig.provider, rig.open() as project:
        dispatch = rig.order(project)
        asks = Model(
            rig,
            client,
            rig.read("src/auth.py"),
            rig.hand_in(status="question", question="Which hash?", options=["argon2", "bcrypt"]),
            say("I asked."),
        )
        rig.look_until(project, dispatch, asks, lambda: open_questions(project.journal))
        (question,) = open_questions(project.journal)
        assert (question.value["text"], question.value["options"]) == ("Which hash?", ["argon2", "bcrypt"])
        answer_question(project.journal, Writer.named("ada"), question.item_id, "argon2, please")
        model = Model(rig, client, *rig.work())
        done = rig.run(project, dispatch, model)
        rig.check(project, dispatch, done)
        assert "argon2, please" in model.asked[0]
        assert "I asked." in model.asked[0]
        assert DECISION in model.asked[0]
        first, second = (run for run in done.runs if run.purpose == "work")
        assert first.session == second.session
        assert first.trail == second.trail
        assert [(run.tokens_in, run.cached, run.out) for run in (first, second)] == [
            tuple(times * one for one in PER_REQUEST) for times in (3, 5)
        ]


@each
def test_a_claim_of_somebody_else_is_kept(client, tmp_path):
    rig = Rig(tmp_path, client)
    rig.shop("claim", "take", "src/mail.py", "--as", "bob", "--text", "New mailer")
    with rig.provider, rig.open() as project:
        dispatch = rig.order(project)
        auth = rig.edit("src/auth.py", "hash(password)", "argon2(password)")
        model = Model(
            rig, client, rig.read("src/auth.py", "src/mail.py"), rig.edit("src/mail.py", "return to", "return to.lower()"), auth,
            client.command(f"{BEHIND} && {COMMIT}"), rig.hand_in(status="done", summary=DONE), say(DONE),
            client.command(f"{BEHIND} && git commit -qam Back"), rig.hand_in(status="done", summary=DONE), say(DONE),
        )  # fmt: skip
        done = rig.run(project, dispatch, model)
        assert "src/mail.py is claimed: exclusive by bob" in model.asked[2]
        assert [back.why for back in done.returns] == ["claim"]
        assert "src/mail.py is claimed by bob" in done.returns[0].text
        assert done.returns[0].text.split(".")[0] in model.asked[6]
        branch = dispatch.value["branch"]
        assert git(rig.shop.folder, "show", f"{branch}:src/mail.py").encode() == FILES["src/mail.py"].strip()
        assert git(rig.shop.folder, "diff", "--name-only", done.base, branch) == "src/auth.py"
        assert rig.status() == rig.before
        rig.check_sums(project, done)


def test_of_a_record_with_many_sessions_only_its_own_is_kept(tmp_path):
    """opencode keeps all sessions of a person in one database: here one of another project, and two of the person in this one."""
    client = _CLIENTS["opencode"]
    rig = Rig(tmp_path, client)
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Shop(tmp_path / "elsewhere", ())
    elsewhere.home = rig.shop.home

    def by_person(shop, prompt):
        client.run(shop, prompt, say("Nothing to do."))
        untrusting(client, rig.shop, rig.provider.url)

    by_person(elsewhere, "A secret project")
    by_person(rig.shop, "Before")
    with rig.provider, rig.open() as project:
        dispatch = rig.order(project)
        read, *rest = rig.work()

        def meanwhile(asked):
            by_person(rig.shop, "Meanwhile")
            return read(asked)

        done = rig.run(project, dispatch, Model(rig, client, meanwhile, *rest))
        rig.check_sums(project, done)
        shown = rig.shop("trail", "show", done.runs[0].trail).lines
        assert any("SAY" in line and DONE in line for line in shown)
        folders = {trail.value["cwd"] for trail in rig.shop.json("trail", "list").trails}
        assert os.fspath(rig.shop.folder) in folders
        assert os.fspath(elsewhere.folder) not in folders


class OwnAgent(Client):
    """Our own agent, which is no client of a server of ours, and works in its own sandbox."""

    name = "periplus"

    def prepare(self, shop, url):
        rows = [
            'model = "scripted/m"',
            "[providers.scripted]",
            'kind = "openai-chat"',
            f'base_url = "{url}/v1"',
            "needs_key = false",
        ]
        path = shop.home / ".config/periplus/agent.toml"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join(rows) + "\n")
        path.chmod(0o600)
        return {}

    def path(self):
        return PERIPLUS

    def read(self, shop, *paths):
        return calls(*(("read", {"path": path}) for path in paths))

    def edit(self, shop, path, old, new):
        return calls(("edit", {"edits": [{"path": path, "old": old, "new": new}]}))

    def command(self, command):
        return calls(("shell", {"command": command}))


def test_our_own_agent_does_a_step(tmp_path):
    client = OwnAgent()
    rig = Rig(tmp_path, client)
    with rig.provider, rig.open() as project:
        dispatch = rig.order(project)
        read, edit, commit, hand_in, said = rig.work()
        looks = client.command("git diff && python3 check.py")
        model = Model(rig, client, read, edit, commit, hand_in, said, looks, said)  # it looks again when asked to
        done = rig.run(project, dispatch, model)
        assert "Git can be read here and not written" in model.asked[0]
        assert "-    return hash(password)" in model.asked[6]
        assert git(rig.shop.folder, "log", "-1", "--format=%an", done.tip) == f"periplus-{done.step[-8:]} (periplus)"
        assert "Uncommitted: committed for the agent" in git(rig.shop.folder, "log", "-1", "--format=%B", done.tip)
        rig.check(project, dispatch, done)
        assert DECISION in model.asked[0]
        assert (done.tokens_in, done.cached, done.out) == tuple(7 * one for one in PER_REQUEST)
        shown = rig.shop("trail", "show", done.runs[0].trail).lines
        assert any("FILE_WRITE" in line and "auth.py" in line for line in shown)
        assert any("SAY" in line and DONE in line for line in shown)
        assert len(rig.shop.json("trail", "list").trails) == 1


@pytest.mark.parametrize("also", ["", "supervisor", "everybody"])
@each
def test_a_killed_client_goes_on(client, also, tmp_path):
    """Killed are the client alone, and with it the supervisor, and with those the keeper that carried the client."""
    rig = Rig(tmp_path, client)
    hanging = Hanging()
    with rig.open() as project:
        dispatch = rig.order(project)
        dies = Model(rig, client, rig.read("src/auth.py"), hanging)
        pid = rig.fork(dispatch, dies) if also else 0
        with rig.provider:
            if also:
                rig.model = dies
                assert hanging.begun.wait(PATIENCE_S)
                os.kill(pid, signal.SIGKILL)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
                project.journal.refresh()
            else:
                rig.look_until(project, dispatch, dies, hanging.begun.is_set)
            begun = rig.assignment(project, dispatch)
            rig.kill(begun.run, with_keeper=also == "everybody")
            hanging.over.set()
            model = Model(rig, client, *rig.work())
            done = rig.run(project, dispatch, model)
            rig.check(project, dispatch, done)
            killed, *_ = runs = [run for run in done.runs if run.purpose == "work"]
            assert (killed.id, len(runs)) == (begun.run, 2)
            assert killed.ending == ("lost" if also == "everybody" else "exited")
            assert done.attempt == (1 if also == "everybody" else 2)
            assert killed.session == runs[1].session
            assert "def check(password)" in model.asked[0]  # which it has read before it was killed
            assert len(_RUN.findall(model.asked[0])) == 2


def test_a_supervisor_was_killed_and_its_client_was_not(tmp_path):
    """The next one adopts the client, which ends its work as if nothing had been."""
    client = _CLIENTS["claude-code"]
    rig = Rig(tmp_path, client)
    hanging = Hanging()
    with rig.open() as project:
        dispatch = rig.order(project)
        before, *after = rig.work()
        rig.model = model = Model(rig, client, before, lambda _: hanging, *after)
        pid = rig.fork(dispatch, model)
        with rig.provider:
            assert hanging.begun.wait(PATIENCE_S)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            project.journal.refresh()
            begun = rig.assignment(project, dispatch)
            hanging.over.set()  # the client asks again
            done = rig.run(project, dispatch, model)
            rig.check(project, dispatch, done)
            assert [run.purpose for run in done.runs] == ["work", "oracle", "queue"]
            assert done.runs[0].id == begun.run


def test_another_client_reviews(tmp_path):
    """Codex finds a fault in the work of Claude Code, which mends it; both go on in the sessions they had."""
    author, reviewer = _CLIENTS["claude-code"], _CLIENTS["codex"]
    rig = Rig(tmp_path, author, reviewer)
    finding = {"severity": "blocking", "path": "src/auth.py", "line": 2, "text": "argon2 needs a salt"}
    with rig.provider, rig.open() as project:
        dispatch = rig.order(project, reviewers=(reviewer.name,))
        model = Model(
            rig, author, *rig.work(),
            rig.hand_in(reviewer, status="done", verdict="changes", findings=[finding]), say("There is a fault."),
            rig.read("src/auth.py"), rig.edit("src/auth.py", "argon2(password)", "argon2(password, salt)"), author.command(COMMIT),
            rig.hand_in(status="done", summary="Salted."), say("Salted."),
            rig.hand_in(reviewer, status="done", verdict="approve", findings=[]), say("It is good."),
        )  # fmt: skip
        done = rig.run(project, dispatch, model)
        assert (done.state, done.verdict) == ("integrated", "approve")
        assert [(run.purpose, run.agent) for run in done.runs] == [
            ("work", "claude-code"), ("oracle", "supervisor"), ("review", "codex"), ("work", "claude-code"), ("oracle", "supervisor"),
            ("review", "codex"), ("queue", "merge queue"),
        ]  # fmt: skip
        assert len({run.session for run in done.runs if run.session}) == 2
        assert "+    return argon2(password)" in model.asked[5].replace("\\", "")
        assert "argon2 needs a salt" in model.asked[7]
        assert DONE in model.asked[7]
        assert "There is a fault." in model.asked[12]
        branch = dispatch.value["branch"]
        assert "argon2(password, salt)" in git(rig.shop.folder, "show", f"{branch}:src/auth.py")
        assert git(rig.shop.folder, "diff", "--name-only", done.base, branch) == "src/auth.py"
        assert rig.status() == rig.before
        rig.check_sums(project, done)
