"""The command line as a person types it: a process of its own, its output, its exit code, its JSON."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from command_runner import run_command
from periplus.cli.reference import ALL_SCHEMAS
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project

_OWN_PROCESS = (("hook",), ("mcp",))  # they end their process themselves
_PROCESS_NAME = re.compile("PYTHON|LD_|LC_|LANG")  # what is read when the interpreter starts
PERIPLUS = os.fspath(Path(sys.executable).with_name("periplus"))
SECRET = "AKIA" + "IOSFODNN7ABCDEFG"
_TYPES = {str(schema.__struct_config__.tag): schema for schema in ALL_SCHEMAS.values()}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


def read_to_the_end(terminal):
    """What is said at a terminal until nobody is left at its other side. Linux looks for what was written before it looks whether
    somebody is there: what was written in between, and then the end, is had by the read after the one that failed.
    """
    said, is_alone = b"", False
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # how Linux says that the other side was closed; others give no bytes
            piece = b""
        if not piece and is_alone:
            return said
        is_alone = not piece
        said += piece


def age(path):
    """As if the file had been written long ago: Python tells a module from what it compiled of it by its size and the second of its time."""
    os.utime(path, (1_700_000_000, 1_700_000_000))


class Shell:
    """Runs ``periplus`` in ``folder`` with an environment of its own, in which nobody's home is found."""

    is_process = False  # True: every command is a process

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home

    def environment(self, **more):
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "COVERAGE_PROCESS_START")}
        return kept | {"HOME": os.fspath(self.home), "LOGNAME": "ada", "GIT_CONFIG_NOSYSTEM": "1"} | more

    def start(self, *words, cwd=None, env=None, **how):
        return subprocess.Popen(
            [PERIPLUS, *map(os.fspath, words)], cwd=cwd or self.folder, env=self.environment(**env or {}), **how
        )

    def __call__(self, *words, code=0, stdin=None, cwd=None, env=None, is_process=False) -> Done:
        """Run, and check the exit code and that no traceback was shown.

        Within this process, but for hooks, for what the interpreter reads when it starts, and where a process is asked for.
        """
        data = (stdin.encode() if isinstance(stdin, str) else stdin) or b""
        if is_process or self.is_process or words[:1] in _OWN_PROCESS or any(map(_PROCESS_NAME.match, env or ())):
            process = self.start(
                *words, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            out, err = process.communicate(data, timeout=120)
            code_found = process.returncode
        else:
            code_found, out, err = run_command(
                words, stdin=data, environment=self.environment(**env or {}), cwd=cwd or self.folder
            )
        done = Done(code_found, out.decode(), err.decode())
        assert "Traceback" not in done.err, done.err
        assert "defect" not in done.err, done.err
        assert done.code == code, done
        return done

    def fails(self, *words, code, wrong="", **how) -> Done:
        """A failure: nothing on standard output, one or two lines on standard error that say ``wrong``."""
        done = self(*words, code=code, **how)
        assert done.out == ""
        lines = done.err.splitlines()
        assert 1 <= len(lines) <= 2, done.err
        assert lines[0].startswith("periplus: ")
        assert wrong in done.err, done.err
        return done

    def json(self, *words, code=0, **how):
        """Run with ``--json``; the one document, decoded by its schema, of which no field may be missing or new."""
        done = self(*words, "--json", code=code, **how)
        assert len(done.lines) == 1, done.out
        return decoded(done.out)


def segmented(tmp_path, count):
    """A shell in ``engine``, a folder with a store of several segments: so many notes about the engine."""
    home, folder = tmp_path / "home", tmp_path / "engine"
    home.mkdir()
    folder.mkdir()
    shell = Shell(folder, home)
    fill(shell)
    config = folder / ".periplus/config.toml"
    config.write_text(config.read_text() + "segment_bytes = 4000\n")
    fill(shell, *(f"note number {number} about the engine" for number in range(count)))
    return shell


def fill(shell, *texts):
    """Make a store with a note for each text, without the price of a process for each."""
    Project.init(os.fspath(shell.folder))
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        for text in texts:
            project.remember(Memory("note", text))


def decoded(text):
    raw = json.loads(text)
    value = msgspec.json.decode(text, type=_TYPES[raw["schema"]])
    assert msgspec.to_builtins(value) == raw, "the document has fields that its schema does not know"
    return value


def git(folder, *words):
    names = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER")
             for what, text in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", "2026-01-31T09:30:00Z"))}  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
    return subprocess.run(
        ["git", "-C", os.fspath(folder), *words], env=environment, check=True, capture_output=True, text=True
    ).stdout


def make_repository(folder, commits=2):
    """Make ``folder`` a repository with ``commits``: a copy of one that was made once, for git takes four processes a commit."""
    shutil.copytree(_made_repository(commits), folder, dirs_exist_ok=True)
    return folder


@functools.cache
def _made_repository(commits):
    folder = Path(tempfile.mkdtemp(prefix="periplus-repository-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    git(folder, "init", "-q", "--template=", "-b", "main")
    for number in range(commits):
        (folder / "engine.py").write_text(f"revision = {number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Turn the crank {number} times")
    return folder


def claude_session(path, *, cwd="/home/ada/engine", prompt="Count the cogs of the engine", steps=1, session="5e551011"):
    """A small session of Claude Code: a prompt, ``steps`` commands with their results, an answer."""
    rows = []

    def add(kind, message, **more):
        number = len(rows)
        rows.append({
            "type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": session, "cwd": cwd, "version": "2.0.0", "timestamp": f"2026-02-03T10:{number // 60:02d}:{number % 60:02d}.000Z",
            "message": message, **more,
        })  # fmt: skip

    add("user", {"role": "user", "content": prompt})
    for step in range(steps):
        call = {"type": "tool_use", "id": f"t{step}", "name": "Bash", "input": {"command": f"make cog{step}"}}
        add("assistant", {"id": f"m{step}", "role": "assistant", "model": "model-1", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"t{step}", "content": f"cog {step} made"}
        add("user", {"role": "user", "content": [result]})
    add("assistant", {"id": "last", "role": "assistant", "model": "model-1",
                      "content": [{"type": "text", "text": "All cogs are counted."}]})  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def codex_session(path, *, cwd="/home/ada/engine", prompt="Oil the wheels", session="0199aaaa"):
    """A small session of Codex: a prompt and an answer."""

    def item(role, kind, text):
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    rows = [
        {
            "type": "session_meta",
            "payload": {"id": session, "cwd": cwd, "cli_version": "0.50.0", "originator": "codex"},
        },
        {"type": "response_item", "payload": item("user", "input_text", prompt)},
        {"type": "response_item", "payload": item("assistant", "output_text", "The wheels are oiled.")},
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"timestamp": "2026-02-04T08:00:00.000Z", **row}) + "\n" for row in rows))
    return path


def shared_project(folder: Path, *clones: str) -> dict[str, Shell]:
    """A project of Ada's with a store, in git with the remote ``hub.git``, and ``clones`` of it: a shell in each."""
    (folder / "home").mkdir()
    make_repository(folder / "ada")
    git(folder, "init", "-q", "--bare", "hub.git")
    git(folder / "ada", "remote", "add", "origin", "../hub.git")
    shells = {name: Shell(folder / name, folder / "home") for name in ("ada", *clones)}
    shells["ada"]("init")
    git(folder / "ada", "add", "-A")
    git(folder / "ada", "commit", "-q", "-m", "A store")
    git(folder / "ada", "push", "-q", "origin", "main")
    for name in clones:
        git(folder, "clone", "-q", "-b", "main", folder / "hub.git", name)
    return shells
