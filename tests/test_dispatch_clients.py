"""Real clients started by their adapters in a fresh git worktree: a small edit, a second run of the same session, usage, transcript.

The model is a script on loopback; see ``client_support``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import uuid

import msgspec
import pytest

from cli_support import PERIPLUS
from client_support import CLIENTS, FILES, PATIENCE_S, Codex, Shop, calls, say, untrusting
from fake_provider import Failure, FakeProvider, Hanging
from periplus.agent.contracts import Usage
from periplus.dispatch.adapters import Sought, Spent, Start, adapter_named, check
from periplus.interop import import_transcripts
from periplus.project.agent_hooks.connection import Machine

pytestmark = [pytest.mark.rig, pytest.mark.slow]

PROMPT = "Harden the password check"
DECISION = "Passwords are hashed with argon2id"
SHOWN = 'echo "seen $PERIPLUS_RUN,$PERIPLUS_AGENT,$GIT_AUTHOR_NAME,$SECRET_OF_SUPERVISOR."; git check-ignore -q placed.txt; echo "ignored $?."'
USAGE = Usage(prompt_tokens=1000, completion_tokens=10, cached=300, reasoning=4)
NOTHING = Spent()
PRICED = {"claude-code"}  # by the model's name alone; others have prices only from a provider's list
_CLIENTS = [Codex(is_reviewed=False) if client.name == "codex" else client for client in CLIENTS]
each = pytest.mark.parametrize("client", _CLIENTS, ids=lambda client: client.name)


class Tree:
    """A worktree of the shop; with what the builders of answers in ``client_support`` look at."""

    def __init__(self, tmp_path, client):
        self.client = client
        self.adapter = adapter_named(client.name)
        self.path = client.path()
        self.shop = Shop(tmp_path, client.files)
        self.home = self.shop.home
        self.shop("init")
        self.shop("remember", DECISION, "--type", "decision", "--about", "src/auth.py")
        self.shop("claim", "take", "src/mail.py", "--as", "bob", "--text", "New mailer")
        self.status = self.git("status", "--porcelain", cwd=self.shop.folder)
        self.folder = tmp_path / "tree"
        self.git("worktree", "add", "-q", "-b", "periplus/step", self.folder, cwd=self.shop.folder)
        self.shop("connect", client.name, cwd=self.folder)
        self.programs = tmp_path / "bin"
        self.programs.mkdir()
        (self.programs / self.adapter.programs[0]).symlink_to(self.path)
        self.excludes = tmp_path / "excludes"
        self.excludes.write_text("placed.txt\n")
        self.runs = 0

    def git(self, *words, cwd=None):
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.folder,
            env=self.shop.environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def person(self, url):
        """The environment of the person, who signed in and has settings."""
        prepared = untrusting(self.client, self.shop, url)
        own = self.shop.environment(SECRET_OF_SUPERVISOR="leaked", ANTHROPIC_AUTH_TOKEN="", **prepared)
        return own | {"PATH": os.pathsep.join((os.fspath(self.programs), own["PATH"]))}

    def run(self, prompt, *steps, before=NOTHING, resume="", session="", code=0):
        """One run; gives its reading, and what the model was sent."""
        left, bodies = list(steps), []

        def model(body):
            if not self.client.is_of_agent(body):
                return say("A title")
            bodies.append(json.dumps({name: value for name, value in body.items() if name != "tools"}))
            step = left.pop(0)
            step = step() if callable(step) else step
            return step if isinstance(step, Failure) else replace_usage(step)

        with (
            FakeProvider(otherwise=model) as provider,
            self.started(prompt, provider, session, resume=resume) as process,
        ):
            said, _ = process.communicate(timeout=PATIENCE_S)
        reading = self.adapter.reading(before)
        reading.feed(said)
        reading.close()
        assert process.returncode == code, said.decode()
        return reading, bodies

    @contextlib.contextmanager
    def started(self, prompt, provider, session="", *, resume=""):
        """The client at work; what is left of it is gone in the end."""
        self.runs += 1
        start = Start(
                os.fspath(self.folder), os.fspath(self.folder.parent / "run"), f"run_{self.runs}", session or str(uuid.uuid4()), "",
                self.person(provider.url), resume=resume, agent="worker", email="ada@example.org", command=(PERIPLUS,), excludes=os.fspath(self.excludes),
                model="gemini-2.5-pro" if self.client.name == "gemini" else "",
            )  # fmt: skip
        command = self.adapter.start(start)
        path = self.folder.parent / "prompt"
        path.write_text(prompt)
        with path.open() as stdin, subprocess.Popen(
            command.argv, cwd=self.folder, env=command.environment, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def replace_usage(answer):
    return msgspec.structs.replace(answer, usage=USAGE)


@each
def test_an_edit_and_a_second_run_that_remembers(client, tmp_path):
    tree = Tree(tmp_path, client)
    session = str(uuid.uuid4())
    reading, sent = tree.run(
        PROMPT,
        client.read(tree, "src/auth.py", "src/mail.py"),
        lambda: client.edit(tree, "src/auth.py", "hash(password)", "argon2(password)"),
        lambda: client.edit(tree, "src/mail.py", "return to", "return to.lower()"),
        client.command(SHOWN),
        client.command("git add src && git commit -qm Harder"),
        client.tool("recall", {"question": "How are passwords hashed?"}),
        say("The check uses argon2 now."),
        session=session,
    )
    assert (reading.ended, reading.wants, reading.problem) == ("done", "", "")
    assert reading.last_text == "The check uses argon2 now."
    assert reading.spent[:3] == (7000, 2100, 70)
    assert (reading.cost_millionths > 0) == (client.name in PRICED)

    # Its hooks refused what bob claims, it worked in its worktree as itself, and saw nothing of the supervisor's.
    assert "src/mail.py is claimed: exclusive by bob" in sent[3]
    assert tree.git("show", "periplus/step:src/mail.py").encode() == FILES["src/mail.py"]
    assert "seen run_1,worker,worker (periplus),." in sent[4]
    assert "ignored 0." in sent[4]
    assert sent[6].count(DECISION) > sent[5].count(DECISION)
    assert "argon2(password)" in tree.git("show", "periplus/step:src/auth.py")
    assert tree.git("log", "-1", "--format=%an <%ae>").strip() == "worker (periplus) <ada@example.org>"
    assert tree.git("status", "--porcelain", cwd=tree.shop.folder) == tree.status

    # The session is known by its id, and goes on.
    assert (reading.session == session) == tree.adapter.chooses
    more, sent = tree.run("Now the mails", say("The mails are hard."), resume=reading.session, before=reading.spent)
    assert PROMPT in sent[0]
    assert more.session == reading.session
    assert (more.ended, more.last_text) == ("done", "The mails are hard.")
    assert more.spent[:3] == (1000, 300, 10)
    if client.name in PRICED:
        assert more.cost_millionths * 7 == pytest.approx(reading.cost_millionths, rel=0.1)

    # What it keeps of the session is found and read.
    (transcript,) = tree.adapter.transcripts(
        Sought(reading.session, os.fspath(tree.folder), tree.person("http://127.0.0.1:9"))
    )
    found = import_transcripts(transcript, trail_key=bytes(32), put_object=lambda data: hashlib.sha256(data).digest())
    imported = [one for one in found if one.session_id == reading.session]
    assert imported, transcript
    assert imported[0].cwd in (None, os.fspath(tree.folder))  # Gemini CLI keeps only its digest


@each
def test_a_session_that_is_not_there_is_told(client, tmp_path):
    tree = Tree(tmp_path, client)
    unknown = "ses_0123456789abcdef0123456789" if client.name == "opencode" else str(uuid.uuid4())
    code = 42 if client.name == "gemini" else 1
    reading, sent = tree.run("Now the mails", resume=unknown, code=code)
    explanation = tree.adapter.explanation(reading, code)
    assert sent == []
    assert explanation.wants == ""
    assert "session" in explanation.text.lower() or "thread" in explanation.text


REFUSED = {
    "claude-code": {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
    "codex": {"error": {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}},
    "gemini": {
        "error": {
            "code": 400,
            "message": "API key not valid. Please pass a valid API key.",
            "status": "INVALID_ARGUMENT",
        }
    },
    "opencode": {"error": {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}},
}


@pytest.mark.parametrize(
    "client", [one for one in _CLIENTS if one.name != "claude-code"], ids=lambda client: client.name
)
def test_a_key_that_is_refused_is_told_with_how_to_sign_in(client, tmp_path):
    """Claude Code, which asks ten times over minutes, is looked at below."""
    tree = Tree(tmp_path, client)
    is_gemini = client.name == "gemini"
    code = 400 % 256 if is_gemini else 1
    reading, _ = tree.run(PROMPT, *[Failure(400 if is_gemini else 401, REFUSED[client.name])] * 20, code=code)
    explanation = tree.adapter.explanation(reading, code)
    assert explanation.wants == "login"
    assert tree.adapter.sign_in in explanation.text
    assert reading.spent == NOTHING


def test_claude_code_whose_key_is_refused_says_so_while_it_tries_again(tmp_path):
    (client,) = (one for one in _CLIENTS if one.name == "claude-code")
    tree = Tree(tmp_path, client)
    refused = Failure(401, REFUSED[client.name])
    reading = tree.adapter.reading()
    with FakeProvider(otherwise=refused) as provider, tree.started(PROMPT, provider) as process:
        for line in process.stdout:
            reading.feed(line)
            if reading.wants:
                break
    assert tree.adapter.explanation(reading, None).wants == "login"
    assert "/login" in tree.adapter.explanation(reading, None).text


@each
def test_a_run_that_was_killed_goes_on(client, tmp_path):
    tree = Tree(tmp_path, client)
    hanging, session = Hanging(), str(uuid.uuid4())
    steps = [client.read(tree, "src/auth.py"), hanging]
    reading = tree.adapter.reading()
    with (
        FakeProvider(otherwise=lambda body: steps.pop(0) if client.is_of_agent(body) else say("A title")) as provider,
        tree.started(PROMPT, provider, session) as process,
    ):
        assert hanging.begun.wait(PATIENCE_S)
        os.killpg(process.pid, signal.SIGKILL)
        reading.feed(process.stdout.read())
        hanging.over.set()
    assert reading.ended == ""
    resume = session if tree.adapter.chooses else reading.session
    more, sent = tree.run("Go on", say("It is done."), resume=resume)
    assert PROMPT in sent[0]
    assert (more.ended, more.last_text) == ("done", "It is done.")


@each
def test_an_installed_client_is_found_fit(client, tmp_path):
    tree = Tree(tmp_path, client)
    person = tree.person("http://127.0.0.1:9")
    folders = tuple(person["PATH"].split(os.pathsep))
    home = person["HOME"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    machine = Machine(home, f"{home}/.config", f"{home}/.codex", False, folders, (PERIPLUS,), person)
    findings = {finding.what: finding for finding in check(tree.adapter, machine, os.fspath(scratch))}
    assert list(findings) == ["program", "version", "starts", "login", "server answers", "hooks run"]
    assert [finding.wrong for finding in findings.values()] == [""] * len(findings)
    assert "tried with" not in findings["version"].says
    assert "test" not in findings["login"].says.split()


def test_our_own_agent_works_and_goes_on(tmp_path):
    adapter = adapter_named("periplus")
    shop = Shop(tmp_path, ())
    shop("init")
    tree = tmp_path / "tree"
    subprocess.run(
        ["git", "worktree", "add", "-q", "-b", "periplus/step", tree],
        cwd=shop.folder,
        env=shop.environment(),
        check=True,
    )
    session, before = str(uuid.uuid4()), NOTHING
    for prompt, path, resume in ((PROMPT, "src/auth.py", ""), ("Now the mails", "src/mail.py", session)):
        edit = {"path": path, "old": "return", "new": "return  # hard\n    return"}
        answers = [calls(("read", {"path": path})), calls(("edit", {"edits": [edit]})), *[say("It is hard.")] * 4]
        talk = [{"v": 1, "asked": "", "answer": msgspec.to_builtins(replace_usage(answer))} for answer in answers]
        (tmp_path / "talk").write_text("".join(json.dumps(one) + "\n" for one in talk))
        start = Start(
            os.fspath(tree), os.fspath(tmp_path / "run"), "run_1", session, "", shop.environment(SECRET_OF_SUPERVISOR="x"), resume=resume,
            command=(PERIPLUS,), agent="worker",
        )  # fmt: skip
        command = adapter.start(start)
        done = subprocess.run(
            [*command.argv, "--play", tmp_path / "talk"], cwd=tree, env=command.environment, input=prompt.encode(), capture_output=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
        reading = adapter.reading(before)
        reading.feed(done.stdout + done.stderr)
        assert (done.returncode, reading.ended, reading.session) == (0, "done", session), done
        (ended,) = (one for one in map(json.loads, done.stdout.splitlines()) if one["event"] == "turn_ended")
        assert reading.spent[:3] == (
            ended["usage"]["prompt_tokens"],
            ended["usage"]["cached"],
            ended["usage"]["completion_tokens"],
        )
        assert reading.spent.tokens_in >= 3000
        assert "# hard" in (tree / path).read_text()
        assert (shop.folder / path).read_bytes() == FILES[path]  # the checkout of the person
    assert adapter.transcripts(Sought(session, os.fspath(tree), {})) == []
    assert len(shop.json("trail", "list").trails) >= 1
