"""Draw the terminal pictures of the README: ``python -m bench.terminal_picture``.

Runs the commands in new projects at a pseudo-terminal, with the colours that a person sees, and writes ``docs/images/first-minutes.svg``
and ``docs/images/dispatch.svg``. In the second picture scripts play the agents. Needs the extra ``tui`` (rich).
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 92
COMMANDS = [
    "periplus init",
    'periplus remember "Passwords are hashed with argon2id" --type decision --about src/auth.py --rationale "bcrypt cuts at 72 bytes"',
    "periplus trail import --git",
    'periplus recall "how do we hash a password?"',
    'echo "# changed" >> src/auth.py',
    "periplus recall argon2id --type decision",
    "periplus doctor",
]

AGENTS = ("anna", "bert", "cleo")
STEPS = (
    "Hash session ids", "Rotate the key every day", "1< Move sessions out of the cookie", "Choose where sessions live",
    "2< Write the migration", "Log out everywhere", "3,5< Say it in the guide",
)  # fmt: skip


def shown(command: str, folder: Path) -> str:
    """Run ``command`` in ``folder`` at a terminal and return what it printed."""
    if not command.startswith("periplus "):
        subprocess.run(command, shell=True, cwd=folder, check=True)
        return ""
    main, side = pty.openpty()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LANG": "C.UTF-8",
    }
    words = [sys.executable, "-m", "periplus", *shlex.split(command)[1:]]
    words += ["--once"] if words[-2:] == ["dispatch", "watch"] else []  # the table as it stands
    with subprocess.Popen(words, cwd=folder, env=environment, stdin=side, stdout=side, stderr=side) as process:
        os.close(side)
        output = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # Linux reports a closed terminal as EIO
                break
            if not piece:
                break
            output += piece
    os.close(main)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}: {output.decode()}")
    return output.decode().replace("\r\n", "\n").replace(str(folder), "/home/ada/shop")


def drawn(name: str, folder: Path, commands: list[str]) -> None:
    """Run commands in ``folder`` and write what they show as ``docs/images/NAME.svg``."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        text = shown(command, folder)
        if text:
            console.print(Text.from_ansi(text.rstrip("\n")))
    svg = console.export_svg(title="shop")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no font is loaded from elsewhere
    svg = svg.replace("Fira Code, monospace", "'Fira Code', 'DejaVu Sans Mono', Menlo, monospace")
    (ROOT / "docs" / "images" / f"{name}.svg").write_text(svg)


def committed(folder: Path) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Hash passwords with argon2id"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)


def first_minutes() -> None:
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "shop"
        (folder / "src").mkdir(parents=True)
        (folder / "src" / "auth.py").write_text("def hash_password(password):\n    ...\n")
        committed(folder)
        drawn("first-minutes", folder, COMMANDS)


def dispatch() -> None:
    """Several agents in the middle of a plan."""
    with tempfile.TemporaryDirectory() as top:
        folder, home = Path(top) / "shop", Path(top)
        folder.mkdir()
        (folder / ".gitignore").write_text(".periplus/\n")
        committed(folder)
        settings = home / ".config" / "periplus" / "agent.toml"
        settings.parent.mkdir(parents=True)
        words = json.dumps([sys.executable, "-P", str(ROOT / "bench" / "terminal_worker.py")])
        settings.write_text("".join(f"[agents.{name}]\ncommand = {words}\n" for name in AGENTS))
        settings.chmod(0o600)
        shown("periplus init", folder)
        made = shown(f"periplus plan make Sessions {' '.join(f'--step {shlex.quote(step)}' for step in STEPS)}", folder)
        plan = re.search(r"pln_\w+", made)
        assert plan is not None
        agents = " ".join(f"--agent {name}" for name in AGENTS)
        started = shown(f"periplus dispatch start {plan[0]} {agents} --lanes 3 --oracle true --detach", folder)
        found = re.search(r"dsp_\w+", started)
        assert found is not None
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                table = shown("periplus dispatch watch --once", folder)
                if table.count("integrated") >= 3 and table.count("running") >= 2 and "waiting" in table:
                    break
                time.sleep(1)
            time.sleep(20)  # so that the steps at work have taken some time
            drawn("dispatch", folder, ["periplus dispatch watch"])
        finally:
            shown(f"periplus dispatch stop {found[0]}", folder)
            time.sleep(15)  # its workers end


def main() -> None:
    first_minutes()
    dispatch()


if __name__ == "__main__":
    main()
