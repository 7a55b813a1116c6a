"""One store that holds every kind of file, what it answers, and how it is put back after each change."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cli_support import claude_session, git
from periplus.base.clock import SystemClock
from periplus.base.errors import OutcomeUnknownError, PeriplusError
from periplus.journal import Journal, Writer
from periplus.journal.history.cursors import Reader
from periplus.journal.proofs.proof_file import prove_record, verify_proof
from periplus.journal.proofs.tiles import LineageTree
from periplus.memory import Memory
from periplus.project import Project
from periplus.project.migration import migrate
from support import FailingFiles, settle

WRITER = Writer("tester", "who_0000000000000000", "ses", 1)
SEGMENT_BYTES = 6_000
SECRET = "the harbour gate opens with 4711-tide"
READER = "looker"


class Arena(NamedTuple):
    """``store`` is what is damaged; ``whole`` the same folders as they were built, ``copy`` an untouched copy."""

    folder: Path
    store: Path
    whole: Path
    copy: Path

    @property
    def root(self) -> str:
        return os.fspath(self.store)


def build(top: Path) -> Arena:
    """Ada's store after some weeks: Bob's and Cleo's lineages, another project's candidates, a migrated folder."""
    folder = top / "arena"
    environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(top)}
    roots = {name: _make(folder / name) for name in ("ada", "eve")}
    ada = roots["ada"]

    def remember(root: str, text: str, kind: str = "decision", **more: object) -> str:
        with Project(root, WRITER) as project:
            return project.remember(Memory(kind, text, **more)).entity.item_id  # type: ignore[arg-type]

    def sync(root: str, where: str, **more: object) -> None:
        with Project(root, WRITER) as project:
            done = project.sync(where, cwd=os.fspath(folder), environment=environment, **more)  # type: ignore[arg-type]
            assert not done.report.refusals

    shared = remember(ada, "Hash passwords with argon2", tags=("security",))
    remember(ada, "The cache lies after a restart", "trap")
    remember(ada, SECRET, "note")
    with Project(ada, WRITER) as project:
        project.redact(secret=SECRET, reason="pasted by mistake")
    stick = os.fspath(folder / "stick")
    sync(ada, stick)
    with Project(ada, WRITER) as project:
        project.journal.leave_lineage()
    for name in ("bob", "cleo"):
        root = folder / name / ".periplus"
        root.mkdir(parents=True)
        shutil.copyfile(Path(ada, "config.toml"), root / "config.toml")
        roots[name] = os.fspath(root)
    for name in ("bob", "cleo"):
        sync(roots[name], stick)
    for name in ("bob", "cleo", "ada"):
        _edit(roots[name], shared, f"{name} would rather hash with something else")
        remember(roots[name], f"A thought of {name} about lighthouses and tides", "lesson")
        sync(roots[name], stick)
    sync(ada, stick)
    sync(ada, os.fspath(folder / "cleo"))
    remember(roots["eve"], "Oil the cogs every morning", "constraint")
    sync(ada, os.fspath(folder / "eve"), candidates=True)
    _import(ada, folder)
    _fail_a_sync(ada)
    _tear(ada)
    for number in range(12):
        remember(ada, f"Lesson {number} " + "of wind and weather " * 8, "lesson")
        if number in (5, 10):
            with Project(ada, WRITER) as project:
                project.compact()
    _migrate(ada, folder)
    with Project(ada, WRITER) as project:
        look(project.journal)
        prove_record(project.journal, 2)
        left = project.remember(Memory("note", "A note that goes again")).entity
        project.journal.mutate(lambda t: t.delete(left.item_type, left.item_id), WRITER)
    _keep_in_older_forms(Path(ada, "objects"))
    Path(ada, "journal", ".durable.7.0a0a0a0a.tmp").write_bytes(b"half")
    with Project(ada, WRITER) as project:
        assert project.repair()  # parks the leftover
        project.look(everywhere=True)
        found = project.examine()
        assert found.exit_code <= 1, found.problems
    with Project(ada, WRITER) as project:  # its write-ahead log is to be there
        assert project.status().damage == ""
        answers(project)  # reading makes tiles and remembers heads
        whole, copy = top / "whole", top / "copy"
        shutil.copytree(folder, whole, symlinks=True)
        shutil.copytree(folder / "ada", copy, symlinks=True)
    return Arena(folder, Path(ada), whole, copy)


def _make(folder: Path) -> str:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    created = Project.init(os.fspath(folder), clock=SystemClock())
    config = Path(created.root, "config.toml")
    config.write_text(config.read_text() + f"segment_bytes = {SEGMENT_BYTES}\nlive_segments = 1\n")
    return created.root


def _edit(root: str, item_id: str, text: str) -> None:
    with Project(root, WRITER) as project:
        entity = project.journal.find(item_id)
        project.journal.mutate(lambda t: t.put(entity.item_type, item_id, entity.value | {"text": text}), WRITER)


def _import(root: str, folder: Path) -> None:
    for name, steps in (("5e551011", 12), ("5e551012", 20), ("5e551013", 16)):
        session = folder / f"{name}.jsonl"
        claude_session(session, cwd=os.fspath(folder / "ada"), steps=steps, session=name)
        with Project(root, WRITER) as project:
            assert project.import_transcript(os.fspath(session)).changed


def _fail_a_sync(root: str) -> None:
    """A sync that the disk refused leaves its segment poisoned, and the next writer begins another."""
    files = FailingFiles("sync_data", 5)
    try:
        with Project(root, WRITER, files=files) as project:
            project.remember(Memory("note", "Whether this is kept nobody knew"))
    except OutcomeUnknownError:
        return
    raise AssertionError("the sync did not fail")


def _tear(root: str) -> None:
    with Project(root, WRITER) as project:
        project.remember(Memory("note", "Before the tear"))
        path = project.journal.reader(project.journal.lineage).path_of(project.journal.end().segment)
    with open(path, "ab") as file:
        file.write(b'{"v":2,"seq":999,"torn')
    with Project(root, WRITER) as project:
        project.remember(Memory("note", "Behind the tear"))


def _migrate(root: str, folder: Path) -> None:
    old = folder / "old"
    for kind, name, value in (
        ("decisions", "D-1", {"id": "D-1", "type": "decision", "text": "Moor at the quay", "status": "accepted"}),
        ("plans", "P-1", {"id": "P-1", "type": "plan", "goal": "Ship it", "share": 0.25}),
    ):
        (old / kind).mkdir(parents=True)
        (old / kind / f"{name}.json").write_text(json.dumps(value))
    (old / "events.jsonl").write_text('{"ts":"2025-01-01","event":"create","item_type":"plan","item_id":"P-1"}\n')
    with Project(root, WRITER) as project:
        migrate(project, "dual", source=os.fspath(old))
        migrate(project, "primary")


def _keep_in_older_forms(objects: Path) -> None:
    """Two trails as older versions kept them: compressed by zlib, and plain. The others stay packed as trails are."""
    import zlib

    from periplus.trail.columns import packed_trail

    for path, suffix in zip(sorted(objects.glob("*/*.t")), (".z", ""), strict=False):
        data = packed_trail.unpack(path.read_bytes())
        path.with_suffix(suffix).write_bytes(zlib.compress(data) if suffix else data)
        path.unlink()


def look(journal: Journal) -> None:
    reader = Reader(journal, READER)
    reader.advance(reader.look())


# -- what a store answers ----------------------------------------------------------------------------------------------


class Refused(NamedTuple):
    """An answer that was not given: the error says why."""

    error: PeriplusError


def answers(project: Project) -> dict[tuple[object, ...], object]:
    """What is served, piece by piece; a piece that is not served because of an error is ``Refused``."""
    journal = project.journal
    found: dict[tuple[object, ...], object] = {}

    def ask(key: tuple[object, ...], question: Callable[[], object]) -> None:
        try:
            found[key] = question()
        except PeriplusError as error:
            found[key] = Refused(error)

    def tell_all(name: str, pieces: Callable[[], dict[tuple[object, ...], object]]) -> None:
        try:
            found.update(pieces())
        except PeriplusError as error:
            found[name,] = Refused(error)

    tell_all("entities", lambda: {
        ("entity", one.item_type, one.item_id): (one.version, one.heads, one.rev, one.payload, one.conflicts)
        for one in journal.entities()
    })  # fmt: skip
    ask(("history",), lambda: bool(journal.need_history()))
    for lineage in journal.lineages():
        tell_all("log", lambda lineage=lineage: {
            ("log", lineage, row.seq): (row.leaf, row.ts, row.action, row.item_id, row.version, row.summary)
            for row in project.log(limit=100_000, lineages=[lineage]).records
        })  # fmt: skip
        ask(("root", lineage), lambda lineage=lineage: _root(journal, lineage))
    ask(("proof",), lambda: _proof(journal, 2))
    for digest in sorted(journal.objects.digests()):
        ask(("object", digest.hex()), lambda digest=digest: hashlib.sha256(journal.objects.get(digest)).digest())
    for entity in list(journal.entities("trail")):
        ask(("trail", entity.item_id), lambda entity=entity: project.trail_bytes(entity.item_id).data)
    ask(("recall",), lambda: sorted(hit.item_id for hit in project.recall("wind weather tides").hits))
    ask(("reader",), lambda: Reader(journal, READER).look().seen)
    ask(("inbox",), lambda: [one.item_id for one in project.inbox()])
    return found


def _root(journal: Journal, lineage: str) -> object:
    tree = LineageTree(journal, lineage)
    tree.refresh()
    return tree.size, tree.root(tree.size)


def _proof(journal: Journal, seq: int) -> object:
    proof = prove_record(journal, seq)
    verdict = verify_proof(proof)
    assert verdict.holds
    return hashlib.sha256(proof).hexdigest()


# -- putting it back ---------------------------------------------------------------------------------------------------


def put_back(arena: Arena) -> None:
    """Every file of the arena is as it was built; inodes stay, for they tell a copy from the store."""
    wanted = _walk(arena.whole)
    for name in sorted(_walk(arena.folder) | wanted, reverse=True):
        path, good = arena.folder / name, arena.whole / name
        if name not in wanted:
            _remove(path)
            continue
        if good.is_dir() and not good.is_symlink():
            if path.is_symlink() or not path.is_dir():
                _remove(path)
                path.mkdir(parents=True)
            continue
        status = path.lstat() if os.path.lexists(path) else None
        if status is not None and not stat.S_ISREG(status.st_mode):
            _remove(path)
            status = None
        data = good.read_bytes()
        if status is None or status.st_size != len(data) or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if status is None or stat.S_IMODE(status.st_mode) != stat.S_IMODE(good.stat().st_mode):
            path.chmod(stat.S_IMODE(good.stat().st_mode))
    identity = json.loads(Path(arena.root, "journal/lineage.json").read_text())
    if identity["inode"] != Path(arena.root, "journal/lineage.json").stat().st_ino or identity.get("generation"):
        settle(arena.root)


def _walk(top: Path) -> set[str]:
    found = set()
    for folder, folders, names in os.walk(top):
        where = os.path.relpath(folder, top)
        if where.split(os.sep)[1:2] == [".git"]:
            folders.clear()
            continue
        found.update(os.path.normpath(os.path.join(where, name)) for name in [*folders, *names])
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
