"""``connect --check`` starts what a config file names: whatever that does, the check ends, and nothing of it stays."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from periplus.interop.agents.connection_probe import probe_hook, probe_server

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
