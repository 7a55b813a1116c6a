"""Every kind of file of a store, changed at any byte, cut, emptied, removed or replaced: harmless, or told and mended.

After each change the store is opened, read and examined. Either every answer is as before, or what is wrong is reported
with the file's name (and the place, where it is a matter of bytes) and whatever else is served is right. Then ``repair``
with an untouched copy at hand brings every answer back, the next mutation works, and nothing that was there is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from every_file_support import WRITER, Arena, Refused, answers, build, put_back
from periplus.base.errors import NewerFormatError, PeriplusError
from periplus.journal.care.doctor import Problem
from periplus.memory import Memory
from periplus.project import Project
from support import remove_index

SECONDS_MAX = 30  # a machine may be busy: what hangs, hangs for ever
QUICK_CASES = 40
BROAD_CASES = 150
LIN = r"lin_[0-9a-z]{16}"
BYTES = frozenset({"flip", "put", "cut", "insert", "truncate", "empty"})


class Kind(NamedTuple):
    """``is_derived``: what it holds may be thrown away. ``told``: warnings that stay after a repair, and ``lost``: answers
    that a repair need not bring back; ``why`` says why that is right.
    """

    name: str
    path: str
    is_derived: bool = False
    has_places: bool = False  # one byte of it can be told from the others: by a checksum of each line
    told: str = ""
    lost: tuple[str, ...] = ()
    why: str = ""


KINDS = (
    Kind("settings", r"config\.toml", told=r"is an unknown table",
         why="what a person wrote there is left to him: a word that means nothing to us is told until he changes it"),
    Kind("ignore", r"((journal|objects|hooks)/)?\.gitignore"),
    Kind("identity", r"journal/lineage\.json", lost=("proof",),
         told=r"this copy ends with record \d+ of lin_\w{16}, its original had \d+",
         why="a file that was put back lies in another place: the next write begins a new lineage; and what the original had is"
             " said here only: another name or number that it could be is believed, and told until the records are there"),
    Kind("segment", rf"journal/{LIN}/\d{{12}}\.jsonl", has_places=True),
    Kind("checkpoint", r"journal/checkpoints/\d{12}\.jsonl", is_derived=True, has_places=True),
    Kind("archived segment", rf"journal/{LIN}/archive/\d{{12}}\.jsonl", has_places=True),
    Kind("poison", rf"journal/{LIN}/\d{{12}}\.jsonl\.poisoned"),
    Kind("signed head", rf"journal/{LIN}/head\.json"),
    Kind("private key", rf"journal/keys/{LIN}\.private"),
    Kind("retired key", rf"journal/keys/{LIN}\.private\.retired"),
    Kind("public key", rf"journal/keys/{LIN}\.public"),
    Kind("trail key", r"journal/keys/trail"),
    Kind("peer", rf"journal/peers/{LIN}\.json"),
    Kind("tile", rf"journal/tree/{LIN}/(level-\d+|head)", is_derived=True),
    Kind("mark", r"journal/durable", is_derived=True, has_places=True),
    Kind("flush map", r"journal/flush", is_derived=True),
    Kind("lock", r"(journal/(lock|(projection|sync|checkpoint)\.lock)|migration/lock|objects/(door|room)\.lock)", is_derived=True),
    Kind("index", r"index\.sqlite(-wal|-shm|-journal)?", is_derived=True),
    Kind("plain object", r"objects/[0-9a-f]{2}/[0-9a-f]{62}"),
    Kind("packed object", r"objects/[0-9a-f]{2}/[0-9a-f]{62}\.z"),
    Kind("packed trail", r"objects/[0-9a-f]{2}/[0-9a-f]{62}\.t"),
    Kind("cursor", r"cursors/[a-z0-9._-]+\.json"),
    Kind("entity file", r"entities/[a-z]+/[a-z]{3}_[0-9a-z]{16}\.json"),
    Kind("migration mode", r"migration/mode\.json"),
    Kind("migration seen", r"migration/seen\.json", is_derived=True),
    Kind("v1 backup", r"archive/v1-[0-9a-f]{16}/.+"),
    Kind("v1 log", r"archive/v1-(log|aside)/.+"),
    Kind("parked", r"parked/.+"),
    Kind("mark of redactions", r"cache/redacted", is_derived=True),
)  # fmt: skip


class Case(NamedTuple):
    """A change ``how`` to the file at ``path`` (within the store), at byte ``at``; with ``fresh`` the index is gone too."""

    kind: Kind
    path: str
    how: str
    at: int = 0
    value: int = 0
    fresh: bool = False

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.path} {self.how} at {self.at} ({self.value}){' fresh' if self.fresh else ''}"


def kind_of(path: str) -> Kind:
    found = [kind for kind in KINDS if re.fullmatch(kind.path, path)]
    assert len(found) == 1, f"{path} is of {len(found)} kinds"
    return found[0]


def files_of(store: Path) -> Iterator[str]:
    for folder, _, names in os.walk(store):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), store)


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    return build(tmp_path_factory.mktemp("every"))


class Before(NamedTuple):
    answers: dict[tuple[object, ...], object]
    problems: set[tuple[str, str]]
    versions: set[str]


@pytest.fixture(scope="module")
def before(arena):
    return look_before(arena)


def look_before(arena: Arena) -> Before:
    put_back(arena)
    with Project(arena.root, WRITER) as project:
        found = answers(project)
        told = {(one.path, one.what) for one in project.examine().problems}
        versions = {str(row[4]) for key, row in found.items() if key[0] == "log"}
    assert not any(isinstance(value, Refused) for value in found.values())
    return Before(found, told, versions)


@pytest.mark.slow
def test_every_kind_has_a_row_and_every_row_a_file(arena):
    put_back(arena)
    kinds = {kind_of(path).name for path in files_of(arena.store)}
    assert kinds == {kind.name for kind in KINDS}


# -- changes -----------------------------------------------------------------------------------------------------------


def apply(arena: Arena, case: Case) -> None:
    path = arena.store / case.path
    if case.fresh and case.kind.name not in ("index", "entity file"):
        remove_index(arena.store)
    data = bytearray(path.read_bytes())
    if case.how in BYTES:
        change(data, case)
        path.write_bytes(data)
        return
    path.unlink()
    if case.how == "folder":
        path.mkdir()
        (path / "inside").write_bytes(b"somebody's")
    elif case.how == "link":
        outside = arena.folder / "outside"
        outside.write_bytes(data)
        path.symlink_to(outside)
    elif case.how == "pipe":
        os.mkfifo(path)


def change(data: bytearray, case: Case) -> None:
    at = min(case.at, len(data) - 1)  # of the identity, which says where it lies, the length may vary
    match case.how:
        case "flip":
            data[at] ^= 1 << (case.value & 7)
        case "put":
            data[at] = case.value if data[at] != case.value else case.value ^ 0x55
        case "cut":
            del data[at]
        case "insert":
            data.insert(at, case.value)
        case "truncate":
            del data[at:]
        case "empty":
            data.clear()


def cases(arena: Arena, chance: random.Random, per_file: int) -> Iterator[Case]:
    """Changes to every file; ``per_file`` changes of bytes in each, 0 for every byte."""
    for path in files_of(arena.whole / "ada" / ".periplus"):
        kind = kind_of(path)
        size = (arena.whole / "ada" / ".periplus" / path).stat().st_size
        for how in ("remove", "folder", "link", "pipe", *(["empty"] if size else [])):
            yield Case(kind, path, how, fresh=chance.random() < 0.3)
        places = (
            range(size)
            if not per_file
            else sorted({0, size - 1, *chance.choices(range(size), k=per_file)} if size else ())
        )
        for at in places:
            hows = ("flip", "put", "cut", "insert", "truncate") if not per_file else chance.sample(
                ("flip", "flip", "put", "put", "cut", "insert", "truncate"), 1)  # fmt: skip
            for how in hows:
                value = chance.choice((chance.randrange(256), *b' "{}0a\n\0'))
                yield Case(kind, path, how, at, value, fresh=chance.random() < 0.3)


# -- what must hold ----------------------------------------------------------------------------------------------------


class Hung(BaseException):
    """It took too long: no exception that anything could swallow."""


def stop_hanging(*_: object) -> None:
    raise Hung


class Seen(NamedTuple):
    """What came of opening, reading and examining."""

    answers: dict[tuple[object, ...], object]
    problems: list[Problem]
    errors: list[PeriplusError]


def see(root: str) -> Seen:
    try:
        with Project(root, WRITER) as project:
            found = answers(project)
            errors = [one.error for one in found.values() if isinstance(one, Refused)]
            if project.journal.damage is not None:
                errors.append(project.journal.damage)
            return Seen(found, project.examine().problems, errors)
    except PeriplusError as error:
        return Seen({}, [], [error])


def run(arena: Arena, before: Before, case: Case) -> list[str]:
    """What is wrong with how the store took it; nothing, it is to be hoped."""
    put_back(arena)
    apply(arena, case)
    held = contents(arena)
    wrong: list[str] = []
    signal.signal(signal.SIGALRM, stop_hanging)
    signal.alarm(SECONDS_MAX)
    step = "look"
    try:
        seen = see(arena.root)
        wrong += judge(arena, before, case, seen)
        step = "repair"
        Project.rescue(os.fspath(arena.folder), store=arena.root, sources=[os.fspath(arena.copy)])
        with Project(arena.root, WRITER) as project:
            project.repair(sources=[os.fspath(arena.copy)])
        wrong += [f"after repair: {one}" for one in judge_repaired(arena, before, case)]
        wrong += [
            f"gone: {one}"
            for one in gone(arena, held)
            if (case.kind.name != "entity file" or is_nobodys(arena, case, one))
            and not has_types_again(arena, case, one)
        ]
        step = "write"
        with Project(arena.root, WRITER) as project:
            project.remember(Memory("note", f"Life goes on {case}"[:200]))
        with Project(arena.root, WRITER) as project:
            worst = [one for one in project.examine().problems if one.severity == "error"]
            wrong += [f"after the next write: {one}" for one in worst]
    except NewerFormatError as error:
        wrong += judge_newer(arena, before, case, error, held)
    except PeriplusError as error:
        wrong.append(f"{step}: {type(error).__name__} {error}")
    except Hung:
        wrong.append(f"{step}: hangs")
    except Exception as error:  # noqa: BLE001 - whatever comes out that is no PeriplusError is what is looked for
        wrong.append(f"{step}: {type(error).__name__} {error} in {where(error)}")
    finally:
        signal.alarm(0)
    return [f"{case}: {one}" for one in wrong]


def where(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at is not None else "?"


def judge(arena: Arena, before: Before, case: Case, seen: Seen) -> list[str]:
    if case.kind.name == "entity file":
        return judge_edited(before, seen)
    path = os.fspath(arena.store / case.path)
    places = {path, path.removesuffix(".z").removesuffix(".t")} | (
        {os.path.dirname(path.replace("/archive/", "/"))} if case.how == "remove" else set()
    )
    if case.kind.name == "index":
        places.add(os.fspath(arena.store / "index.sqlite"))
    named = [one for one in seen.problems if _is_at(one.path, places) and (one.path, one.what) not in before.problems]
    is_named = bool(named) or any(place in str(error) for error in seen.errors for place in places)
    different = [key for key, value in before.answers.items() if seen.answers.get(key) != value]
    more = [key for key in seen.answers.keys() - before.answers.keys() if not isinstance(seen.answers[key], Refused)]
    wrong = []
    if (different or more) and not is_named:
        told = [one for one in seen.problems if (one.path, one.what) not in before.problems]
        wrong.append(f"{[*different, *more][:3]} differ and the file is not named: {told[:2]} {seen.errors[:2]}")
    wrong += [f"a wrong answer: {key} {str(seen.answers.get(key))[:200]}" for key in [*different, *more]
              if not is_right(before, key, seen.answers.get(key))]  # fmt: skip
    if case.kind.has_places and case.how in BYTES and named and not any(one.offset >= 0 for one in named):
        wrong.append(f"the place is not named: {named[0]}")
    wrong += [f"no file is named: {one}" for one in seen.problems if not one.path]
    wrong += [f"a byte is named and is not the place: {one}" for one in seen.problems
              if re.search(r"\bbyte \d+\b(?! of page)", one.what) and one.offset < 0 and "/objects/" not in one.path]  # fmt: skip
    if not is_named and not case.kind.is_derived and case.kind.name != "entity file":
        for derived in [*arena.store.glob("index.sqlite*"), arena.store / "journal" / "tree"]:
            shutil.rmtree(derived) if derived.is_dir() else derived.unlink()
        again = see(arena.root)
        changed = [key for key, value in before.answers.items() if again.answers.get(key) != value]
        if changed:
            wrong.append(f"nothing was told, and after a rebuild {changed[:3]} differ")
    return wrong


def judge_newer(arena: Arena, before: Before, case: Case, error: PeriplusError, held: dict[str, str]) -> list[str]:
    """Settings that say of the store that a later version wrote it cannot be told from such a store's: it is refused, by a repair too,
    nothing is changed, and all is there again once the number is what it was.
    """
    path = arena.store / case.path
    said = re.search(rb"^format *= *(\d+)", path.read_bytes(), re.MULTILINE)
    if case.kind.name != "settings" or said is None or int(said[1]) <= 2 or os.fspath(path) not in str(error):
        return [f"no later version wrote that: {error}"]
    wrong = [f"a later version's store, and {name} was changed" for name in held.keys() ^ contents(arena).keys()]
    path.write_bytes((arena.whole / path.relative_to(arena.folder)).read_bytes())
    again = see(arena.root)
    return wrong + [f"the number is right again, and {key} is not" for key, value in before.answers.items()
                    if again.answers.get(key) != value]  # fmt: skip


def _is_at(path: str, places: set[str]) -> bool:
    """Of what is missing the neighbours tell: the file that ends too early, the folder that begins too late."""
    return any(path == place or path.startswith(place + os.sep) for place in places)


def judge_edited(before: Before, seen: Seen) -> list[str]:
    """What somebody wrote into an entity's file is his edit: recorded as such, on top of what there was, or left alone."""
    wrong = [f"{error}" for error in seen.errors]
    wrong += [f"{key} is lost" for key, value in before.answers.items()
              if key[0] in ("log", "object", "trail") and seen.answers.get(key) != value]  # fmt: skip
    added = [value for key, value in seen.answers.items() if key[0] == "log" and key not in before.answers]
    edited = {str(row[3]) for row in added if row[2] in ("external_edit", "import")}
    changed = {
        str(key[2]) for key, value in before.answers.items() if key[0] == "entity" and seen.answers.get(key) != value
    }
    if changed - edited:
        wrong.append(f"{changed - edited} changed and nothing was recorded")
    return wrong


def is_right(before: Before, key: tuple[object, ...], value: object) -> bool:
    """Whether an answer that differs is none that is wrong: refused, not there, or an earlier truth."""
    if value is None or isinstance(value, Refused) or key[0] in ("recall", "reader", "inbox"):
        return True
    if key[0] == "log":  # of an entity's file, where its record was not to be had
        assert isinstance(value, tuple)
        return value[2] == "import" and value[4] in before.versions
    if key[0] == "entity":
        assert isinstance(value, tuple)
        return set(value[1]) <= before.versions
    return key[0] in ("root", "proof")  # of what is sound; verified where it was made


def judge_repaired(arena: Arena, before: Before, case: Case) -> list[str]:
    seen = see(arena.root)
    if case.kind.name == "entity file":
        return judge_edited(before, seen)
    wrong = [f"{one}" for one in seen.problems
             if one.severity != "note" and (one.path, one.what) not in before.problems
             and not (case.kind.told and re.search(case.kind.told, one.what))]  # fmt: skip
    wrong += [f"{type(error).__name__} {error}" for error in seen.errors if not case.kind.lost]
    for key, value in before.answers.items():
        if seen.answers.get(key) != value and key[0] not in case.kind.lost:
            wrong.append(f"{key} is {str(seen.answers.get(key))[:160]}")
    return wrong


def contents(arena: Arena) -> dict[str, str]:
    """Digests of all that is no derived file, with a path that holds it."""
    found = {}
    for name in files_of(arena.store):
        path = arena.store / name
        if stat.S_ISREG(path.lstat().st_mode) and not any(
            re.fullmatch(kind.path, name) and kind.is_derived for kind in KINDS
        ):
            found[hashlib.sha256(path.read_bytes()).hexdigest()] = name
    return found


def gone(arena: Arena, held: dict[str, str]) -> list[str]:
    lost = []
    for digest in held.keys() - contents(arena).keys():
        path = arena.store / held[digest]
        is_longer = (
            path.suffix == ".jsonl"
            and path.exists()
            and any(
                hashlib.sha256(path.read_bytes()[:size]).hexdigest() == digest for size in range(path.stat().st_size)
            )
        )
        if not is_longer:  # a record was written
            lost.append(held[digest])
    return lost


def is_nobodys(arena: Arena, case: Case, name: str) -> bool:
    """Whether what an entity's file held is in no record: it was neither readable nor what a cut-off write leaves of what we had
    written, which is its beginning, with NUL bytes in the place of some.
    """
    if name != case.path:
        return False
    before = (arena.whole / "ada" / ".periplus" / case.path).read_bytes()
    changed = bytearray(before)
    change(changed, case)
    try:
        json.loads(changed)
    except ValueError:
        left = changed.rstrip(b"\0")
        is_cut_off = all(byte in (0, meant) for byte, meant in zip(left, before, strict=False))
        return len(left) > len(before) or not is_cut_off
    return False


def has_types_again(arena: Arena, case: Case, name: str) -> bool:
    """Whether it is the state of the migration and says what it said: of its fields ``types`` alone is made anew, from what is there."""
    if case.kind.name != "migration mode" or name != case.path or case.how not in BYTES:
        return False
    changed = bytearray((arena.whole / "ada" / ".periplus" / name).read_bytes())
    change(changed, case)
    try:
        held, now = json.loads(changed), json.loads((arena.store / name).read_bytes())
    except ValueError:
        return False
    return {key: held.get(key) for key in now if key != "types"} == {key: now[key] for key in now if key != "types"}


def run_all(arena: Arena, before: Before, chosen: list[Case]) -> list[str]:
    return [one for case in chosen for one in run(arena, before, case)]


@pytest.mark.slow
def test_a_sample_of_changes(arena, before):
    chance = random.Random(20260101)
    by_kind: dict[tuple[str, str], list[Case]] = {}
    for case in cases(arena, chance, 6):
        by_kind.setdefault((case.kind.name, case.how), []).append(case)
    groups = [by_kind[key] for key in sorted(by_kind)]
    chosen = [chance.choice(group) for group in groups[:: len(groups) // QUICK_CASES]]
    assert run_all(arena, before, chosen) == []


@pytest.mark.slow
def test_settings_of_a_later_version(arena, before):
    """The number of the format made another by one bit."""
    (kind,) = (one for one in KINDS if one.name == "settings")
    at = (arena.store / "config.toml").read_bytes().index(b"format = 2") + len("format = ")
    chosen = [Case(kind, "config.toml", "flip", at, bit, fresh=False) for bit in range(8)]
    assert run_all(arena, before, chosen) == []


@pytest.mark.slow
def test_changed_bytes_of_the_index(arena, before):
    """All in it is derived, and SQLite keeps no checksums: what is wrong in it is found where it is read, or by doctor."""
    chance = random.Random(20260102)
    found = [case for case in cases(arena, chance, 400) if case.kind.name == "index" and case.how in ("flip", "put")]
    chosen = chance.sample(found, 400 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 40)
    assert run_all(arena, before, chosen) == []


@pytest.mark.slow
def test_more_changes(arena, before):
    chance = random.Random(7)
    if os.environ.get("PERIPLUS_EXHAUSTIVE"):
        chosen = list(cases(arena, chance, 0))
    else:
        chosen = list(cases(arena, chance, 12))
        chosen = chance.sample(chosen, min(len(chosen), BROAD_CASES))
    assert run_all(arena, before, chosen) == []
