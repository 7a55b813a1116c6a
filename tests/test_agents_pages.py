"""docs/guides/agents and docs/guides/recipes.md are run: each command of a page, in its order, with what it shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from test_readme import PROGRAM, ROOT, commands_of

PAGES = [*sorted((ROOT / "docs/guides/agents").glob("*.md")), ROOT / "docs/guides/recipes.md"]
ID = re.compile(r"\b(?:clm|con|dec|les|pln|stp|hof|trp|ses)_[0-9a-z]{4,16}\b")
HOME = "/home/ada"


def plain(text):
    """Without what differs from run to run."""
    text = ID.sub("ID", re.sub(r"\b20\d\d-\d\d-\d\d(T[\d:.]+Z?)?", "TIME", text))
    text = re.sub(r"\b\d+ (min|s|h)\b|\b\d+\.\d s\b", "SPAN", text)
    text = re.sub(r"^A connected agent spends at most about .*$", "COST", text, flags=re.MULTILINE)
    text = re.sub(r"(periplus:begin |periplus:file )[0-9a-f]{12}", r"\1SEAL", text)
    return re.sub(r"^  (works|wrong)  server answers.*\n(         .*\n)?", "SERVER\n", text, flags=re.MULTILINE)


class Shop:
    """A project of Ada's, who has Claude Code and Codex."""

    def __init__(self, folder):
        self.home = folder / "ada"
        self.folder = self.home / "shop"
        for name in ("src", "../.claude", "../.codex"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("auth", "cache", "price"):
            (self.folder / f"src/{name}.py").write_text(f"def {name}(what):\n    return what\n")
        session = {"session_id": "first", "cwd": os.fspath(self.folder), "source": "startup"}
        (self.folder / "session.json").write_text(json.dumps(session))
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PERIPLUS", "XDG_", "CODEX_"))
        }
        programs = folder / "bin"
        programs.mkdir()
        (programs / "periplus").symlink_to(PROGRAM)
        (programs / "git").symlink_to("/usr/bin/git")
        path = f"{programs}:/usr/bin:/bin"
        self.environment = {**kept, "PATH": path, "HOME": os.fspath(self.home), "LOGNAME": "ada", "COLUMNS": "100",
                            "GIT_CONFIG_NOSYSTEM": "1"}  # fmt: skip
        self.programs = os.fspath(programs)
        subprocess.run(["git", "init", "-q"], cwd=self.folder, check=True, capture_output=True)
        self.ids = {}

    def run(self, command, shown=""):
        """What a command of a page prints here, as the page would show it."""
        command, _, source = command.partition(" < ")
        words = shlex.split(ID.sub(lambda found: self.ids.get(found[0], found[0]), command))
        assert words[0] == "periplus"
        given = (self.folder / source).read_bytes() if source else b""
        done = subprocess.run([PROGRAM, *words[1:]], cwd=self.folder, env=self.environment, input=given, capture_output=True,
                              timeout=120)  # fmt: skip
        out = (done.stdout + done.stderr).decode().replace(os.fspath(self.home), HOME)
        out = out.replace(self.programs, "/usr/bin").replace(os.fspath(PROGRAM), "/usr/bin/periplus")
        for theirs, ours in zip(ID.findall(shown), ID.findall(out), strict=False):
            self.ids.setdefault(theirs, ours)
        return out


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_is_real(page, tmp_path):
    shop = Shop(tmp_path)
    commands = commands_of(page.read_text())
    assert len(commands) >= 3
    if page.stem == "recipes":
        shop.run("periplus init")
    for command, lines in commands:
        shown = "".join(f"{line}\n" for line in lines)
        assert plain(shop.run(command, shown)) == plain(shown), command


def test_every_page_is_of_an_agent():
    from periplus.interop.agents import AGENT_NAMES

    assert {page.stem for page in PAGES} - {"README", "all", "recipes"} == {*AGENT_NAMES[:6]}


def test_the_page_of_all_agents_has_their_table():
    from periplus.cli.reference_pages.agent_table import support_lines

    assert "\n".join(["", *support_lines(), ""]) in (ROOT / "docs/guides/agents/all.md").read_text()


def write_pages(folder):
    """Put what commands print into the pages: ``python tests/test_agents_pages.py FOLDER``, with an empty folder."""
    for page in PAGES:
        place = folder / page.stem
        place.mkdir()
        shop = Shop(place)
        if page.stem == "recipes":
            shop.run("periplus init")

        def block(found, shop=shop):
            commands = commands_of(found[0])
            return "```console\n" + "".join(f"$ {command}\n{shop.run(command)}" for command, _ in commands) + "```"

        page.write_text(re.sub(r"```console\n(.*?)```", block, page.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    from pathlib import Path

    write_pages(Path(sys.argv[1]))
