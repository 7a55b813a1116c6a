"""Take the pictures of the page for the README: ``python -m bench.page_pictures``.

Makes a small project with memory, sessions, mail and a plan, and has a headless Chromium photograph the overview and a session of it. Needs
the extra ``web`` and Chromium.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDTH, HEIGHT = 1280, 900
HOME = "/home/ada/shop"  # where the sessions say that they were
AUTH = "import bcrypt\n\n\ndef hash_password(password):\n    return bcrypt.hashpw(password, bcrypt.gensalt())\n"
AFTER = (
    "from argon2 import PasswordHasher\n\n\ndef hash_password(password):\n    return PasswordHasher().hash(password)\n"
)
FILES = {"src/auth.py": AUTH, "src/limit.py": "LIMIT = 20\n", "tests/test_auth.py": "def test_hash(): ...\n"}
COMMANDS = (
    ('remember "Passwords are hashed with argon2id, never with bcrypt" --type decision --about src/auth.py', "ada"),
    ('remember "Requests are limited to 20 a second for each key" --type constraint --about src/limit.py', "ada"),
    ('remember "The test database keeps rows between runs" --type trap', "codex"),
    ('remember "Run the migrations before the tests" --type lesson', "claude-code"),
    ('inbox send ada "Shall the reset link expire after an hour?" --needs-answer', "claude-code"),
    (
        'plan make "Password reset" --step "Hash reset tokens" --step "Send the mail" --step "1,2< Say it in the guide"',
        "ada",
    ),
    ("plan next", "codex"),
    ("claim take src/limit.py", "gemini"),
)
SAID = (
    ("Move password hashing from bcrypt to argon2id, and keep old hashes valid.", None, None),
    ("I look at the module and at its tests first.", ("Read", {"file_path": "src/auth.py"}), AUTH),
    ("", ("Edit", {"file_path": "src/auth.py", "old_string": AUTH, "new_string": AFTER}), "The file src/auth.py has been updated."),
    ("Now the tests.", ("Bash", {"command": "pytest -q"}), "F.\nFAILED tests/test_auth.py::test_old_hash - ValueError: not an argon2 hash\n1 failed, 1 passed"),
    ("Old hashes are still bcrypt: I verify those with bcrypt, and hash anew at the next login.", ("Bash", {"command": "pytest -q"}), "..\n2 passed in 0.31s"),
    ("Passwords are hashed with argon2id now; old hashes are accepted once and replaced. Both tests pass.", None, None),
)  # fmt: skip


def session(agent: int, begun: datetime) -> str:
    """Return a session of Claude Code as its own file has it."""
    rows: list[dict] = []

    def add(kind: str, message: dict) -> None:
        at = (begun + timedelta(seconds=20 * len(rows))).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        rows.append({
            "type": kind, "uuid": f"u{agent}-{len(rows)}", "parentUuid": rows[-1]["uuid"] if rows else None, "sessionId": f"5e55-{agent}",
            "cwd": HOME, "version": "2.1.0", "gitBranch": "main", "timestamp": at, "message": message,
        })  # fmt: skip

    for number, (text, call, result) in enumerate(SAID):
        if number == 0:
            add("user", {"role": "user", "content": text})
            continue
        content: list[dict] = [{"type": "text", "text": text}] if text else []
        if call is not None:
            words = {name: f"{HOME}/{value}" if name == "file_path" else value for name, value in call[1].items()}
            content.append({"type": "tool_use", "id": f"t{number}", "name": call[0], "input": words})
        usage = {"input_tokens": 900 + 350 * agent, "cache_read_input_tokens": 11_000, "output_tokens": 240}
        add(
            "assistant",
            {
                "id": f"m{agent}-{number}",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": content,
                "usage": usage,
            },
        )
        if call is not None:
            add(
                "user",
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": f"t{number}",
                            "content": result,
                            "is_error": "FAILED" in (result or ""),
                        }
                    ],
                },
            )
    return "".join(json.dumps(row) + "\n" for row in rows)


def periplus(line: str, folder: Path, name: str = "ada") -> str:
    import shlex

    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "PERIPLUS_AGENT": name}
    words = [sys.executable, "-m", "periplus", *shlex.split(line)]
    return subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def photograph(folder: Path, path: str, name: str) -> None:
    """Write the picture of one page; an address lets one browser in, so each picture has a server of its own."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "PERIPLUS_AGENT": "ada"}
    words = [sys.executable, "-m", "periplus", "web", "--json"]
    with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["url"]
            with tempfile.TemporaryDirectory() as profile:
                chromium = (
                    str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                    f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=4000", f"--screenshot={ROOT / 'docs' / 'images' / name}",
                    f"{address}{path}",
                )  # fmt: skip
                subprocess.run(chromium, check=True, capture_output=True, timeout=60)
        finally:
            server.terminate()


def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "shop"
        for path, text in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Hash passwords"]):
            subprocess.run(["git", *who, *words], cwd=folder, check=True)
        periplus("init", folder)
        for line, name in COMMANDS:
            periplus(line, folder, name)
        imported = ""
        for number in range(9):
            path = Path(top) / f"session-{number}.jsonl"
            path.write_text(session(number, datetime.now(UTC) - timedelta(days=5 * number, hours=2)))
            imported = imported or periplus(f"trail import {path}", folder)
        (folder / "src/auth.py").write_text(AFTER)
        found = re.search(r"trl_\w{16}", imported)
        assert found is not None
        photograph(folder, "", "page-overview.png")
        photograph(folder, f"/sessions/{found[0]}", "page-session.png")


if __name__ == "__main__":
    main()
