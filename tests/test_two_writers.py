"""Two processes that write memory at the same time lose nothing. The long form is a thousand writes each, with PERIPLUS_EXHAUSTIVE."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from periplus.journal import Writer
from periplus.project import Project

WRITES = 1_000 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 60
ADA = Writer("ada", "who_0000000000000001", "", 1)
WRITING = """
import json, sys
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
with Project(root, Writer.named(name)) as project:
    for number in range(count):
        done = project.remember(Memory("lesson", f"{name} learned the {number}th thing about {name}{number}"))
        print(json.dumps([done.entity.item_id, done.receipt.first_seq]), flush=True)
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    root = Project.init(os.fspath(tmp_path)).root
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITING, root, name, str(WRITES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True) for name in ("ada", "bob")
    ]  # fmt: skip
    for writer in writers:  # both stand ready before one begins
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=600) for writer in writers]
    assert [(writer.returncode, errors) for writer, (_, errors) in zip(writers, said, strict=True)] == [
        (0, ""),
        (0, ""),
    ]
    acknowledged = [[json.loads(line) for line in out.splitlines()] for out, _ in said]
    assert [len(one) for one in acknowledged] == [WRITES, WRITES]
    both = sorted((seq, item_id) for one in acknowledged for item_id, seq in one)
    assert [seq for seq, _ in both] == list(
        range(1, 2 * WRITES + 1)
    )  # each has a number of its own, and none is left out
    with Project(root, ADA) as project:
        assert {entity.item_id for entity in project.journal.entities("lesson")} == {item_id for _, item_id in both}
        for name in ("ada", "bob"):
            for number in (0, WRITES // 2, WRITES - 1):
                (first, *_) = project.recall(f"{name}{number}").hits
                assert first.text == f"{name} learned the {number}th thing about {name}{number}"
        assert not [one for one in project.examine().problems if one.severity == "error"]
    assert len(os.listdir(os.path.join(root, "entities", "lesson"))) == 2 * WRITES
