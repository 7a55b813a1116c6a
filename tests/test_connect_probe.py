"""``connect --check`` starts what a config file names: whatever that does, the check ends, and nothing of it stays."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from periplus.interop.agents.connection_probe import probe_hook, probe_server, program_version

MARK = "import time; time.sleep(601)"
CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {MARK!r}]).wait()"
ANSWERS = """
import sys
sys.stdin.readline()
print('{"jsonrpc": "2.0", "id": 1, "result": {}}', flush=True)
"""


def probed(code, tmp_path, **more):
    return probe_server([sys.executable, "-c", code], cwd=os.fspath(tmp_path), environment=os.environ, **more)


def has_ended(seconds=30):
    """Whether what was started is gone; one that was killed may take a moment for it."""
    deadline = time.monotonic() + seconds
    while left_running():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def left_running():
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found += [entry.name] if MARK.encode() in (entry / "cmdline").read_bytes().split(b"\0") else []
        except OSError:
            continue
    return found


def test_a_server_that_answers_works(tmp_path):
    assert probed(ANSWERS, tmp_path, answer_s=30).wrong == ""


def test_one_that_ends_is_told_with_the_first_line_of_its_errors(tmp_path):
    code = "import sys; sys.stderr.write('no such store\\nmore\\n'); sys.exit(2)"
    assert probed(code, tmp_path, answer_s=30).wrong == "it ended without an answer: no such store"


def test_one_that_is_started_by_another_is_ended_with_it(tmp_path):
    """As ``npx`` and ``uv run`` start theirs: the child holds the pipes."""
    assert probed(CHILD, tmp_path, answer_s=0.5).wrong == "no answer within 0.5 s"
    assert has_ended()


def test_one_that_says_much_of_itself_before_it_answers_is_heard(tmp_path):
    code = f"import sys\nsys.stderr.write('loading\\n' * 100_000)\n{ANSWERS}"
    assert probed(code, tmp_path, answer_s=30).wrong == ""


def test_one_that_floods_is_ended(tmp_path):
    code = "import os\nwhile True:\n    os.write(1, b'x' * 65536)"
    assert probed(code, tmp_path, answer_s=30).wrong == "its answer is not that of an MCP server"


@pytest.mark.slow
def test_a_hook_that_hangs_is_ended_with_what_it_started(tmp_path):
    words = [sys.executable, "-c", CHILD]
    assert (
        probe_hook(words, cwd=os.fspath(tmp_path), environment=os.environ, end_s=1.0).wrong
        == "it did not end within 1 s"
    )
    assert has_ended()


def version_of(program, **more):
    return program_version(os.fspath(program), cwd="/", environment=dict(os.environ), **more)


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_tells_its_version(tmp_path):
    assert version_of(script(tmp_path / "a", "echo 'agent v1.20.3-beta.1 (2026)'; echo 9.9")) == "1.20.3-beta.1"
    assert version_of(script(tmp_path / "b", "cat; exit 3")) == ""
    assert version_of(script(tmp_path / "c", "yes 1.")) == ""
    assert version_of(tmp_path / "none") == ""
    begun = time.monotonic()
    assert version_of(script(tmp_path / "d", "sleep 60; echo 1.2.3"), end_s=0.3) == ""
    assert time.monotonic() - begun < 10


def test_a_package_tells_the_version_of_its_program_which_is_not_started(tmp_path):
    program = script(
        tmp_path / "lib/node_modules/@ada/agent/dist/bin/agent.js", f"touch {tmp_path}/started; echo 3.0.0"
    )
    (tmp_path / "lib/node_modules/@ada/agent/package.json").write_text('{"version": "2.1.0", "bin": {"agent": "x"}}')
    link = tmp_path / "bin/agent"
    link.parent.mkdir()
    link.symlink_to(program)
    assert version_of(link) == "2.1.0"
    assert not (tmp_path / "started").exists()
    (tmp_path / "lib/node_modules/@ada/agent/package.json").write_text("[" * 100_000)
    assert version_of(link) == "3.0.0"
