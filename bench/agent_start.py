"""What the agent costs before it is asked anything: from its start to the first prompt at a terminal, and ``--help``."""

from __future__ import annotations

__all__ = ["measure_start"]

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

from bench.measure import Bench, Figure, Row, figure, in_turn, row
from bench.processes import checked_run, periplus_command, spend

_PART: Final = "agent"
_PEER_S: Final = 2.2  # sliceagent 0.3.2, from its start to its prompt: a published figure, not driven here
_HELP_MS: Final = 80.0
_PROMPT: Final = "›".encode()
_WHERE: Final = (b"\x1b[6n", b"\x1b[1;1R")  # a terminal is asked where its cursor is, and says so
_SETTINGS: Final = (
    'model = "none/m"\n[providers.none]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\nneeds_key = false\n'
)


def measure_start(bench: Bench) -> Iterator[Row]:
    """``periplus`` alone until its first prompt stands there; nothing is sent to anybody."""
    folder, home = (os.path.join(bench.folder, "first-prompt", name) for name in ("work", "home"))
    os.makedirs(folder)
    os.makedirs(os.path.join(home, ".config", "periplus"))
    path = os.path.join(home, ".config", "periplus", "agent.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_SETTINGS)
    os.chmod(path, 0o600)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    subprocess.run([*periplus_command(), "init", "--no-connect"], cwd=folder, env=environment, check=True, capture_output=True)  # fmt: skip
    rounds = bench.size(11, 2)
    bench.say(f"{rounds} first prompts")
    seconds = sorted(_first_prompt(folder, environment) for _ in range(rounds))
    mine = Figure(seconds[len(seconds) // 2], seconds[0], seconds[-1])
    yield row(
        _PART, "start to the first prompt, CPU", "s", mine, "the peer, as published", Figure(_PEER_S, _PEER_S, _PEER_S)
    )
    argv = [*periplus_command(), "--help"]
    checked_run(argv)
    found = in_turn(rounds, {"help": partial(spend, argv)}, collect=False)["help"]
    yield row(_PART, "--help, CPU", "ms", figure([one.cpu_s * 1e3 for one in found]), "what is allowed",
              Figure(_HELP_MS, _HELP_MS, _HELP_MS))  # fmt: skip


def _first_prompt(folder: str, environment: dict[str, str]) -> float:
    """Seconds of processor time that a process took until its prompt was shown."""
    argv = periplus_command()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(argv[0], argv, environment)
    seen = b""
    try:
        while _PROMPT not in seen:
            ready, _, _ = select.select([terminal], [], [], 60)
            if not ready:
                raise RuntimeError(f"no prompt: {seen[-400:]!r}")
            piece = os.read(terminal, 1 << 16)
            seen += piece
            if _WHERE[0] in piece:
                os.write(terminal, _WHERE[1])
        spent = _cpu_s(pid)
        os.write(terminal, b"\x04")
        while _read(terminal):
            pass
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return spent


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side is gone
        return b""


def _cpu_s(pid: int) -> float:
    """Of a process that runs, and of those of its children that have ended."""
    if sys.platform != "linux":
        return 0.0
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
