"""``tour``: a demonstration on a real repository, in a scratch store, offline. Every line that it prints is computed."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import shutil
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, counted, visible

if TYPE_CHECKING:
    from periplus.journal import Entity
    from periplus.memory import Memory
    from periplus.project import Project

_SESSIONS_MAX: Final = 3
_SESSION_BYTES_MAX: Final = 20 << 20
_COMMITS_MAX: Final = 2_000
_LISTING_LINES: Final = 14


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "tour"
    parser.add_argument(
        "--repository", default=".", metavar="DIR", help="the repository whose history to use (default: this one)"
    )
    parser.add_argument(
        "--transcript", action="append", default=[], metavar="FILE", help="an agent's session (repeatable)"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the scratch store in this new folder")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import check_file
    from periplus.cli.common.schemas import TourOut

    repository = os.path.join(face.cwd, arguments.repository)
    if not os.path.isdir(repository):
        raise UsageError(
            f"{repository} is not a folder", safe="Nothing was changed.", mend="Name one with --repository."
        )
    for name in arguments.transcript:
        check_file(os.path.join(face.cwd, name))
    if arguments.keep is not None:
        scratch = os.path.join(face.cwd, arguments.keep)
        if os.path.exists(scratch):
            raise UsageError(f"{scratch} exists already", safe="Nothing was changed.", mend="Name a new folder.")
        os.makedirs(scratch)
    else:
        scratch = tempfile.mkdtemp(prefix="periplus-tour-")
    begun = time.monotonic()
    try:
        tour = _Tour(face, scratch)
        code = tour.run(repository, arguments.transcript)
        seconds = time.monotonic() - begun
        tour.say("")
        kept = f" The store is kept: cd {scratch}" if arguments.keep else " The scratch store was removed."
        tour.say(f"Done in {seconds:.1f} s.{kept}")
        tour.say("In your project: periplus init")
        if face.as_json:
            face.emit(TourOut(os.path.join(scratch, ".periplus"), round(seconds, 3), tour.facts), list)
    finally:
        if arguments.keep is None:
            shutil.rmtree(scratch, ignore_errors=True)
    return code


class _Change(NamedTuple):
    """Facts about the git history: the file that changes most, and the largest commit."""

    path: str
    commits: int
    last_step: int
    largest_subject: str
    largest_files: int
    largest_step: int
    total: int


class _Tour:
    def __init__(self, face: Face, scratch: str) -> None:
        self._face = face
        self._scratch = scratch
        self._number = 0
        self.facts: dict[str, Any] = {}
        self.ok = True
        self.task = "write down what the project decided"

    # -- output ------------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        if not self._face.as_json:
            self._face.out(text)
            self._face.stdout.flush()

    def tell(self, text: str) -> None:
        """Print a line from the store or from foreign records."""
        self.say("   " + visible(text, self._face.width - 3 if self._face.width else None))

    def title(self, text: str) -> None:
        self._number += 1
        paint = self._face.palette
        self.say("")
        self.say(f"{paint.bold}{self._number}. {text}{paint.end}")

    # -- the steps ---------------------------------------------------------------------------------------------------

    def run(self, repository: str, transcripts: list[str]) -> int:
        from periplus.project import Project

        Project.init(self._scratch)
        self.say("Periplus: the memory and the logbook of coding agents. Everything below is real output.")
        with Project.open(self._scratch, self._face.writer(), store=self._scratch) as project:
            self._import(project, repository, transcripts)
            trails = list(project.trails())
            if trails:
                self._list(project, trails)
                self._verify(project, trails)
            self._remember(project, trails)
            self._brief(project)
            self._tamper(project)
            self._prove(project)
        self._code(repository)
        self._agent()
        self._dispatch()
        return 0 if self.ok else 1

    def _import(self, project: Project, repository: str, transcripts: list[str]) -> None:
        from periplus.base.errors import PeriplusError

        self.title("A store is created, and real work is imported")
        begun = time.monotonic()
        try:
            imported = project.import_git(repository, commits_max=_COMMITS_MAX)
            self._announced(imported.entity, "git history")
        except PeriplusError as error:
            self.tell(f"no git history here: {error}")
        for path in [os.path.join(self._face.cwd, name) for name in transcripts] or self._sessions(repository):
            try:
                imported = project.import_transcript(path)
                self._announced(imported.entity, os.path.basename(path))
            except PeriplusError as error:
                if transcripts:
                    raise
                self.tell(f"skipped {os.path.basename(path)}: {error}")
        self.facts["import"] = {
            "seconds": round(time.monotonic() - begun, 3),
            "trails": [{"id": t.item_id, "counts": t.value.get("counts")} for t in project.trails()],
        }
        if not self.facts["import"]["trails"]:
            self.tell("Nothing to import: run the tour in a git repository, or give --transcript FILE.")

    def _sessions(self, repository: str) -> list[str]:
        """Choose sessions: those of this repository first, else the newest; small ones, to keep the tour short."""
        from periplus.interop import find_sessions

        found = [session for session in find_sessions(self._face.home) if session.size <= _SESSION_BYTES_MAX]
        here = os.path.realpath(repository)
        mine = [s for s in found if s.cwd is not None and os.path.realpath(s.cwd).startswith(here)]
        if not found:
            self.tell("no agent session was found on this machine: give one with --transcript FILE")
        return [session.path for session in (mine or found)[:_SESSIONS_MAX]]

    def _announced(self, trail: Entity, source: str) -> None:
        value = trail.value
        counts = value.get("counts")
        said = (
            ", ".join(counted(count, name) for name, count in counts.items() if count and isinstance(count, int))
            if isinstance(counts, dict)
            else ""
        )
        self.tell(f"{source} → {trail.item_id}: {said}")
        if value.get("masked"):
            self.tell(f"{value['masked']} secrets were masked")

    def _list(self, project: Project, trails: list[Entity]) -> None:
        from itertools import islice

        from periplus.trail import TrailReader, listing

        chosen = next((trail for trail in trails if trail.value.get("format") != "git"), trails[0])
        self.title(f"A trail is a program; this is how {chosen.item_id} begins")
        reader = TrailReader(project.trail_bytes(chosen.item_id).data)
        width = (self._face.width or 110) - 3
        for line in islice(
            listing(reader, "compact", width=width, colour=bool(self._face.palette.bold)), _LISTING_LINES
        ):
            self.say("   " + line)
        self.facts["listing"] = {"trail": chosen.item_id, "steps": reader.step_count, "digest": reader.digest.hex()}

    def _verify(self, project: Project, trails: list[Entity]) -> None:
        from periplus.trail import verify

        self.title("Every trail is verified: framing, strings, tree, receipts, digest, objects")
        results = {}
        for trail in trails:
            report = verify(project.trail_bytes(trail.item_id).data, store=project.journal.objects)
            self.ok &= report.ok
            results[trail.item_id] = report.ok
            self.tell(f"{trail.item_id} {'verified' if report.ok else 'WRONG'}: {report.summary}")
        self.facts["verify"] = results

    def _remember(self, project: Project, trails: list[Entity]) -> None:

        self.title("Two facts are remembered with evidence, and found by questions in other words")
        history = next((trail for trail in trails if trail.value.get("format") == "git"), None)
        pairs: list[tuple[Memory, str]]
        change = _read_history(project, history) if history is not None else None
        if history is not None and change is not None:
            pairs = _history_memories(history, change)
            self.task = f"rework {change.path}"
        else:
            pairs = _bare_memories(trails)
        facts = []
        for memory, question in pairs:
            done = project.remember(memory)
            self.tell(f"remember: {memory.text}")
            self.tell(
                f"          as {done.entity.item_id}, evidence {'; '.join(f'{kind} {ref}' for kind, ref in memory.evidence)}"
            )
            found = project.recall(question, limit=3)
            first = found.hits[0] if found.hits else None
            is_found = first is not None and first.item_id == done.entity.item_id
            self.ok &= is_found
            self.tell(f"recall:   “{question}”")
            if first is not None:
                self.tell(
                    f"          → {first.item_id}, because it {'; '.join(first.why)}"
                    + ("" if is_found else " (another hit)")
                )
            facts.append({"id": done.entity.item_id, "question": question, "found_first": is_found})
        self.facts["memory"] = facts

    def _brief(self, project: Project) -> None:
        budget = 500
        self.title(f"A brief for a task, within {budget} tokens")
        found = project.brief(self.task, budget_tokens=budget)
        for line in found.text.rstrip().split("\n"):
            self.tell(line)
        self.tell(f"({found.tokens} of {found.budget} tokens; {found.left_out} lines left out)")
        self.facts["brief"] = {"tokens": found.tokens, "budget": found.budget, "left_out": found.left_out}

    def _tamper(self, project: Project) -> None:
        from periplus.project import Project as Opened

        self.title("One byte of one record is changed in a copy of the store; doctor finds it")
        copy = os.path.join(self._scratch, "tampered")
        shutil.copytree(project.root, os.path.join(copy, ".periplus"))
        record = project.log(limit=2).records[-1]
        path = os.path.join(
            copy,
            os.path.relpath(project.journal.reader(project.journal.lineage).path_of(record.segment), self._scratch),
        )
        with open(path, "r+b") as file:
            file.seek(record.offset + record.length // 2)
            byte = file.read(1)
            file.seek(record.offset + record.length // 2)
            file.write(bytes((byte[0] ^ 1,)))
        self.tell(f"byte {record.offset + record.length // 2:,} of record {record.seq} ({record.summary[:60]})")
        with Opened.open(copy, self._face.writer(), store=copy) as damaged:
            errors = [problem for problem in damaged.examine().problems if problem.severity == "error"]
        for problem in errors[:2]:
            self.tell(f"doctor: {problem.what} (byte {problem.offset:,}, seq {problem.seq})")
        sound = project.examine()
        self.tell(
            f"the store itself: {'sound' if sound.exit_code == 0 else 'NOT sound'}, {sound.counts['records']} records"
        )
        self.ok &= any(problem.seq == record.seq for problem in errors) and sound.exit_code == 0
        self.facts["tamper"] = {
            "seq": record.seq,
            "found": [problem.what for problem in errors],
            "original": sound.exit_code,
        }

    def _prove(self, project: Project) -> None:
        from periplus.journal.proofs.proof_file import verify_proof

        self.title("A proof of one record, checked without the store")
        record = project.log(limit=1).records[0]
        data = project.prove(record.seq)
        key = project.public_key()
        path = os.path.join(self._scratch, f"record-{record.seq}.proof")
        with open(path, "wb") as file:
            file.write(data)
        verdict = verify_proof(data, key=key)
        self.tell(
            f"{os.path.basename(path)}: {len(data):,} bytes; with the store's key: {'holds' if verdict.holds else verdict.reason}"
        )
        forged = bytearray(data)
        place = data.index(b'"summary"')
        forged[place + 12] ^= 1
        refused = verify_proof(bytes(forged), key=key)
        self.tell(f"the same with one bit changed: {'HOLDS' if refused.holds else 'does not hold'} ({refused.reason})")
        self.ok &= verdict.holds and not refused.holds
        self.facts["proof"] = {
            "seq": record.seq,
            "bytes": len(data),
            "holds": verdict.holds,
            "forged_holds": refused.holds,
        }

    def _code(self, repository: str) -> None:
        from periplus.cli.tour.code_survey import survey

        self.title("The code is mapped: what most of it uses, what a change of that reaches, the tests to run")
        self.facts["code"] = survey(self._face, repository, os.path.join(self._scratch, "code.sqlite"), self.tell)

    def _agent(self) -> None:
        from periplus.cli.tour.agent_run import mend

        self.title("An agent fixes a bug, and its trail is compared with the files")
        found = mend(self._face, os.path.join(self._scratch, "slugs"), self.tell)
        self.ok &= found["ok"] is not False
        self.facts["agent"] = found

    def _dispatch(self) -> None:
        from periplus.cli.tour.dispatched_work import dispatched

        self.title("Two agents do a plan of three steps: a test fails, an agent crashes, two changes conflict")
        found = dispatched(self._face, os.path.join(self._scratch, "fleet", "slugs"), self.tell)
        self.ok &= found["ok"] is not False
        self.facts["dispatch"] = found


def _read_history(project: Project, history: Entity) -> _Change | None:
    from periplus.trail import BY_CODE, TrailReader

    changes: Counter[str] = Counter()
    last: dict[str, int] = {}
    files: list[str] = []
    largest = ("", 0, 0)
    total = 0
    for index, step in enumerate(TrailReader(project.trail_bytes(history.item_id).data).steps()):
        opcode = BY_CODE.get(step.code)
        name = opcode.name if opcode is not None else ""
        if name.startswith("FILE_"):
            files.append(str(step.operands[-1] if name == "FILE_MOVE" else step.operands[0]))
        elif name == "GIT_COMMIT":
            total += 1
            for path in files:
                changes[path] += 1
                last[path] = index
            if len(files) > largest[1]:
                largest = (str(step.operands[1]).split("\n")[0], len(files), index)
            files = []
    if not changes:
        return None
    path, count = max(changes.items(), key=lambda item: (item[1], item[0]))
    return _Change(path, count, last[path], *largest, total)


def _history_memories(history: Entity, change: _Change) -> list[tuple[Memory, str]]:
    from periplus.memory import Memory

    often = Memory(
        "lesson",
        f"{change.path} is the file that changes most often here: {change.commits} of {change.total} commits touch it.",
        about=(change.path,),
        evidence=(("step", f"{history.item_id}#{change.last_step}"),),
        provenance=("reflection", "tour"),
    )
    large = Memory(
        "trap",
        f"The largest commit so far touched {change.largest_files} files at once (“{change.largest_subject[:100]}”); "
        "work of that size is hard to review.",
        evidence=(("step", f"{history.item_id}#{change.largest_step}"),),
        extra={"severity": "low", "remedy": "Split it into commits that each stand alone."},
        provenance=("reflection", "tour"),
    )
    return [(often, "which file gets changed the most?"), (large, "are big commits a problem when reviewing?")]


def _bare_memories(trails: list[Entity]) -> list[tuple[Memory, str]]:
    from periplus.memory import Memory

    evidence = tuple(("step", f"{trail.item_id}#0") for trail in trails[:1]) or (("record", "1"),)
    first = Memory("decision", "Notes about this project are kept in its Periplus store.", evidence=evidence,
                   extra={"rationale": "They survive the session that wrote them."})  # fmt: skip
    second = Memory(
        "constraint", "Never edit the journal by hand: its checksums would no longer hold.", evidence=evidence
    )
    return [
        (first, "where does the project keep what it noted?"),
        (second, "may I change the journal with an editor by hand?"),
    ]
