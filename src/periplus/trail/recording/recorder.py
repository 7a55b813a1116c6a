"""The recorder of runs: each step is a durable record of the journal before it is acknowledged.

Theory of operation
-------------------
A run is an entity of type ``run``; its steps are observations of that entity, so a step costs one record and the entity
changes only when the run begins, ends and is sealed::

    open ──end(status)──> ended ──seal──> sealed

The state of the entity, read under the writers' lock, decides whether a step may still be added: no step of a run
follows the record that ended it. So the steps of an ended run are settled, and the trail is a function of the records
alone: sealing after a crash, or again on another machine, gives the same bytes. For that reason the record that began
the run holds the 32 random bytes of the trail's secret.

Any process may add a step to a run, also concurrently; the journal determines the order. A run belongs to the lineage
that began it, because records of two lineages have no order.

Observers act on the meaning of a step beyond the trail (a message, a change of trust): each receives the step under the
lock and writes in the same batch, so either both are written or neither. Imported steps do not pass through here.
"""

from __future__ import annotations

__all__ = [
    "RUN_TYPE",
    "Acknowledged",
    "Announce",
    "Ended",
    "Observed",
    "Observer",
    "Recorder",
    "Run",
    "RunFacts",
    "run_of",
]

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from periplus.base.clock import format_ms, parse_ms
from periplus.base.encoding.canonical import JSONValue, canonical
from periplus.base.errors import ConflictError, DamageError, NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.process.process_marks import ProcessMark
from periplus.journal import ABSENT, Entity, Journal, Receipt, Transaction, Writer
from periplus.journal.checkpoints.partial_history import need_records
from periplus.journal.records.record import Record, record_of
from periplus.journal.storage.lineage import START, Position
from periplus.trail.format.builder import TrailBuilder
from periplus.trail.format.layout import SECRET_BYTES, STEPS_MAX
from periplus.trail.format.reader import TrailReader
from periplus.trail.model import STATUSES, TOOL_VERSION, Digest, DigestAlgorithm, Header, Status, Step
from periplus.trail.recording.live_step import LiveStep, StepMaker, payload_of, step_of_payload

RUN_TYPE: Final = "run"
_KEY_BYTES: Final = 16
_LINES_AT_ONCE: Final = 1000
_REDACTED: Final = "the record of this step was redacted"


class RunFacts(NamedTuple):
    """Facts of a run that are known when it begins. Texts need not be masked yet."""

    agent: str
    title: str = ""
    model: str = ""
    host: str = ""
    cwd: str = ""
    base: Digest | None = None
    parents: tuple[bytes, ...] = ()


class Run(NamedTuple):
    """A run as its entity describes it; ``trail`` is the id of the trail's entity and ``digest`` its digest, once it is
    sealed.

    ``process`` is the process that carries the run; None if only silence shows that the run was abandoned. ``format``,
    ``agent_id`` and ``transcript`` belong to a run whose steps come from hooks; see ``memory.schemas``.
    """

    id: str
    state: str
    facts: RunFacts
    tool_version: str
    secret: bytes
    started_ms: int
    lineage: str
    first_seq: int
    process: ProcessMark | None
    status: Status
    trail: str
    digest: str
    session: str
    format: str = ""
    agent_id: str = ""
    transcript: str = ""


class Acknowledged(NamedTuple):
    """A durable step: the ``seq`` of its record, its ``place`` in the run. ``is_repeated``: the key had already written
    it.
    """

    seq: int
    place: int
    is_repeated: bool


class Observed(NamedTuple):
    """A step that took effect, as passed to observers."""

    run: Run
    place: int
    step: Step
    at_ms: int
    now_ms: int
    lineage: str


Observer: TypeAlias = Callable[[Transaction, Observed], None]


class Ended(NamedTuple):
    """The trail of an ended run, before it is announced; ``ended_ms`` is the time of its last step."""

    run: Run
    data: bytes
    steps: tuple[Step, ...]
    ended_ms: int


Announce: TypeAlias = Callable[[Ended], tuple[str, Callable[[Transaction], None]]]


class _Place(NamedTuple):
    """The position up to which the steps of a run were counted."""

    position: Position
    step_count: int


class Recorder:
    """Record runs in ``journal``. ``observers`` are keyed by the code of the step; ``announce`` stores a finished trail
    and returns the id of its entity, with the function that writes that entity when the run is sealed.
    """

    def __init__(
        self,
        journal: Journal,
        writer: Writer,
        maker: StepMaker,
        announce: Announce,
        observers: Mapping[int, Observer] | None = None,
    ) -> None:
        self._journal = journal
        self._writer = writer
        self._maker = maker
        self._announce = announce
        self._observers = dict(observers or {})
        self._places: dict[str, _Place] = {}

    # -- life cycle of a run -------------------------------------------------------------------------------------------

    def begin(self, facts: RunFacts, process: ProcessMark | None = None) -> Run:
        """Begin a run. If one process carries the run, pass it as ``process``: when it ends, the run counts as
        unfinished.
        """
        journal = self._journal
        item_id = new_id("run", journal.random(10))
        payload = self._opened(facts, process)

        def write(transaction: Transaction) -> None:
            payload["lineage"] = journal.lineage
            payload["first_seq"] = journal.end().next_seq
            transaction.put(RUN_TYPE, item_id, payload, expect=ABSENT, summary=f"run: {payload['title'] or item_id}")

        journal.mutate(write, self._writer, project=False)
        return self.run(item_id)

    def step(self, run_id: str, live: LiveStep, *, key: str = "") -> Acknowledged:
        """Add a step; it is durable when this returns. If the run has already seen ``key``, nothing is written.

        Raises RefusedError for a run that has ended, NotFoundError, ConflictError for a key that was used for another
        step, and what ``Journal.mutate`` raises; the step is not acknowledged then.
        """
        journal = self._journal
        payload = payload_of(live)
        if run_id not in self._places:
            self._count(run_id, self.run(run_id))  # counts what is written so far, outside the lock
        index = -1

        def write(transaction: Transaction) -> None:
            nonlocal index
            index = self._write_step(transaction, run_id, live, payload, 0)

        try:
            made_ms = self.run(run_id).started_ms if key and journal.index.has_floors else None
            receipt = journal.mutate(write, self._writer, key=_journal_key(run_id, key), key_ms=made_ms, project=False)
        except BaseException:  # for any reason: the records counted may never be written
            self._places.pop(run_id, None)  # count again from the durable records
            raise
        if receipt.repeated:
            return Acknowledged(receipt.first_seq, self._repeated(run_id, receipt, payload, key), is_repeated=True)
        return Acknowledged(receipt.first_seq, index, is_repeated=False)

    def steps_beside(self, run_id: str, lives: Sequence[LiveStep], beside: Callable[[Transaction], None]) -> None:
        """Add steps together with what ``beside`` writes, in one batch. Raises like ``step``."""
        payloads = [payload_of(live) for live in lives]
        if run_id not in self._places:
            self._count(run_id, self.run(run_id))

        def write(transaction: Transaction) -> None:
            beside(transaction)
            for behind, (live, payload) in enumerate(zip(lives, payloads, strict=True)):
                self._write_step(transaction, run_id, live, payload, behind)

        try:
            self._journal.mutate(write, self._writer, project=False)
        except BaseException:  # as in ``step``
            self._places.pop(run_id, None)
            raise

    def end(self, run_id: str, status: Status) -> Run:
        """End the run for further steps. A run that has ended keeps its status."""
        if status not in STATUSES:
            raise UsageError(f"unknown status {status!r}", mend=f"One of: {', '.join(STATUSES)}.")
        self._refuse_foreign(self.run(run_id))

        def write(transaction: Transaction) -> None:
            held = _held(transaction, run_id)
            if held.value.get("state") == "open":
                self._refuse_foreign(run_of(held))
                payload = {**held.value, "state": "ended", "status": status}
                payload.pop("process", None)
                transaction.put(RUN_TYPE, run_id, payload, action="transition", summary=f"run ended: {status}")

        self._journal.mutate(write, self._writer, project=False)
        return self.run(run_id)

    def seal(self, run_id: str, status: Status = "success") -> tuple[Run, bool]:
        """End the run if it has not ended, and make its trail; return ``(run, whether anything was written)``."""
        run = self.run(run_id)
        if run.state == "sealed":
            return run, False
        run = self.end(run_id, status)
        if run.state == "sealed":
            return run, False
        ended = self._ended(run)
        trail_id, write_trail = self._announce(ended)
        digest = TrailReader(ended.data).digest.hex()

        def write(transaction: Transaction) -> None:
            held = _held(transaction, run_id)
            if held.value.get("state") == "sealed":
                return
            write_trail(transaction)
            payload = {**held.value, "state": "sealed", "trail": trail_id, "digest": digest}
            payload.pop("secret", None)  # the trail has it
            transaction.put(RUN_TYPE, run_id, payload, action="transition", summary=f"run sealed: {run.status}")

        receipt = self._journal.mutate(write, self._writer)
        self._places.pop(run_id, None)
        return self.run(run_id), bool(receipt.record_count)

    def detach(self, run_id: str) -> None:
        """Detach the run from its process, so that it goes on when the process ends."""

        def write(transaction: Transaction) -> None:
            held = _held(transaction, run_id)
            if held.value.get("state") == "open" and "process" in held.value:
                payload = {name: value for name, value in held.value.items() if name != "process"}
                transaction.put(RUN_TYPE, run_id, payload, summary="run goes on without its process")

        self._journal.mutate(write, self._writer, project=False)

    # -- reading -------------------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> Run:
        self._journal.refresh()
        entity = self._journal.get(RUN_TYPE, run_id)
        if entity is None:
            raise _no_run(run_id)
        return run_of(entity)

    def steps(self, run: Run) -> Iterator[LiveStep]:
        """Yield the written steps of a run in their order. Raises DamageError."""
        for record in self._records(run):
            yield self._live(record)

    def so_far(self, run: Run, put: Callable[[bytes], bytes]) -> bytes:
        """Return the trail of the steps that a run has by now. Nothing is written: its long texts go to ``put``."""
        return self._built(run, put).data

    def last_ms(self, run: Run) -> int:
        """Return the time at which the last step of the run was written."""
        journal = self._journal
        journal.refresh()
        ts = self._last_ts(run)
        if not ts and journal.index.has_floors:  # it is older than the checkpoint from which the index was made
            need_records(journal, run.lineage, run.first_seq)
            ts = self._last_ts(run)
        last = max(run.started_ms, parse_ms(ts) or 0)
        for record in self._behind_index(run):
            last = max(last, parse_ms(record.ts) or 0)
        return last

    def count(self, run: Run) -> int:
        """Return the number of steps that the run has so far."""
        self._journal.refresh()
        return self._count(run.id, run)

    # -- internals -----------------------------------------------------------------------------------------------------

    def _last_ts(self, run: Run) -> str:
        """Return the last time that the index has of the run, or an empty text."""
        where = "item_type = ? AND item_id = ? AND lineage = ?"
        found = self._journal.index.db.execute(
            f"SELECT MAX(ts) FROM records WHERE {where}",  # noqa: S608 - a constant
            (RUN_TYPE, run.id, run.lineage),
        )
        return str(found.fetchone()[0] or "")

    def _write_step(
        self, transaction: Transaction, run_id: str, live: LiveStep, payload: dict[str, JSONValue], behind: int
    ) -> int:
        """Write a step under the lock, after ``behind`` others of the same batch; return its index."""
        journal = self._journal
        run = self._open_run(transaction, run_id)
        index = self._count(run_id, run) + behind
        if index >= STEPS_MAX:
            raise UsageError(f"run {run_id} has {index:,} steps; no trail holds more", safe="They are durable.",
                             mend=f"End it with `periplus trail seal {run_id}`.")  # fmt: skip
        transaction.observe({**payload, "index": index}, item_type=RUN_TYPE, item_id=run_id)
        observer = self._observers.get(live.step.code)
        if observer is not None and live.step.outcome == "ok":
            now_ms = journal.clock.now_ms()
            observer(transaction, Observed(run, index, live.step, live.at_ms, now_ms, journal.lineage))
        return index

    def _opened(self, facts: RunFacts, process: ProcessMark | None) -> dict[str, JSONValue]:
        texts = {name: self._line(value) for name, value in facts._asdict().items() if isinstance(value, str)}
        payload: dict[str, JSONValue] = {
            "v": 1,
            "state": "open",
            **texts,
            "tool_version": TOOL_VERSION,
            "secret": self._journal.random(SECRET_BYTES).hex(),
            "started": format_ms(self._journal.clock.now_ms()),
        }
        if facts.base is not None:
            payload["base"] = f"{facts.base.algorithm}:{facts.base.value.hex()}"
        if facts.parents:
            payload["parents"] = [parent.hex() for parent in facts.parents]
        if process is not None:
            payload["process"] = process._asdict()
        if self._writer.session:
            payload["session"] = self._writer.session
        return payload

    def _line(self, text: str) -> str:
        found = self._maker.text(" ".join(text.split())[:1000])
        assert isinstance(found, str), "a thousand characters are kept inline"
        return found

    def _open_run(self, transaction: Transaction, run_id: str) -> Run:
        run = run_of(_held(transaction, run_id))
        if run.state != "open":
            raise RefusedError(f"run {run_id} has ended ({run.status})", safe="Its steps are durable; this one was not recorded.",
                               mend="Begin another with `periplus trail record`.")  # fmt: skip
        self._refuse_foreign(run)
        return run

    def _refuse_foreign(self, run: Run) -> None:
        own = self._journal.own
        if run.state == "open" and self._journal.lineage and run.lineage != self._journal.lineage:
            previous = own.previous if own is not None else ""
            if run.lineage != previous:
                raise RefusedError(f"run {run.id} belongs to another clone of this store", safe="Nothing was written.",
                                   mend="Continue and seal it there.")  # fmt: skip

    def _count(self, run_id: str, run: Run) -> int:
        """Count the steps of the run in the read part of its lineage; exact under the lock."""
        journal = self._journal
        held = self._places.get(run_id)
        end = journal.end(run.lineage)
        if held is None or held.position.next_seq > end.next_seq:
            held = self._indexed(run)
        if held.position.next_seq < end.next_seq:
            count = held.step_count
            for chunk in journal.reader(run.lineage).read_from(held.position):
                if held.position.segment < chunk.segment < held.position.next_seq:
                    held = self._indexed(run)  # a later segment replaced the part that had been read
                    return self._counted_from(run_id, run, held)
                count += sum(
                    _is_step(entry.record, run_id) for entry in chunk.entries if entry.record.seq < end.next_seq
                )
            held = _Place(end, count)
        self._places[run_id] = held
        return held.step_count

    def _counted_from(self, run_id: str, run: Run, held: _Place) -> int:
        end = self._journal.end(run.lineage)
        count = held.step_count
        for chunk in self._journal.reader(run.lineage).read_from(held.position):
            count += sum(_is_step(entry.record, run_id) for entry in chunk.entries if entry.record.seq < end.next_seq)
        self._places[run_id] = _Place(end, count)
        return count

    def _indexed(self, run: Run) -> _Place:
        """Return the count from the index, which holds only durable records."""
        journal = self._journal
        need_records(journal, run.lineage, run.first_seq)
        position = journal.index.watermarks().get(run.lineage, START)
        where = "item_type = ? AND item_id = ? AND action = 'observe' AND lineage = ?"
        row = journal.index.db.execute(f"SELECT COUNT(*) FROM records WHERE {where}", (RUN_TYPE, run.id, run.lineage))  # noqa: S608 - a constant
        return _Place(position, int(row.fetchone()[0]))

    def _repeated(self, run_id: str, receipt: Receipt, payload: dict[str, JSONValue], key: str) -> int:
        """Return the index of the step that was written with the key. Raises ConflictError if it is another step."""
        for record in self._records(self.run(run_id)):
            if record.seq == receipt.first_seq:
                held = self._payload(record)
                index = cast("int", held.pop("index", 0))
                same = {name: value for name, value in held.items() if name != "at_ms"}
                if canonical(same) == canonical({name: value for name, value in payload.items() if name != "at_ms"}):
                    return index
        raise ConflictError(f"the key {key!r} was used for another step (record {receipt.first_seq})",
                            safe="Nothing was written.", mend="Give this step a key of its own.")  # fmt: skip

    def _records(self, run: Run) -> Iterator[Record]:
        """Yield the records of the run's steps in their order: those in the index, then the later ones."""
        journal = self._journal
        journal.project()
        need_records(journal, run.lineage, run.first_seq)
        if journal.damage is not None:
            raise journal.damage
        where = "item_type = ? AND item_id = ? AND action = 'observe' AND lineage = ? AND seq >= ? ORDER BY seq"
        seq = run.first_seq
        while rows := journal.index.records(where, (RUN_TYPE, run.id, run.lineage, seq), _LINES_AT_ONCE):
            for row in rows:
                yield record_of(journal.line_at(row))
            seq = rows[-1].seq + 1
        for record in self._behind_index(run):
            if record.seq >= seq:
                yield record

    def _behind_index(self, run: Run) -> Iterator[Record]:
        position = self._journal.index.watermarks().get(run.lineage, START)
        for chunk in self._journal.reader(run.lineage).read_from(position):
            for entry in chunk.entries:
                if _is_step(entry.record, run.id):
                    yield entry.record

    def _payload(self, record: Record) -> dict[str, JSONValue]:
        import msgspec
        import orjson

        if record.payload_ref is not None:
            data = self._journal.load_object(record.payload_ref.sha256)
        elif isinstance(record.payload, msgspec.UnsetType):
            return {}
        else:
            data = bytes(record.payload)
        found = orjson.loads(data)
        return found if isinstance(found, dict) else {}

    def _live(self, record: Record) -> LiveStep:
        if record.is_stub:
            return LiveStep(Step(0x9F, (), "unknown", note=_REDACTED), parse_ms(record.ts) or 0)
        try:
            return step_of_payload(self._payload(record))
        except DamageError as error:
            error.seq = record.seq
            raise

    def _ended(self, run: Run) -> Ended:
        """Return the trail of an ended run, computed from its records alone."""
        return self._built(run, self._journal.objects.put)

    def _built(self, run: Run, put: Callable[[bytes], bytes]) -> Ended:
        facts = run.facts
        builder = TrailBuilder(run.secret, put)
        steps: list[Step] = []
        ended_ms = run.started_ms
        for live in self.steps(run):
            live.add_to(builder)
            steps.append(live.step)
            ended_ms = max(ended_ms, live.at_ms + (live.step.duration_ms or 0))
        header = Header(
            agent=facts.agent,
            trail_id=run.id,
            tool_version=run.tool_version,
            base=facts.base,
            model=facts.model or None,
            host=facts.host or None,
            title=facts.title or None,
            parents=tuple(Digest("sha256", parent) for parent in facts.parents),
            started_ms=run.started_ms,
        )
        return Ended(run, builder.seal(header, run.status, run.started_ms), tuple(steps), ended_ms)


def run_of(entity: Entity) -> Run:
    """Return the run of an entity of type ``run``. Raises DamageError for a malformed one."""
    value = entity.value
    try:
        base = str(value.get("base", ""))
        algorithm, _, digits = base.partition(":")
        parents = tuple(bytes.fromhex(str(one)) for one in cast("list[JSONValue]", value.get("parents", [])))
        process = value.get("process")
        text = {name: str(value.get(name, "")) for name in ("agent", "title", "model", "host", "cwd")}
        facts = RunFacts(
            **text,
            base=Digest(cast("DigestAlgorithm", algorithm), bytes.fromhex(digits)) if base else None,
            parents=parents,
        )
        return Run(
            entity.item_id,
            str(value["state"]),
            facts,
            str(value.get("tool_version", TOOL_VERSION)),
            bytes.fromhex(str(value.get("secret", ""))),
            parse_ms(str(value["started"])) or 0,
            str(value["lineage"]),
            cast("int", value["first_seq"]),
            ProcessMark(**process) if isinstance(process, dict) else None,  # type: ignore[arg-type]  # checked by the type's schema
            cast("Status", value.get("status", "partial")),
            str(value.get("trail", "")),
            str(value.get("digest", "")),
            *(str(value.get(name, "")) for name in ("session", "format", "agent_id", "transcript")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamageError(f"{entity.item_id} is not a run: {error}", safe="Other records are untouched.",
                          mend="Run `periplus doctor`.") from error  # fmt: skip


def _held(transaction: Transaction, run_id: str) -> Entity:
    held = transaction.get(RUN_TYPE, run_id)
    if held is None or held.deleted:
        raise _no_run(run_id)
    return held


def _no_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run {run_id}", mend="See `periplus trail list`.")


def _is_step(record: Record, run_id: str) -> bool:
    return record.item_id == run_id and record.action == "observe" and record.item_type == RUN_TYPE


def _journal_key(run_id: str, key: str) -> str:
    """Return the key of a step for the journal, which differs between runs for any key of the agent."""
    return f"{run_id}.{hashlib.sha256(key.encode()).hexdigest()[: 2 * _KEY_BYTES]}" if key else ""
