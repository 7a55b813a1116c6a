"""Draw the terminal picture of the README: ``python -m bench.terminal_picture``.

Runs the commands in a new project at a pseudo-terminal, with the colours that a person sees, and writes ``docs/images/first-minutes.svg``.
Needs the extra ``tui`` (rich).
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
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


def main() -> None:
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "shop"
        (folder / "src").mkdir(parents=True)
        (folder / "src" / "auth.py").write_text("def hash_password(password):\n    ...\n")
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for words in (["init", "-q"], ["add", "src"], ["commit", "-q", "-m", "Hash passwords with argon2id"]):
            subprocess.run(["git", *who, *words], cwd=folder, check=True)
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            text = shown(command, folder)
            if text:
                console.print(Text.from_ansi(text.rstrip("\n")))
    svg = console.export_svg(title="shop")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no font is loaded from elsewhere
    svg = svg.replace("Fira Code, monospace", "'Fira Code', 'DejaVu Sans Mono', Menlo, monospace")
    (ROOT / "docs" / "images" / "first-minutes.svg").write_text(svg)


if __name__ == "__main__":
    main()
