"""A team: clones of one git repository with a store each, the commands that are run there, and what must hold of them.

Commands run in this process, or in a fork of it that is killed at a call of the file layer; a few are processes of their
own. What they acknowledged is known by marks in the texts: each is written once, and has to be found from then on
wherever it came to. What a clone holds is read from the bytes of its journal, so that nothing here opens a store.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from command_runner import run_command
from faulty_files import Fault, FaultyFiles
from independent_reader.objects import load_object
from independent_reader.store import Store
from periplus.base.clock import SystemClock
from periplus.base.files import Files
from periplus.cli.main import main
from periplus.project import store as store_module
from periplus.project.exchange import sync as syncing_module
from support import Stop, remove_index

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "entities.md"
MARK = re.compile(rb"(?:mark|hush)\d{5}")
SEQ = re.compile(rb'"seq":(\d+)')
OBJECT = re.compile(rb'"payload_ref":\{[^}]*"sha256":"([0-9a-f]{64})"')
ITEM = re.compile(r'"id":"((?:dec|con|trp|les|not|pln|stp|hof)_[0-9a-z]{16})"')
CONFLICT_MARKS = (b"<<<<<<< ", b"\n=======\n", b">>>>>>> ")
USUAL = frozenset({0, 1, 2, 5})
WITH_FAULTS = frozenset({0, 1, 2, 3, 4, 5, 6})
BEGINNING_MS = 1_767_225_600_000
SHIFTS_MS = (0, -3 * 86_400_000, 3_600_000, 86_400_000, -1_000, 40, 0, 0)
LIMITS = "segment_bytes = 4096\nlive_segments = 1\n"
SETTINGS = ["user.name=Ada", "user.email=ada@example.org", "commit.gpgsign=false", "protocol.file.allow=always",
            "core.hooksPath=/dev/null", "init.defaultBranch=main", "advice.detachedHead=false", "gc.auto=0"]  # fmt: skip
# What ends a command with 3 although no byte of the store is damaged: the settings are git's, and git has other ones there.
SETTINGS_ARE_GITS = ("config.toml",)
# A checkpoint of before the store was copied; one whose maker was killed before he announced it.
COUNT_FOR_NOTHING = ("the checkpoint of another", "no record announces it")


class Done(NamedTuple):
    """What a command said; ``code`` is None where it was killed."""

    words: tuple[str, ...]
    code: int | None
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out) if self.out.strip() else {}

    def __str__(self) -> str:
        return f"{' '.join(self.words)}: {self.code}\n{self.out[-3000:]}\n{self.err[-1500:]}"


class KilledFiles(FaultyFiles):
    """Kills the process at a call: nothing runs behind it, as little as ``finally`` does."""

    def _at(self, name, *, makes=False, what=""):
        try:
            return super()._at(name, makes=makes, what=what)
        except Stop:
            os.kill(os.getpid(), signal.SIGKILL)
            raise

    def _written(self, name, fd, data, write):
        try:
            return super()._written(name, fd, data, write)
        except Stop:
            os.kill(os.getpid(), signal.SIGKILL)
            raise


class Clone:
    """A working copy, by name; ``holds`` are the marks that came to it, what was acknowledged of them."""

    def __init__(self, folder: Path, number: int, told: list[str]) -> None:
        self.folder, self.number, self.told = folder, number, told
        self.name = folder.name
        self.root = folder / ".periplus"
        self.holds: set[str] = set()
        self.copied_from = ""  # the lineage that its original writes, and it does not
        self.seen: dict[Path, tuple[tuple[int, ...], list[tuple[int, set[str], list[str]]]]] = {}

    @property
    def lineage(self) -> str:
        path = self.root / "journal" / "lineage.json"
        return str(json.loads(path.read_text())["lineage"]) if path.exists() else ""

    @property
    def linked(self) -> Path:
        """Where its linked worktree is, if it has one."""
        return self.folder.parent / f"{self.name}-linked"

    def lines(self) -> Iterator[tuple[str, int, set[str]]]:
        """``(lineage, seq, marks)`` of every line of its journal and of its payload, whether it counts or not."""
        for place in sorted(self.root.glob("journal/lin_*")):
            for path in [*sorted(place.glob("*.jsonl")), *sorted(place.glob("archive/*.jsonl"))]:
                status = path.stat()
                stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
                if self.seen.get(path, (None,))[0] != stamp:
                    self.seen[path] = (stamp, _lines(path.read_bytes()))
                for seq, marks, objects in self.seen[path][1]:
                    more = [_marks(load_object(self.root / "objects", digest) or b"") for digest in objects]
                    yield place.name, seq, marks.union(*more)

    def marks(self) -> set[str]:
        """What is in its journal or its objects."""
        found = {mark for _, _, marks in self.lines() for mark in marks}
        for digest, data in self.objects():
            del digest
            found |= _marks(data)
        return found

    def objects(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted((self.root / "objects").glob("??/*")):
            if not path.name.startswith("."):
                digest = path.parent.name + path.name.split(".")[0]
                yield digest, load_object(self.root / "objects", digest) or b""

    def files(self) -> dict[str, bytes]:
        top = self.root / "entities"
        return {os.fspath(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*.json"))}

    def is_in_the_middle(self) -> bool:
        names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
        return any((self.folder / ".git" / name).exists() for name in names)

    @property
    def is_settled(self) -> bool:
        """Whether git has the files here that say what is the store's and what is for git: an old commit may be of before."""
        return (self.root / ".gitignore").exists() and (self.root / "config.toml").exists()

    def add_all(self, *else_only: str) -> bool:
        """``git add -A``; where git knows nothing of a store it would take the journal."""
        return self.git("add", *(["-A"] if self.is_settled else else_only or ["-u"]))

    def git(self, *words: str, cwd: Path | None = None) -> bool:
        """Whether it succeeded: git refuses much of what is tried, and that is as it should be."""
        done = run_git(cwd or self.folder, *words)
        self.told.append(f"    {self.name}$ git {' '.join(words)} -> {done.returncode}")
        return done.returncode == 0


def run_git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "GIT_EDITOR": "true", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    given = [part for setting in SETTINGS for part in ("-c", setting)]
    return subprocess.run(["git", *given, *words], cwd=folder, capture_output=True, env=environment, timeout=60)


def _marks(data: bytes) -> set[str]:
    return {found.decode() for found in MARK.findall(data)}


def _lines(data: bytes) -> list[tuple[int, set[str], list[str]]]:
    found = []
    for line in data.split(b"\n"):
        seq = SEQ.search(line)
        objects = [digest.decode() for digest in OBJECT.findall(line)]
        found.append((int(seq[1]) if seq else 0, _marks(line), objects))
    return found


class Redacted(NamedTuple):
    """A redaction that a command said was done: what went, of which lineage, and up to which of its records."""

    hush: str
    lineage: str
    seq: int

    @property
    def mark(self) -> str:
        """What stands in the model for its having come to a clone."""
        return f"{self.hush} is gone from {self.lineage} to {self.seq}"


class Team:
    """The clones, where they meet, and what is known of what they were told.

    ``released`` are marks in records of which a redaction took the content: nobody promises them any more.
    """

    def __init__(self, folder: Path, seed: str, *, is_tracked: bool = True, is_apart: bool = False) -> None:
        self.folder, self.seed = folder, seed
        self.is_tracked, self.is_apart = is_tracked, is_apart
        self.hub, self.stick = folder / "hub.git", folder / "stick"
        self.home = folder / "home"
        self.clones: list[Clone] = []
        self.media: dict[str, set[str]] = {"origin": set(), "../stick": set()}
        self.items: list[str] = []
        self.known: set[str] = set()
        self.versions: dict[str, str] = {}
        self.released: set[str] = set()
        self.redactions: list[Redacted] = []
        self.commits = 0
        self.now_ms = BEGINNING_MS
        self.chance = random.Random(f"{seed} begin")
        self.step_number = 0
        self.made = 0
        self.told: list[str] = []
        self.codes: dict[int | None, int] = {}
        self.is_archive_away = False  # then what needs the past is refused
        self.backups: dict[str, Any] = {}
        self.releases = 0

    # -- how commands run --------------------------------------------------------------------------------------------

    def mark(self, word: str = "mark") -> str:
        """A word that no other text of this team has."""
        self.made += 1
        assert self.made <= 20
        return f"{word}{self.step_number:03d}{self.made:02d}"

    def call(
        self,
        clone: Clone,
        *words: str,
        cwd: Path | None = None,
        files: Files | None = None,
        codes: frozenset[int] = USUAL,
    ) -> Done:
        """Run a command in this process; its exit code is one of ``codes`` and it never shows a traceback."""
        given = (*words, "--json", "--as", clone.name)
        out, err = io.StringIO(), io.StringIO()
        streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with self.as_if_in(clone, cwd or clone.folder, files), streams[0], streams[1]:
            code = main(given)
        done = Done(words, code, out.getvalue(), err.getvalue())
        self.check_code(clone, done, codes)
        return done

    def kill(self, clone: Clone, *words: str, at: int, share: float = 0.0) -> Done:
        """Run it in a fork of this process that is killed at call number ``at`` of the file layer, if it makes so many."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                self.chance = random.Random(f"{self.seed} {self.step_number} fork")
                done = self.call(clone, *words, files=KilledFiles(Fault(at, share)), codes=frozenset(range(256)))
                said = json.dumps(done).encode()
            except BaseException as error:  # noqa: BLE001 - shown by the parent
                import traceback

                said = json.dumps([words, 70, "", "".join(traceback.format_exception(error))]).encode()
            try:
                with open(writer, "wb") as file:
                    file.write(said)
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:
            said = file.read()
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            done = Done(words, None, "", "")
            self.note(clone, done)
            return done
        told = json.loads(said)
        done = Done(words, told[1], told[2], told[3])
        self.check_code(clone, done, USUAL)
        return done

    def process(self, clone: Clone, *words: str, codes: frozenset[int] = USUAL) -> Done:
        """Run the command line as a person does, with the system's clock."""
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "COVERAGE_PROCESS_START")}
        environment = {**kept, "HOME": os.fspath(self.home), "LOGNAME": clone.name, "GIT_CONFIG_NOSYSTEM": "1"}
        code, out, err = run_command([*words, "--json"], environment=environment, cwd=clone.folder)
        done = Done(words, code, out.decode(), err.decode())
        self.check_code(clone, done, codes)
        return done

    def check_code(self, clone: Clone, done: Done, codes: frozenset[int]) -> None:
        self.note(clone, done)
        assert "Traceback" not in done.err, done
        assert "a defect of Periplus" not in done.err, done
        if done.code == 3 and self.is_archive_away:
            assert "neither here nor in archive/" in done.err, f"it does not say what is missing: {done}"
            return
        if done.code == 3 and 3 not in codes:
            assert any(part in done.err + done.out for part in SETTINGS_ARE_GITS), f"it says damage: {done}"
            return
        assert done.code in codes, f"exit code: {done}"
        if done.code == 0:
            for item_id in ITEM.findall(done.out):
                if item_id not in self.known:
                    self.known.add(item_id)
                    self.items.append(item_id)

    def note(self, clone: Clone, done: Done) -> None:
        self.codes[done.code] = self.codes.get(done.code, 0) + 1
        wrong = f" ({done.err.splitlines()[0]})" if done.code and done.err else ""
        self.told.append(f"{self.step_number}: {clone.name}$ {' '.join(done.words)[:150]} -> {done.code}{wrong[:300]}")
        if done.words[0] == "sync" and done.out:
            moved = done.document.get("transfers", ())
            said = [
                f"{one['lineage']} {one['direction']} {one['first']}-{one['last']}" for one in moved if one["records"]
            ]
            self.told.append(f"    {', '.join(said)}")

    @contextlib.contextmanager
    def as_if_in(self, clone: Clone, cwd: Path | None = None, files: Files | None = None) -> Iterator[None]:
        """Working folder, environment, clock, chance and file layer of a command that is run in this process."""

        def now(_: SystemClock) -> int:
            self.now_ms += 3
            return self.now_ms + SHIFTS_MS[clone.number % len(SHIFTS_MS)]

        before = os.getcwd()
        environment = dict(os.environ)
        kept = (SystemClock.now_ms, os.urandom, store_module.Files, syncing_module.Files)
        for name in [name for name in os.environ if name.startswith(("PERIPLUS_", "GIT_"))]:
            del os.environ[name]
        os.environ.update(
            HOME=os.fspath(self.home), LOGNAME=clone.name, GIT_CONFIG_NOSYSTEM="1", PERIPLUS_TRACEBACK="1"
        )
        os.chdir(cwd or clone.folder)
        SystemClock.now_ms = now  # type: ignore[method-assign]  # put back below
        os.urandom = self.chance.randbytes
        if files is not None:
            store_module.Files = syncing_module.Files = lambda: files  # type: ignore[misc,assignment]  # put back below
        try:
            yield
        finally:
            SystemClock.now_ms, os.urandom, store_module.Files, syncing_module.Files = kept  # type: ignore[method-assign,misc]  # as it was
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(before)

    # -- how a team comes to be ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Ada makes the store and pushes it; bob clones it. Cay does, too, or makes a store of her own that is joined."""
        self.home.mkdir(parents=True)
        ada = self.add("ada")
        ada.folder.mkdir()
        assert ada.git("init", "-q", "-b", "main")
        assert run_git(self.folder, "init", "-q", "--bare", "-b", "main", "hub.git").returncode == 0
        assert ada.git("remote", "add", "origin", "../hub.git")
        self.commit(ada)
        assert ada.git("push", "-q", "-u", "origin", "main")
        if self.is_apart:
            cay = self.clone("cay")
            self.init(cay)
            self.remember(cay, "decision")
            self.commit(cay)
        self.init(ada)
        for kind in ("decision", "trap", "decision"):
            self.remember(ada, kind)
            self.commit(ada)
        assert ada.git("push", "-q", "origin", "main")
        self.clone("bob")
        if self.is_apart:
            self.join(cay)
            for clone in self.clones:
                assert clone.git("pull", "-q", "--ff-only"), clone.name
        else:
            self.clone("cay")

    def add(self, name: str) -> Clone:
        self.clones.append(Clone(self.folder / name, len(self.clones), self.told))
        return self.clones[-1]

    def clone(self, name: str) -> Clone:
        assert run_git(self.folder, "clone", "-q", "hub.git", name).returncode == 0
        clone = self.add(name)
        assert clone.git("remote", "set-url", "origin", "../hub.git")
        return clone

    def init(self, clone: Clone) -> None:
        self.call(clone, "init", "--no-connect", codes=frozenset({0}))
        config = clone.root / "config.toml"
        config.write_text(f"{config.read_text()}{LIMITS}")
        if not self.is_tracked:
            (clone.root / ".gitignore").write_text("*\n!.gitignore\n!config.toml\n")

    def join(self, clone: Clone) -> None:
        """Two stores were made for one project, and git meets both."""
        clone.git("pull", "-q", "--no-rebase", "--no-edit")
        assert clone.is_in_the_middle()
        self.call(clone, "init", "--join", codes=frozenset({0}))
        config = clone.root / "config.toml"
        if "segment_bytes" not in config.read_text():
            config.write_text(f"{config.read_text()}{LIMITS}")
        clone.git("checkout", "--theirs", "--", ".periplus/.gitignore")
        assert clone.git("add", "-A")
        assert clone.git("commit", "-q", "--no-edit")
        assert clone.git("push", "-q", "origin", "main")

    def remember(self, clone: Clone, kind: str) -> None:
        mark = self.mark()
        done = self.call(clone, "remember", f"The boiler {mark}", "--type", kind, codes=frozenset({0}))
        self.acknowledge(clone, done, mark)

    def commit(self, clone: Clone) -> None:
        self.commits += 1
        code = clone.folder / f"code{self.commits % 3}.py"
        code.write_text(f"a = {self.commits}\n")
        clone.add_all(code.name)
        clone.git("commit", "-q", "-m", f"{self.commits}")

    # -- what is known of what was said ----------------------------------------------------------------------------------

    def acknowledge(self, clone: Clone, done: Done, *marks: str) -> None:
        """Where the command said that it is done, its marks are held from now on, and the versions that it named."""
        if done.code != 0:
            return
        clone.holds |= set(marks)
        document = done.document
        for entity in [document.get("entity"), *document.get("entities", ())]:
            if entity and "value" in entity and len(entity["heads"]) == 1:
                self.versions[entity["version"]] = entity["id"]

    def exchange(self, clone: Clone, where: str, *more: str) -> Done:
        done = self.call(clone, "sync", "--with", where, *more)
        self.synced(clone, done, where)
        return done

    def synced(self, clone: Clone, done: Done, where: str) -> None:
        """Both sides hold what either had, where the command says so. A remote and an exchange folder take a lineage from
        its owner, who signs it.
        """
        if done.code != 0 or done.document["waiting"]:
            return
        other = next((one for one in self.clones if where == f"../{one.name}"), None)
        if other is not None:
            # Its owner takes more of a lineage than it has, after it was put back, when it asks for it itself.
            theirs = other.lineage if other.lineage != other.copied_from else ""
            ahead = {mark for lineage, _, marks in clone.lines() if lineage == theirs for mark in marks}
            ahead |= {one.mark for one in self.redactions if one.lineage == theirs}
            clone.holds |= other.holds
            other.holds |= clone.holds - (ahead - other.holds)
            return
        mine = clone.lineage if clone.lineage != clone.copied_from else ""
        own = {mark for lineage, _, marks in clone.lines() if lineage == mine for mark in marks}
        own |= {one.mark for one in self.redactions if one.lineage == mine}
        self.media[where] |= own & clone.holds
        clone.holds |= self.media[where]

    def release(self, hush: str) -> None:
        """The records that hold ``hush`` are about to lose what they say, whoever has them."""
        self.releases += 1
        for clone in self.clones:
            for _, _, marks in clone.lines():
                if hush in marks:
                    self.released |= marks

    def redacted(self, clone: Clone, hush: str, done: Done) -> None:
        """Where the command says that it is done, or that there is nothing to do."""
        if done.code is None or done.err or done.code > 1:
            return
        lineage = clone.lineage
        last = max((seq for name, seq, _ in clone.lines() if name == lineage), default=0)
        self.redactions.append(Redacted(hush, lineage, last))
        clone.holds.add(self.redactions[-1].mark)

    def check(self, clone: Clone) -> None:
        """What came here is here; what was taken out is not."""
        promised = {mark for mark in clone.holds if " " not in mark} - self.released
        missing = promised - clone.marks()
        assert not missing, f"{clone.name} has lost {sorted(missing)}"
        for one in self.redactions:
            if one.mark in clone.holds:
                left = [seq for name, seq, marks in clone.lines()
                        if name == one.lineage and 0 < seq <= one.seq and one.hush in marks]  # fmt: skip
                assert not left, f"{clone.name} took the redaction of {one}, and has it in {left}"

    # -- the end ---------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Git comes to rest, all exchange everything, what was redacted is redacted everywhere; then everything is checked."""
        for clone in self.clones:
            self.rest(clone)
        self.exchange_all()
        self.redact_all()
        for clone in self.clones:
            assert clone.git("checkout", "-q", "-f", "main"), clone.name
            self.look_in_the_end(clone)
        self.exchange_all()
        for clone in self.clones:
            self.look_in_the_end(clone)
        lineages = [clone.lineage for clone in self.clones]
        assert len(set(lineages)) == len(lineages), f"two clones write one lineage: {lineages}"
        self.check_stores()
        self.check_commands()

    def rest(self, clone: Clone) -> None:
        """Give up what git is in the middle of, and go to the newest commit: what a person edited is looked at before."""
        for what in ("merge", "rebase", "cherry-pick", "revert"):
            clone.git(what, "--abort") or clone.git(what, "--quit")
        assert not clone.is_in_the_middle()
        if clone.is_settled:
            self.call(clone, "status")
        assert clone.git("fetch", "-q", "origin")
        assert clone.git("checkout", "-q", "-f", "-B", "main", "origin/main")
        if not clone.is_settled:  # somebody pushed what takes the store away
            self.call(clone, "init", "--no-connect", codes=frozenset({0}))
            self.commit(clone)
            assert clone.git("push", "-q", "origin", "main")
        self.look_in_the_end(clone)
        mark = self.mark()
        done = self.call(clone, "remember", f"The end {mark}", "--type", "lesson", codes=frozenset({0}))
        self.acknowledge(clone, done, mark)

    def look_in_the_end(self, clone: Clone) -> None:
        """What cannot be taken in is removed, as the page on git says; then nothing is left."""
        for left in self.call(clone, "status").document["left"]:
            path = clone.folder / left["path"]
            if path.exists():
                path.unlink()
        said = self.call(clone, "status").document
        assert not said["waits"], said
        assert said["sound"], said

    def places(self, clone: Clone) -> list[str]:
        others = [one for one in self.clones if one is not clone and (one.lineage or one.is_settled)]
        return ["origin", "../stick", *(f"../{one.name}" for one in others)]

    def exchange_all(self) -> None:
        """Until nobody has anything new for anybody, and nothing is refused or waits. Who is told of a fork gives way."""
        for _ in range(9):
            moved, last = False, []
            for number, clone in enumerate(self.clones):
                for where in ("origin", "../stick", f"../{self.clones[number - 1].name}"):
                    done = self.exchange(clone, where)
                    if is_forked(done):
                        moved = True
                        done = self.exchange(clone, where, "--rebase")
                    moved |= any(one["records"] or one["objects"] for one in done.document.get("transfers", ()))
                    last.append(done)
            if not moved:
                break
        else:
            raise AssertionError("they do not come to an end with exchanging")
        for done in last:
            assert done.code == 0, done
            assert not done.document["waiting"], done

    def redact_all(self) -> None:
        """What one of them redacted, all of them do, as often as somebody has it, and what was parked goes.

        Nobody can take anything out of a lineage that nobody writes any more and nobody has the key of.
        """
        written = {clone.lineage for clone in self.clones}
        for clone in self.clones:
            written |= {path.name.partition(".")[0] for path in clone.root.glob("journal/keys/*.private*")}
        stay = {
            mark
            for clone in self.clones
            for lineage, _, marks in clone.lines()
            if lineage not in written
            for mark in marks
        }
        self.redactions = [one for one in self.redactions if one.hush not in stay]
        hushes = sorted({one.hush for one in self.redactions})
        for _ in range(4):
            held = [(clone, hush) for clone in self.clones for hush in hushes if hush in clone.marks()]
            if not held:
                break
            for clone, hush in held:
                self.redact(clone, hush)
            self.exchange_all()
        for clone in self.clones:
            shutil.rmtree(clone.root / "parked", ignore_errors=True)
            left = clone.marks() & set(hushes)
            assert not left, f"{clone.name} has what was redacted everywhere: {left}"

    def redact(self, clone: Clone, hush: str) -> Done:
        secret = self.home / "secret"
        secret.write_text(hush)
        self.release(hush)
        done = self.call(clone, "redact", "--secret-file", os.fspath(secret), "--reason", "pasted by mistake")
        self.redacted(clone, hush, done)
        return done

    def check_stores(self) -> None:
        """By the bytes, as the pages on the formats say: sound, alike, whole, without what was redacted."""
        reference = REFERENCE.read_text()
        for clone in self.clones:
            for place in clone.root.glob("journal/tree/*"):
                if not (place / "head").exists():  # whoever made it was killed, and nobody has needed it since
                    shutil.rmtree(place)
        stores = {clone.name: Store(clone.root, reference) for clone in self.clones}
        leaves: dict[str, list[bytes]] = {}
        files: dict[str, bytes] | None = None
        hushes = {one.hush.encode() for one in self.redactions}
        everything = set().union(*(clone.holds for clone in self.clones), *self.media.values())
        promised = {mark for mark in everything if " " not in mark} - self.released
        for clone in self.clones:
            store = stores[clone.name]
            problems = [one for one in store.problems() if not one.endswith(COUNT_FOR_NOTHING)]
            assert problems == [], f"{clone.name}: {problems}"
            for name, lineage in store.lineages.items():
                seqs = [record.seq for record in lineage.records]
                assert seqs == [*range(1, len(seqs) + 1)], f"{clone.name}: {name} has {seqs}"
                mine = leaves.setdefault(name, lineage.leaves)
                assert mine == lineage.leaves, f"{clone.name} has other records of {name}"
            assert store.lineages.keys() == leaves.keys(), clone.name
            held = {found for record in store.records if record.payload is not None
                    for found in _marks(json.dumps(record.payload).encode())}  # fmt: skip
            assert promised <= held, f"{clone.name} has lost {sorted(promised - held)}"
            versions = {record.version for record in store.records}
            assert self.versions.keys() <= versions, f"{clone.name} has lost versions"
            if files is None:
                files = clone.files()
            assert clone.files() == files, f"{clone.name} shows other files"
            for name, data in files.items():
                assert not any(mark in data for mark in CONFLICT_MARKS), name
            for path in [path for path in clone.root.rglob("*") if path.is_file()]:
                found = hushes & {mark.encode() for mark in _marks(path.read_bytes())}
                assert not found, f"{path} has what was redacted: {found}"
            for digest, data in clone.objects():
                assert not hushes & {mark.encode() for mark in _marks(data)}, f"{clone.name} {digest}"
            for path in (clone.root / "remotes").glob("*.git"):
                assert not hushes & _in_git(path, "--batch-all-objects"), f"{path} has what was redacted"
        for path in [path for path in self.stick.rglob("*") if path.is_file()]:
            assert not hushes & {mark.encode() for mark in _marks(path.read_bytes())}, f"{path} has what was redacted"

    def check_commands(self) -> None:
        """As the program says: sound, and the same from an index that is made anew."""
        shown: list[Any] = []
        for number, clone in enumerate(self.clones):
            done = self.call(clone, "doctor")
            told = [one for one in done.document["problems"] if one["severity"] != "note"]
            assert (done.code, told) == (0, []), done
            shown.append(self.state(clone))
            remove_index(clone.root)
            again = self.state(clone)
            assert again == shown[0], f"{clone.name}: from an index made anew"
            assert shown[number] == shown[0], f"{clone.name} shows something else"
            files = clone.files()
            for name in files:
                (clone.root / "entities" / name).unlink()
            self.call(clone, "status", codes=frozenset({0}))
            assert clone.files() == files, f"{clone.name}: files that are written anew"
        done = self.process(self.clones[-1], "doctor")
        assert done.code == 0, done

    def state(self, clone: Clone) -> list[Any]:
        from periplus.journal import Writer
        from periplus.project import Project

        with Project.open(os.fspath(clone.folder), Writer.named("reader")) as project:
            return entities_of(project.journal)


def entities_of(journal: Any) -> list[Any]:
    return sorted(
        (one.item_type, one.item_id, one.version, one.heads, one.rev, bytes(one.payload or b""), str(one.conflicts))
        for one in journal.entities()
    )


def is_forked(done: Done) -> bool:
    return done.code == 5 and "has forked" in done.out + done.err


def _in_git(repository: Path, which: str) -> set[bytes]:
    done = subprocess.run(
        ["git", "-C", os.fspath(repository), "cat-file", "--batch", which], capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return {found.encode() for found in _marks(done.stdout)}


Deed = Callable[[Team, Clone, random.Random], None]


def run_team(
    folder: Path, seed: str, deeds: dict[str, tuple[int, Deed]], steps: list[int], *, is_tracked: bool, is_apart: bool,
    seconds: float = 0.0,
) -> Team:  # fmt: skip
    """Let a team do ``steps``: each has a chance of its own, so that the others stay what they are where one is left out."""
    team = Team(folder, seed, is_tracked=is_tracked, is_apart=is_apart)
    names = [name for name, (weight, _) in deeds.items() for _ in range(weight)]
    until = time.monotonic() + (seconds or 1e9)
    done: list[str] = []
    try:
        team.begin()
        for clone in team.clones:
            team.check(clone)
        for number in steps:
            if time.monotonic() > until:
                break
            chance = random.Random(f"{seed} {number}")
            team.chance = random.Random(f"{seed} {number} bytes")
            team.step_number, team.made = number + 1, 0
            clone = team.clones[chance.randrange(64) % len(team.clones)]
            name = chance.choice(names)
            done.append(f"{number} {clone.name} {name}")
            deeds[name][1](team, clone, chance)
            for one in team.clones:
                team.check(one)
        team.step_number, team.made = 999, 0
        done.append("end")
        team.end()
    except BaseException as error:  # a stop of the file layer too; raised again
        sys.stderr.write("\n".join(team.told[-400:]) + "\n")
        raise AssertionError(f"team {seed}, tracked {is_tracked}, apart {is_apart}, after {done[-60:]}") from error
    return team


def shortest(fails: Callable[[list[int]], bool], steps: list[int]) -> list[int]:
    """The steps without those that the failure does not need; each piece is tried once."""
    size = max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            without = steps[:at] + steps[at + size :]
            if fails(without):
                steps = without
            else:
                at += size
        if size == 1:
            return steps
        size = max(1, size // 2)


def fresh(folder: Path) -> Path:
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
