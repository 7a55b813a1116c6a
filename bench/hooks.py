"""Hooks as an agent feels them: each event as a whole process, on a store of 100,000 records."""

from __future__ import annotations

__all__ = ["measure"]

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from bench.measure import Bench, Row, figure, in_turn, row
from bench.processes import checked_run, environment, periplus_command, spend
from bench.recall import memory_store
from bench.samples import Texts

_BUDGETS_MS: Final = {"PostToolUse": 120, "UserPromptSubmit": 150, "SessionStart": 300, "SessionEnd": 500}
_SESSION: Final = "0b6f1f0e-6a57-4c0e-9a64-2f6f3f1c7a11"


def measure(bench: Bench) -> Iterator[Row]:
    count = bench.size(100_000, 300)
    texts = Texts(7)
    bodies = [texts.memory() for _ in range(count)]
    folder = os.path.join(bench.folder, "hooks")
    root = memory_store(os.path.join(folder, ".periplus"), bodies, bench.say)
    files = {name: _input(bench.folder, folder, name, fields) for name, fields in _events(texts, bodies).items()}
    periplus, nothing = periplus_command(), [sys.executable, "-c", "pass"]
    sides = {name: partial(spend, _command(periplus, root, name), path) for name, path in files.items()}
    for name, path in files.items():  # nothing is measured that goes wrong
        with open(path, "rb") as file:
            done = subprocess.run(
                _command(periplus, root, name), stdin=file, capture_output=True, env=environment(), check=True
            )
        if done.stderr or os.path.exists(os.path.join(root, "hooks", "notes")):
            raise RuntimeError(f"{name} had trouble: {done.stderr.decode()}; see {root}/hooks/notes")
    rounds = bench.size(15, 2)
    bench.say(f"{rounds} rounds")
    found = in_turn(rounds, {**sides, "nothing": partial(spend, nothing)}, collect=False)
    _wait_for_what_was_left_behind(root)
    checked_run([*periplus, "status", "--store", root])  # takes in what waits
    theirs = figure([one.cpu_s * 1e3 for one in found["nothing"]])
    for name in files:
        mine = figure([one.cpu_s * 1e3 for one in found[name]])
        budget = f", budget {_BUDGETS_MS[name]}" if name in _BUDGETS_MS else ""
        yield row("hooks", f"{name}, {count:,} records, CPU{budget}", "ms", mine, "python -c pass", theirs)


def _wait_for_what_was_left_behind(root: str) -> None:
    """The processes that hooks leave to take in their events write in the folder that is removed next."""
    deadline = time.monotonic() + 120
    while _is_named_by_a_process(root) and time.monotonic() < deadline:
        time.sleep(0.1)


def _is_named_by_a_process(root: str) -> bool:
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if root.encode() in file.read().split(b"\0"):
                    return True
        except OSError:
            continue  # no process, or gone by now
    return False


def _command(periplus: list[str], root: str, name: str) -> list[str]:
    return [*periplus, "hook", name, "--agent", "claude-code", "--store", root]


def _events(texts: Texts, bodies: list[str]) -> dict[str, dict[str, Any]]:
    call = {
        "tool_name": "Bash",
        "tool_use_id": "toolu_01",
        "tool_input": {"command": "make test", "description": "Run tests"},
    }
    answer = {"stdout": "\n".join(texts.sentence(5, 20) for _ in range(100)), "stderr": "", "interrupted": False}
    path = next((word for body in bodies for word in body.split() if word.startswith("src/")), "src/a.py")
    edit = {
        "tool_name": "Edit",
        "tool_use_id": "toolu_02",
        "tool_input": {"file_path": path, "old_string": "a", "new_string": "b"},
    }
    return {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"prompt": texts.question(bodies[len(bodies) // 2])},
        "PreToolUse": edit,
        "PostToolUse": {**call, "tool_response": answer},
        "Stop": {"stop_hook_active": False},
        "SessionEnd": {"reason": "other"},
    }


def _input(folder: str, cwd: str, name: str, fields: dict[str, Any]) -> str:
    path = os.path.join(folder, f"{name}.json")
    document = {"session_id": _SESSION, "transcript_path": "", "cwd": cwd, "hook_event_name": name, **fields}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path
