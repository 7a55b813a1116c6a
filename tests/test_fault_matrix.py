"""Every operation, stopped or failed at every call that the disk sees: one table of operations, one list of promises.

After each case the store is opened with sound files. It must hold what was acknowledged, and of what was in flight
all or nothing; index and entity files must be those of a rebuild; ``doctor`` finds no loss; the next mutation works; the
operation, asked for again, ends as if nothing had happened. What was raised says what is safe. Time, chance and keys come in the same order in every case, so
that many end in the same state, byte for byte (``same_states.py``): each state is judged once.

A sample of the cases runs always (``PERIPLUS_FAULT_SEED`` chooses it); under ``slow`` every call is stopped at, and fails
with EIO, with ENOSPC and with a short write, beside a larger sample of the rest; with ``PERIPLUS_EXHAUSTIVE=1`` all of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from faulty_files import ERRORS, Fault, FaultyFiles
from periplus.base.clock import FixedClock, SystemClock
from periplus.base.errors import EnvironmentFailure, OutcomeUnknownError, PeriplusError, RefusedError
from periplus.base.files import Files
from periplus.journal import Journal, Writer
from periplus.journal.care.doctor import examine
from periplus.journal.care.redaction import redact
from periplus.journal.care.repair import repair
from periplus.journal.carriers import open_folder
from periplus.journal.checkpoints.creation import make_checkpoint
from periplus.journal.exchange.package import export_store
from periplus.journal.exchange.package_import import import_store
from periplus.journal.exchange.sync import sync
from periplus.journal.history.cursors import Reader, write_cursor
from periplus.journal.history.undo import undo
from periplus.journal.projections.external_edits import take_in
from periplus.journal.proofs.proof_file import Prover
from periplus.journal.proofs.tiles import LineageTree
from periplus.journal.storage.store_creation import create_store
from periplus.project import Project
from periplus.project.migration import migrate
from same_states import digest, steady
from sampling import sampled
from support import TYPES, WRITER, Stop, item, remove_index, settle

SECRET = "correct horse battery staple"
SESSION = Writer("ada", "who_1111111111111111", "to-undo", 1)
SHARES = (0.0, 0.3, 0.5, 0.9, 0.999, 1.0)
SEED = int(os.environ.get("PERIPLUS_FAULT_SEED", "20260131"))
EXHAUSTIVE = bool(os.environ.get("PERIPLUS_EXHAUSTIVE"))
CASES_QUICK, CASES_SLOW = 4, 24


def momentary(size: int) -> bytes:
    """What ``os.urandom`` gives at the moment, which may be steady; a default was bound when it was defined."""
    return os.urandom(size)


class Place(NamedTuple):
    """Where a case happens: ``here`` is the store under test, ``peer`` another clone, ``hub`` an exchange folder."""

    folder: Path

    @property
    def here(self) -> str:
        return os.fspath(self.folder / "here/.periplus")

    @property
    def peer(self) -> str:
        return os.fspath(self.folder / "peer/.periplus")

    @property
    def hub(self) -> str:
        return os.fspath(self.folder / "hub")

    def open(self, files: Files | None = None, root: str = "") -> Journal:
        chance = momentary if isinstance(files, FaultyFiles) else os.urandom
        return Journal(root or self.here, TYPES, files=files, clock=SystemClock(), random=chance)

    def project(self, files: Files | None = None) -> Project:
        project = Project(self.here, WRITER, files=files)
        if isinstance(files, FaultyFiles):
            project.journal.random = momentary
        return project


Step = Callable[[Place, Files], object]


class Operation(NamedTuple):
    """``steps`` are acknowledged one after the other; each changes state as a whole, unless ``is_whole`` is False.

    ``is_damaged``: the store is not sound before. ``is_memory``: its entities are those of the memory layer. ``is_secret``:
    at the end nothing in the store holds the secret. ``gives_way``: what stood behind a fork stands elsewhere then.
    """

    name: str
    prepare: Callable[[Place], object]
    steps: tuple[Step, ...]
    is_whole: bool = True
    is_damaged: bool = False
    is_memory: bool = False
    is_secret: bool = False
    gives_way: bool = False

    def open(self, place: Place) -> Journal:
        return place.project().journal if self.is_memory else place.open()


# -- what is done ----------------------------------------------------------------------------------------------------


def put(number: int, text: str, kind: str = "decision"):
    return lambda t: t.put(kind, item(number, kind[:3]), {"text": text})


def mutation(fn, key: str, writer: Writer = WRITER) -> Step:
    def step(place: Place, files: Files) -> None:
        with place.open(files) as journal:
            journal.mutate(fn, writer, key=key)

    return step


def on_journal(work: Callable[[Journal], object]) -> Step:
    def step(place: Place, files: Files) -> None:
        with place.open(files) as journal:
            work(journal)

    return step


def base(place: Place, *, segment_bytes: int = 0) -> None:
    """A store with a history: updates, a batch, a deletion, an object."""
    create_store(place.here, Files(), SystemClock())
    if segment_bytes:
        config = Path(place.here, "config.toml")
        config.write_text(config.read_text() + f"segment_bytes = {segment_bytes}\n")
    with place.open() as journal:
        journal.mutate(put(1, "one"), WRITER)
        journal.mutate(put(1, "one again"), WRITER)
        journal.mutate(lambda t: [t.put("decision", item(n), {"text": f"batch {n}"}) for n in (2, 3, 4)], WRITER)
        journal.mutate(lambda t: t.delete("decision", item(4)), WRITER)
        journal.mutate(put(5, "o" * 70_000, "note"), WRITER)


def small(place: Place) -> None:
    """A store whose next mutation rolls."""
    base(place, segment_bytes=2_000)


def long(place: Place) -> None:
    """Some segments, enough for tiles of two levels."""
    base(place, segment_bytes=20_000)
    with place.open() as journal:
        LineageTree(journal)
        journal.mutate(lambda t: [t.put("note", item(n, "not"), {"text": "t"}) for n in range(300)], WRITER)


def with_secret(place: Place) -> None:
    base(place)
    with place.open() as journal:
        journal.mutate(put(6, f"it is {SECRET}"), WRITER)
        journal.mutate(put(7, SECRET + "n" * 70_000, "note"), WRITER)
        journal.mutate(put(6, "nothing to see"), WRITER)


def with_session(place: Place) -> None:
    base(place)
    with place.open() as journal:
        journal.mutate(lambda t: [put(1, "undo me")(t), put(8, "and me")(t), t.delete("decision", item(2))], SESSION)


def with_cursor(place: Place) -> None:
    base(place)
    with place.open() as journal:
        write_cursor(journal, "me", {journal.lineage: 2})


def with_edits(place: Place) -> None:
    base(place)
    with place.open() as journal:
        first, second = (Path(journal.layout.entities, "decision", f"{item(n)}.json") for n in (1, 2))
        first.write_bytes(first.read_bytes().replace(b"one again", b"edited"))
        second.unlink()


def pair(place: Place) -> None:
    """Two clones that changed the same entity since they last met."""
    base(place)
    peer = Path(place.peer)
    peer.mkdir(parents=True)
    shutil.copy(Path(place.here, "config.toml"), peer / "config.toml")
    for root in (place.here, place.peer, place.here):
        exchange(place, Files(), root)
    for root, text in ((place.here, "as it is here"), (place.peer, "as it is there")):
        with place.open(root=root) as journal:
            journal.mutate(put(1, text), WRITER)
            journal.mutate(put(9, text + "o" * 70_000, "note"), WRITER)
            journal.mutate(put(20 + len(text), text), WRITER)


def to_take(place: Place) -> None:
    pair(place)
    exchange(place, Files(), place.peer)


def redacted_elsewhere(place: Place) -> None:
    pair(place)
    with place.open(root=place.peer) as journal:
        journal.mutate(put(7, SECRET), WRITER)
    for root in (place.peer, place.here, place.peer):
        exchange(place, Files(), root)
    with place.open(root=place.peer) as journal:
        redact(journal, WRITER, secret=SECRET, reason="pasted")
    exchange(place, Files(), place.peer)


def forked(place: Place) -> None:
    """The store was put back to an earlier state where it lies, and went on; what it had written meanwhile is in the hub."""
    base(place)
    backup = place.folder / "backup"
    shutil.copytree(place.here, backup)
    for text in ("before", "after"):
        with place.open() as journal:
            journal.mutate(put(1, text), WRITER)
            journal.mutate(lambda t, text=text: [put(n + len(text), text)(t) for n in (30, 40)], WRITER)
            journal.mutate(put(9, text + "o" * 70_000, "note"), WRITER)
            journal.mutate(lambda t: t.observe({"n": 1}), WRITER)
        if text == "before":
            exchange(place, Files())
            shutil.rmtree(place.here)
            shutil.copytree(backup, place.here)
            settle(place.here)


def give_way(place: Place, files: Files) -> None:
    exchange(place, files, rebases=True)


def exchange(place: Place, files: Files, root: str = "", *, rebases: bool = False) -> None:
    with place.open(files, root) as journal:
        report = sync(journal, open_folder(place.hub, files), rebases=rebases)
        for error in report.refusals:
            raise error


def broken(place: Place) -> None:
    """A record and an object that copies elsewhere bring back, and a leftover."""
    base(place)
    shutil.copytree(place.here, place.folder / "copy")
    with place.open() as journal:
        found = {entry.record.seq: (n, entry) for n, entry in journal.entries(journal.lineage)}
        segment, entry = found[2]
        path = Path(journal.reader(journal.lineage).path_of(segment))
    data = bytearray(path.read_bytes())
    data[entry.offset + 60 : entry.offset + 90] = b"?" * 30
    path.write_bytes(data)
    for path in Path(place.here, "objects").glob("*/*"):
        path.write_bytes(b"not what it was")
    Path(place.here, "journal/.left.1.abc.tmp").write_bytes(b"half")


def mend(place: Place, files: Files) -> None:
    with place.open(files) as journal:
        repair(journal, WRITER, sources=[os.fspath(place.folder / "copy")])


def with_poison(place: Place) -> None:
    """The last sync failed: what was written in that segment is written again elsewhere."""
    base(place)
    files = FaultyFiles()
    with place.open(files) as journal:
        journal.mutate(lambda t: t.observe({"warm": 1}), WRITER)
        files.fault = Fault(len(files.calls) + 1, error=errno.EIO)  # behind the write: the sync
        with pytest.raises(OutcomeUnknownError):
            journal.mutate(put(6, "unknown"), WRITER, key="unknown")
    assert list(Path(place.here, "journal").glob("lin_*/*.poisoned"))


def copied(place: Place) -> None:
    """A copy of a store: its first write begins a lineage of its own."""
    base(place)
    shutil.move(Path(place.here).parent, place.folder / "original")
    shutil.copytree(place.folder / "original", Path(place.here).parent)


def exported(place: Place) -> None:
    base(place)
    with place.open() as journal:
        export_store(journal, os.fspath(place.folder / "store.zip"))
    shutil.rmtree(place.here)


def export(place: Place, files: Files) -> None:
    path = place.folder / "out.zip"
    with place.open(files) as journal:
        try:
            export_store(journal, os.fspath(path))
        except RefusedError:
            assert path.exists(), "there is one from before: whole, or it would not have the name"


def unpack(place: Place, files: Files) -> None:
    if not os.path.exists(place.here):
        import_store(os.fspath(place.folder / "store.zip"), os.path.dirname(place.here), check=lambda _: [],
                     clock=SystemClock(), files=files)  # fmt: skip


def take(place: Place, files: Files) -> None:
    with place.open(files) as journal:
        if take_in(journal).waits:
            raise EnvironmentFailure("some files wait", safe="They are as they were.")


def with_checkpoint(place: Place) -> None:
    """A checkpoint and segments before it: the next one moves some to the archive."""
    base(place, segment_bytes=1_000)
    config = Path(place.here, "config.toml")
    config.write_text(config.read_text() + "live_segments = 1\n")
    with place.open() as journal:
        make_checkpoint(journal, WRITER)
        for number in range(4):
            journal.mutate(put(10 + number, "r" * 900), WRITER)
        journal.mutate(lambda t: t.delete("decision", item(3)), WRITER)


def v1_folder(place: Place) -> None:
    create_store(place.here, Files(), FixedClock(step_ms=1))
    old = place.folder / "old/decisions"
    old.mkdir(parents=True)
    (old / "D-1.json").write_text('{"id": "D-1", "type": "decision", "text": "Hash with argon2", "status": "accepted"}')
    (old / "D-2.json").write_text('{"id": "D-2", "type": "decision", "text": "Another", "status": "accepted"}')
    (old.parent / "events.jsonl").write_text(
        '{"ts":"2025-01-01","event":"create","item_type":"decision","item_id":"D-1"}\n'
    )


def migration(mode: str) -> Step:
    def step(place: Place, files: Files) -> None:
        with place.project(files) as project:
            migrate(project, mode, source=os.fspath(place.folder / "old") if mode == "dual" else "")

    return step


def look_and_advance(journal: Journal) -> None:
    reader = Reader(journal, "me")
    reader.advance(reader.look())


def prove(journal: Journal) -> None:
    prover = Prover(journal)
    prover.head()
    prover.record(1)


OPERATIONS = (
    Operation("mutate", base, (mutation(put(1, "single"), "k1"), mutation(put(6, "new"), "k2"))),
    Operation("first mutation", lambda p: create_store(p.here, Files(), SystemClock()), (mutation(put(1, "a"), "k"),)),
    Operation("batch", base, (mutation(lambda t: [put(n, "whole")(t) for n in (1, 2, 3, 6)], "k"),)),
    Operation("cascade", base, (mutation(
        lambda t: [t.delete("decision", item(2)), t.put("decision", item(1), {"text": "superseded"}, action="transition"),
                   t.put("note", item(5, "not"), {"text": "p" * 80_000})], "k"),)),
    Operation("large payload", base, (mutation(put(6, "z" * 100_000), "k"),)),
    Operation("observation", base, (on_journal(lambda j: j.mutate(lambda t: t.observe({"n": 1}), WRITER, key="k")),)),
    Operation("mutation that rolls", small, (mutation(put(1, "r" * 900), "k1"), mutation(put(2, "r" * 900), "k2"))),
    Operation("roll", base, (on_journal(Journal.roll),)),
    Operation("checkpoint", base, (on_journal(lambda j: make_checkpoint(j, WRITER)),)),
    Operation("checkpoint and archive", with_checkpoint, (on_journal(lambda j: make_checkpoint(j, WRITER)),)),
    Operation("project", base, (on_journal(lambda j: [j.mutate(put(1, "later"), WRITER, key="k", project=False),
                                                      j.project()]),)),
    Operation("leave a poisoned segment", with_poison, (mutation(put(6, "unknown"), "unknown"),)),
    Operation("first write of a copy", copied, (mutation(put(6, "mine"), "k"),)),
    Operation("create", lambda _: None, (lambda p, f: create_store(p.here, f, SystemClock()),)),
    Operation("give and take", pair, (exchange, mutation(put(1, "settled"), "k"), exchange)),
    Operation("take and merge", to_take, (exchange, mutation(put(1, "settled"), "k"))),
    Operation("take a redaction", redacted_elsewhere, (exchange,), is_secret=True),
    Operation("give way in a fork", forked, (give_way,), gives_way=True),
    Operation("redact", with_secret, (on_journal(lambda j: redact(j, WRITER, secret=SECRET, reason="pasted")),),
              is_secret=True),
    Operation("repair", broken, (mend,), is_damaged=True),
    Operation("migrate", v1_folder, (migration("dual"), migration("primary"), migration("off")), is_memory=True),
    Operation("undo", with_session, (on_journal(lambda j: undo(j, WRITER, session="to-undo")),)),
    Operation("cursor", with_cursor, (on_journal(look_and_advance),)),
    Operation("take in files", with_edits, (take,), is_whole=False),
    Operation("tiles", long, (on_journal(LineageTree),)),
    Operation("prove", base, (on_journal(prove),)),
    Operation("export", base, (export,)),
    Operation("import", exported, (unpack,)),
)  # fmt: skip


# -- what must hold --------------------------------------------------------------------------------------------------

State = dict[tuple[str, str], tuple[object, ...]]


def told(journal: Journal) -> State:
    """Every entity as it is shown."""
    return {(e.item_type, e.item_id): (e.payload, e.rev, len(e.heads), bool(e.conflicts)) for e in journal.entities()}


def leaves(journal: Journal) -> dict[str, list[bytes]]:
    """Of every lineage, checked on the way."""
    found = {name: [entry for _, entry in journal.entries(name)] for name in journal.lineages()}
    for entries in found.values():
        assert [entry.record.seq for entry in entries] == list(range(1, len(entries) + 1))
    return {name: [entry.leaf for entry in entries] for name, entries in found.items()}


class Known(NamedTuple):
    """An operation's place before it, what is told after each step, the records before it, the calls that it makes; when
    its time begins, and the states that were judged.
    """

    template: Place
    states: list[State]
    leaves: dict[str, list[bytes]]
    calls: list[str]
    begin_ns: int
    judged: set[tuple[bytes, int, bool]]


MADE: dict[str, Known] = {}


def fresh(template: Place, folder: Path) -> Place:
    shutil.copytree(template.folder, folder, dirs_exist_ok=True)
    place = Place(folder)
    for root in (place.here, place.peer):
        if os.path.exists(os.path.join(root, "journal", "lineage.json")) and not (folder / "original").exists():
            settle(root)
    return place


def known(operation: Operation, factory: pytest.TempPathFactory) -> Known:
    """Made once for each operation: what happens where nothing goes wrong."""
    found = MADE.get(operation.name)
    if found is not None:
        return found
    template = Place(factory.mktemp("template"))
    operation.prepare(template)
    assert bool(holders(template)) == operation.is_secret
    states: list[State] = [{}]
    before: dict[str, list[bytes]] = {}
    if os.path.exists(template.here) and not operation.is_damaged:
        place = fresh(template, factory.mktemp("before"))
        with operation.open(place) as journal:
            states, before = [told(journal)], leaves(journal)
    place = fresh(template, factory.mktemp("sound"))
    files = FaultyFiles()
    begin_ns = time.time_ns()
    for step in operation.steps:
        step(place, files)
        with operation.open(place) as journal:
            states.append(told(journal))
    found = MADE[operation.name] = Known(template, states, before, files.calls, begin_ns, set())
    return found


def every_fault(calls: list[str]) -> Iterator[Fault]:
    for at, name in enumerate(calls):
        yield from (Fault(at, share) for share in (SHARES if name in ("write", "pwrite") else SHARES[:1]))
        for error in ERRORS[name]:
            yield Fault(at, error=error)
            yield Fault(at, error=error, is_lasting=True)


def one_of_each(calls: list[str]) -> Iterator[Fault]:
    """At every call a stop, and each of the errors that no call is spared."""
    for at, name in enumerate(calls):
        yield Fault(at, SHARES[at % len(SHARES)] if name in ("write", "pwrite") else 0.0)
        yield from (Fault(at, error=error) for error in ERRORS[name] if error in (errno.EIO, errno.ENOSPC, 0))


def chosen(operation: Operation, calls: list[str], cases: int) -> list[Fault]:
    faults = list(every_fault(calls))
    return faults if cases >= len(faults) else random.Random(f"{SEED} {operation.name}").sample(faults, cases)


def run_case(operation: Operation, made: Known, fault: Fault, folder: Path) -> None:
    made_ns = time.time_ns()
    place = fresh(made.template, folder)
    files = FaultyFiles(fault)
    done = 0
    problem: Stop | PeriplusError | None = None
    with steady(made.begin_ns):
        for step in operation.steps:
            try:
                step(place, files)
            except (Stop, PeriplusError) as error:
                problem = error
                break
            done += 1
    if isinstance(problem, PeriplusError):
        assert problem.safe, f"nothing is said of what is safe: {problem}"
    state = digest(folder, made_ns)
    if state is None or (state, done, problem is not None) not in made.judged:
        judge(operation, made, place, done, raised=problem is not None)
    if state is not None:
        made.judged.add((state, done, problem is not None))


def judge(operation: Operation, made: Known, place: Place, done: int, *, raised: bool) -> None:
    if os.path.exists(os.path.join(place.here, "config.toml")):  # before that it is no store
        check_survival(operation, made, place, done, raised=raised)
    for step in operation.steps:
        step(place, Files())
    with operation.open(place) as journal:
        state = told(journal)
        state.pop(("decision", item(99)), None)
        assert plain(state) == plain(made.states[-1]), "asked for again it ends as it should"
        assert set(leaves(journal)) >= set(made.leaves)
        check_sound(journal)
    if operation.is_secret:
        assert holders(place) == []


def holders(place: Place) -> list[Path]:
    """The files that hold the secret, objects unpacked."""
    return [path for path in Path(place.here).rglob("*") if path.is_file() and SECRET.encode() in unpacked(path)]


def unpacked(path: Path) -> bytes:
    try:
        return zlib.decompressobj().decompress(path.read_bytes())
    except zlib.error:  # most files are as they are
        return path.read_bytes()


def plain(state: State) -> dict[tuple[str, str], object]:
    """What is shown; not how often it was written."""
    return {key: (payload, conflicts) for key, (payload, _, _, conflicts) in state.items()}


def check_survival(operation: Operation, made: Known, place: Place, done: int, *, raised: bool) -> None:
    with operation.open(place) as journal:
        if not operation.is_damaged:
            assert journal.damage is None, journal.damage
            state = told(journal)
            allowed = made.states[done : done + 1 + raised]
            if operation.is_whole:
                assert state in allowed, "what was acknowledged, and of what was in flight all or nothing"
            else:
                assert all(state.get(key) in [one.get(key) for one in allowed] for key in {*state, *allowed[-1]})
            held = leaves(journal)
            if not operation.gives_way:
                assert all(held[name][: len(old)] == old for name, old in made.leaves.items()), (
                    "acknowledged records stay"
                )
        if operation.is_memory or operation.is_damaged:
            return
        journal.mutate(put(99, "the next mutation"), WRITER)
        assert journal.get("decision", item(99)) is not None
        check_sound(journal)
    rebuilt_is_the_same(operation, place)


def check_sound(journal: Journal) -> None:
    found = examine(journal)
    assert found.exit_code in (0, 1), found.problems


def rebuilt_is_the_same(operation: Operation, place: Place) -> None:
    entities = Path(place.here, "entities")
    with operation.open(place) as journal:
        journal.project()
        take_in(journal)
        before = told(journal), leaves(journal)
        files = {path: path.read_bytes() for path in entities.rglob("*.json")}
    remove_index(place.here)
    shutil.rmtree(entities)
    with operation.open(place) as journal:
        journal.project()
        assert (told(journal), leaves(journal)) == before
        assert {path: path.read_bytes() for path in entities.rglob("*.json")} == files


def check_cases(operation: Operation, made: Known, faults: list[Fault], folder: Path) -> None:
    for fault in faults:
        try:
            run_case(operation, made, fault, folder / "case")  # one name for all: a state may name its place
        except (Exception, Stop) as error:
            call = made.calls[fault.at]
            raise AssertionError(f"{operation.name}: {fault} ({call}; seed {SEED}, {made.calls})") from error
        shutil.rmtree(folder / "case")


@contextlib.contextmanager
def memory(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on a disk in memory where there is one: the calls are the same, and there are thousands of cases."""
    if not os.access("/dev/shm", os.W_OK):
        yield factory.mktemp("case")
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("operation", sampled(OPERATIONS, 8), ids=lambda operation: operation.name)
def test_some_faults_of_every_operation(operation, tmp_path_factory):
    made = known(operation, tmp_path_factory)
    assert len(made.calls) >= 3, made.calls
    check_cases(operation, made, chosen(operation, made.calls, CASES_QUICK), tmp_path_factory.mktemp("case"))


def renamed(root: Path) -> None:
    path = next(root.glob("entities/decision/*.json"))
    path.rename(path.with_suffix(".other"))


def written_again(root: Path) -> None:
    path = next(root.glob("entities/decision/*.json"))
    path.write_bytes(path.read_bytes()[:-2] + b"!\n")


def written_as_it_was(root: Path) -> None:
    path = next(root.glob("entities/decision/*.json"))
    path.write_bytes(path.read_bytes())


def moved(root: Path) -> None:
    shutil.copy2(root / "journal/lineage.json", root / "journal/copy")
    os.replace(root / "journal/copy", root / "journal/lineage.json")


def in_the_index(text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with contextlib.closing(sqlite3.connect(root / "index.sqlite")) as db:
            db.execute(text)
            db.commit()

    return change


CHANGES = {
    "a name": renamed,
    "a byte of an entity": written_again,
    "the time of an entity": written_as_it_was,
    "a mode": lambda root: (root / "config.toml").chmod(0o600),
    "a folder": lambda root: (root / "objects/zz").mkdir(),
    "a link": lambda root: (root / "objects/zz").symlink_to("nowhere"),
    "a leftover": lambda root: (root / "journal/.left.1.abc.tmp").write_bytes(b""),
    "a file that lies elsewhere": moved,
    "a row": in_the_index("UPDATE records SET summary = 'another' WHERE seq = 2"),
    "a row less": in_the_index("DELETE FROM edges WHERE child = (SELECT min(child) FROM edges)"),
    "what is said of a file": in_the_index("UPDATE files SET stamp = x'00' WHERE item_id LIKE '%1'"),
    "a watermark": in_the_index("UPDATE watermarks SET offset = offset - 1"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_is_told_from_any_other(tmp_path_factory, change):
    made = known(OPERATIONS[0], tmp_path_factory)
    folder, states = tmp_path_factory.mktemp("state") / "case", []
    for _ in range(3):
        made_ns = time.time_ns()
        place = fresh(made.template, folder)
        with steady(made.begin_ns):
            for step in OPERATIONS[0].steps:
                step(place, FaultyFiles())
        if len(states) == 2:
            change(Path(place.here))
        states.append(digest(folder, made_ns))
        shutil.rmtree(folder)
    assert states[0] is not None
    assert states[0] == states[1], "what is done again is known again"
    assert states[2] != states[0]


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_many_faults_of_every_operation(operation, tmp_path_factory):
    """But for those of the test below."""
    made = known(operation, tmp_path_factory)
    others = {*one_of_each(made.calls)}
    faults = [
        fault for fault in chosen(operation, made.calls, 1 << 30 if EXHAUSTIVE else CASES_SLOW) if fault not in others
    ]
    with memory(tmp_path_factory) as folder:
        check_cases(operation, made, faults, folder)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_call_of_every_operation(operation, tmp_path_factory):
    made = known(operation, tmp_path_factory)
    with memory(tmp_path_factory) as folder:
        check_cases(operation, made, list(one_of_each(made.calls)), folder)
