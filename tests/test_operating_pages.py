"""The pages on running a store, on git and on the older form are run: each command, in its order, with what it shows.

``python tests/test_operating_pages.py FOLDER`` writes into the pages what their commands print, with an empty folder.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from page_support import ROOT, House, Typed, blocks_of, plain, typed_in
from periplus.journal.storage.settings import Settings, StoreSettings

PAGES: Final = ("operating", "repair", "backup", "secrets", "git", "git-checkouts", "joining-stores", "migration")
HELD_ELSEWHERE: Final = {
    "sync": "test_cli_sync.py",
    "sync-problems": "test_cli_sync.py",
    "history": "test_cli_history.py",
    "guarantees": "",
}
# Blocks that are not run: the page and the first line, with the reason.
NOT_RUN: Final = {
    ("history", "from threading import Event"): "Python, and it never ends; test_cursors.py runs its calls"
}
# Commands that do not end with 0, for what they tell: the exit code of each time that one is typed.
CODES: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    ("repair", "periplus doctor"): (3, 3),
    ("repair", "periplus export ../left.zip --damaged"): (3,),
    ("repair", "periplus import ../left.zip ../left"): (5,),
    ("repair", "periplus import --damaged ../left.zip ../left"): (3,),
    ("backup", "cd ../desk && periplus import ../shop.zip ."): (5,),
    ("secrets", 'printf %s "$SECRET" | periplus redact --secret-file - --reason "pasted by mistake"'): (0, 1),
    ("joining-stores", "git pull -q"): (1, 0, 1),
    ("git", 'git commit -q -a -m "Fridays before noon are fine" && git pull -q'): (1,),
    ("joining-stores", "periplus status"): (2, 0),
    ("migration", "periplus migrate --from ../old --to dual --dry-run"): (1,),
    ("migration", "periplus migrate --from ../old --to dual"): (1,),
}
BY_LINEAGE: Final = ("periplus sync",)  # tells lineages in the order of their ids, which differs from run to run


def shop(house: House, *memories: tuple[str, str, str]) -> None:
    """Ada's project with a store, in git with a remote. ``memories``: id on the page, type, text."""
    house.prepare(
        "git init -q --bare ../example.org/shop.git",
        "mkdir shop && cd shop && git init -q && mkdir src && echo 'def login(name): ...' > src/auth.py && git add . && git commit -q -m First",
        "git remote add origin https://example.org/shop.git && git push -q -u origin main",
        "periplus init",
    )
    for name, kind, text in memories:
        code, out = house.sh(f'periplus remember "{text}" --type {kind}')
        assert code == 0, out
        house.ids[name] = re.findall(r"\b[a-z]{3}_[0-9a-z]{16}\b", out)[0]


def segment(house: House) -> Path:
    (path,) = (house.folder / "ada/shop/.periplus/journal").glob("lin_*/000000000001.jsonl")
    return path


def change(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new, 1))


def operating(house: House) -> None:
    secret = "correct horse battery staple"
    house.environment["SECRET"] = secret
    shop(
        house,
        ("dec_aaaaaaaaaaaaaaaa", "decision", "Passwords are hashed with argon2id"),
        ("les_aaaaaaaaaaaaaaaa", "lesson", "Run the migrations before the tests"),
        ("not_aaaaaaaaaaaaaaaa", "note", f"The staging password is {secret}"),
    )
    house.prepare("git add .periplus && git commit -q -m 'A store' && git push -q", "mkdir ../backup ../laptop",
                  "cp -R . ../backup/shop && cp -R . ../laptop/shop")  # fmt: skip


def two_stores(house: House) -> None:
    """Ada and Bob each make a store for the till, and Ada's reaches the remote first."""
    house.prepare(
        "git init -q --bare ../example.org/till.git",
        "mkdir till && cd till && git init -q && echo 'open = []' > till.py && git add . && git commit -q -m First",
        "git remote add origin https://example.org/till.git && git push -q -u origin main",
    )
    house.prepare("git clone -q https://example.org/till.git && cd till", who="bob")
    for who, text in (("ada", "The till counts in cents"), ("bob", "The till is closed at six")):
        house.prepare("periplus init", f"periplus remember '{text}' --type decision",
                      "git add .periplus && git commit -q -m 'A store'", who=who)  # fmt: skip
    house.prepare("periplus sync --with origin && git push -q")


def one_constraint(house: House) -> None:
    code, out = house.sh("periplus remember 'No releases on Fridays' --type constraint")
    assert code == 0, out
    house.ids["con_aaaaaaaaaaaaaaaa"] = re.findall(r"con_[0-9a-z]{16}", out)[0]
    house.prepare("git add .periplus && git commit -q -m 'A constraint' && git push -q")
    house.prepare("git pull -q && periplus status", who="bob")


def git(house: House) -> None:
    shop(house, ("dec_aaaaaaaaaaaaaaaa", "decision", "Passwords are hashed with argon2id"))


def edited(house: House) -> None:
    """A constraint whose file was edited, and the edit imported."""
    shop(
        house,
        ("dec_aaaaaaaaaaaaaaaa", "decision", "Passwords are hashed with argon2id"),
        ("con_aaaaaaaaaaaaaaaa", "constraint", "No releases on Fridays"),
    )
    house.prepare(
        "git add .periplus && git commit -q -m 'A constraint'",
        "perl -pi -e 's/on Fridays/on Fridays and Mondays/' .periplus/entities/constraint/*.json && periplus status",
    )


def older_folder(house: House) -> None:
    house.prepare("mkdir shop && cd shop && git init -q && periplus init")
    for name, text in {
        "decisions/D-1.json": '{"id": "D-1", "title": "Use argon2id", "status": "accepted", "tags": ["auth"]}',
        "lessons/L-1.json": '{"id": "L-1", "text": "Run the migrations first", "severity": 3}',
        "lessons/L-2.json": '{"id": "L-2", "text": ',
        "risks/R-1.json": '{"id": "R-1", "text": "The vendor may close", "state": "open"}',
        "events.jsonl": "".join(f'{{"event": "created", "id": "{one}"}}\n' for one in ("D-1", "L-1", "R-1")),
    }.items():
        path = house.folder / "ada/old" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n" if name != "events.jsonl" else text)


def migrated(house: House) -> None:
    code, out = house.sh("periplus recall migrations --json")
    assert code == 0, out
    house.ids["les_aaaaaaaaaaaaaaaa"] = re.findall(r"les_[0-9a-z]{16}", out)[0]


EDIT: Final = "perl -pi -e 's/Mondays/holidays/' .periplus/entities/constraint/con_aaaaaaaaaaaaaaaa.json"
# What a page takes for granted, before the command that is typed there for the time given.
BEFORE: Final[dict[tuple[str, str, int], Callable[[House], object]]] = {
    ("operating", "periplus doctor", 0): operating,
    ("repair", "periplus doctor", 0): lambda house: [
        operating(house),
        change(segment(house), b"argon2id", b"argon2ie"),
    ],
    ("repair", "periplus doctor", 1): lambda house: change(segment(house), b"migrations before", bytes(17)),
    ("repair", "periplus export ../left.zip --damaged", 0): lambda house: change(
        segment(house), b"migrations before", bytes(17)
    ),
    ("backup", "periplus export ../shop.zip", 0): operating,
    ("secrets", 'periplus recall "staging password" --type note', 0): operating,
    ("git", 'git add .periplus && git commit -q -m "What we know" && git push -q', 0): git,
    ("git-checkouts", EDIT, 0): edited,
    ("joining-stores", "git pull -q", 0): two_stores,
    (
        "git",
        "perl -pi -e 's/on Fridays/on Fridays and Mondays/' .periplus/entities/constraint/con_aaaaaaaaaaaaaaaa.json",
        0,
    ): one_constraint,
    ("migration", "periplus migrate --from ../old --to dual --dry-run", 0): older_folder,
    ("migration", "cat ../old/lessons/L-1.json", 0): migrated,
}


def file_of(page: str) -> Path:
    return ROOT / "docs" / ("" if page == "guarantees" else "guides") / f"{page}.md"


def text_of(page: str) -> str:
    return file_of(page).read_text()


class Run:
    """The commands of one page, one after the other."""

    def __init__(self, page: str, folder: Path) -> None:
        self.page = page
        self.house = House(folder)
        self.times: dict[str, int] = {}

    def __call__(self, typed: Typed) -> str:
        at = self.times.get(typed.command, 0)
        self.times[typed.command] = at + 1
        prepare = BEFORE.get((self.page, typed.command, at))
        if prepare is not None:
            prepare(self.house)
        code, out = self.house.run(typed)
        codes = CODES.get((self.page, typed.command), (0,) * (at + 1))
        assert code == codes[at], (typed.command, code, out)
        return out


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_real(page, tmp_path):
    run = Run(page, tmp_path)
    for language, block in blocks_of(text_of(page)):
        for typed in typed_in(block) if language == "console" else []:
            out, shown = run(typed), typed.shown
            if typed.command.startswith(BY_LINEAGE):
                out, shown = ("".join(sorted(plain(one).splitlines(keepends=True))) for one in (out, shown))
            else:
                run.house.learn(shown, out)
            assert plain(out) == plain(shown), typed.command
    named = {command for where, command, _ in BEFORE if where == page} | {
        command for where, command in CODES if where == page
    }
    assert named <= run.times.keys()


@pytest.mark.parametrize("page", [*PAGES, *HELD_ELSEWHERE])
def test_every_block_is_run_or_is_said_not_to_be(page):
    file = HELD_ELSEWHERE.get(page)
    for language, block in blocks_of(text_of(page)):
        if language == "console":
            assert typed_in(block)
            assert file is None or f'"{page}.md"' in (ROOT / "tests" / file).read_text()
        else:
            assert NOT_RUN[page, block.splitlines()[0]]


def test_what_is_not_run_is_there():
    there = {
        (page, block.splitlines()[0]) for page in (*PAGES, *HELD_ELSEWHERE) for _, block in blocks_of(text_of(page))
    }
    assert set(NOT_RUN) <= there


def write_pages(folder: Path) -> None:
    """Put what commands print into the pages."""
    for page in sys.argv[2:] or PAGES:
        (folder / page).mkdir()
        run = Run(page, folder / page)
        text = text_of(page)
        for language, block in blocks_of(text):
            if language != "console":
                continue
            parts = []
            for typed in typed_in(block):
                out = run.house.as_on_page(run(typed))
                parts.append(f"{typed.who}$ {typed.command}\n{out}")
            text = text.replace(f"```console\n{block}```", "```console\n" + "".join(parts) + "```")
        file_of(page).write_text(text)


def test_the_defaults_are_those_of_the_page():
    text = (ROOT / "docs" / "reference" / "settings.md").read_text()
    tables = re.split(r"\n\| `\[(\w+)\]` \| default \| meaning \|\n\|---\|---\|---\|\n", text)
    said = {
        table: {
            name: json.loads(default.replace(",", ""))
            for name, default in re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", rows, re.MULTILINE)
        }
        for table, rows in zip(tables[1::2], tables[2::2], strict=True)
    }
    settings = msgspec.to_builtins(Settings(StoreSettings("str_", 1)))
    assert said == {table: values for table, values in settings.items() if table != "store"}


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
