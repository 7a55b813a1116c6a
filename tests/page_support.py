"""A page's console blocks as people type them: each command through the shell, where the one before it ended, with what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ID = re.compile(r"\b[a-z]{3}_(?:[0-9a-z]{16}|ID)\b")
_PROMPT = re.compile(r"^(?:([a-z]+))?\$ (.+)$")
_COMMIT = re.compile(r"\b[0-9a-f]{7}\b(?=\.\.|:| |\])")


class Typed(NamedTuple):
    """A command, by whom ("" where the page has one person), and what the page shows for it."""

    who: str
    command: str
    shown: str


def blocks_of(page: str) -> list[tuple[str, str]]:
    """The language and the text of each fenced block."""
    return [(found[1], found[2]) for found in FENCED.finditer(page)]


def typed_in(block: str) -> list[Typed]:
    """The commands of a console block. A block that does not begin with a prompt is refused."""
    typed: list[Typed] = []
    for line in block.splitlines(keepends=True):
        prompt = _PROMPT.match(line)
        if prompt:
            typed.append(Typed(prompt[1] or "", prompt[2], ""))
        else:
            assert typed, f"a console block begins with what is shown: {line!r}"
            typed[-1] = typed[-1]._replace(shown=typed[-1].shown + line)
    return typed


def plain(text: str) -> str:
    """Without what differs from run to run: ids, digests, times, sizes, and which form of Periplus it was."""
    text = ID.sub(lambda found: f"{found[0][:3]}_ID", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\dT[\d:.]+Z?", "TIME", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d\b", "DATE", text)
    text = re.sub(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{128}\b|\b[0-9a-f]{16}\b", "DIGEST", text)
    text = re.sub(r"(version |^  )[0-9a-f]{12}(?=  |$)", r"\1VERSION", text, flags=re.MULTILINE)
    text = _COMMIT.sub("COMMIT", text)
    text = re.sub(r"\bbyte [\d,]{2,}", "byte PLACE", text)  # a record has the process id, of some digits
    return re.sub(r"\([\d,]+ bytes\)", "(SIZE)", text).replace("(plain Python)", "(native)")


class House:
    """A home for each person of a page, in ``folder`` (/home on the page); the machine's programs, and nobody's settings.

    ``example.org`` is a folder of bare repositories in it. ``places`` says where each person is, ``ids`` which id of the page is
    which here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: dict[str, Path] = {}
        self.ids: dict[str, str] = {}
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "COVERAGE_PROCESS_START")}
        self.settings = (
            "[init]\ndefaultBranch = main\n[pull]\nrebase = false\n"
            f'[url "{folder}/example.org/"]\ninsteadOf = https://example.org/\n'
        )
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        self.environment = {
            **kept,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH": path,
            "LC_ALL": "C",
            "PYTHONUTF8": "1",
            "TZ": "UTC",
            "COLUMNS": "100",
        }

    def sh(self, command: str, who: str = "ada") -> tuple[int, str]:
        """Run ``command`` where this person is; they are where it ends then. Exit code, and both outputs in their order."""
        home = self.folder / who
        home.mkdir(exist_ok=True)
        (home / ".gitconfig").write_text(
            f"{self.settings}[user]\nname = {who.capitalize()}\nemail = {who}@example.org\n"
        )
        after = self.folder / "place"
        environment = {**self.environment, "HOME": os.fspath(home), "LOGNAME": who}
        done = subprocess.run(
            ["/bin/sh", "-c", f'{command}\ncode=$?; pwd > "{after}"; exit $code\n'],
            cwd=self.places.get(who, home), env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        self.places[who] = Path(after.read_text().rstrip("\n"))
        return done.returncode, done.stdout.decode()

    def prepare(self, *commands: str, who: str = "ada") -> None:
        """Run what a page takes for granted."""
        for command in commands:
            code, out = self.sh(command, who)
            assert code == 0, (command, out)

    def run(self, typed: Typed) -> tuple[int, str]:
        """Exit code and output of a page's command, with paths and ids as the page writes them."""
        command = ID.sub(lambda found: self.ids.get(found[0], found[0]), typed.command)
        code, out = self.sh(command.replace("/home/", f"{self.folder}/"), typed.who or "ada")
        return code, out.replace(f"{self.folder}/", "/home/")

    def as_on_page(self, out: str) -> str:
        names = {ours: theirs for theirs, ours in self.ids.items()}
        return ID.sub(lambda found: names.get(found[0], found[0]), out)

    def learn(self, shown: str, out: str) -> None:
        """Note which id of the page stands for which here. Raises AssertionError where one stands for two."""
        for theirs, ours in zip(ID.findall(shown), ID.findall(out), strict=True):
            assert self.ids.setdefault(theirs, ours) == ours, f"{theirs} was {self.ids[theirs]}, and is {ours}"
