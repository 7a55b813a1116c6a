"""Stored episodes of a session, read from the journal by the session itself and by observers."""

from __future__ import annotations

__all__ = ["SESSION_TYPE", "EpisodeFeed", "StoredEpisodes", "turn_of"]

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.agent.episodes import Episode
from periplus.agent.persistence.episode_codec import decode_episode
from periplus.base.errors import DamageError
from periplus.journal.checkpoints.partial_history import fill_history_if_present, need_records
from periplus.journal.records.record import Record, record_of
from periplus.journal.storage.lineage import START
from periplus.memory.claim_status import session_id

if TYPE_CHECKING:
    from periplus.project import Project

SESSION_TYPE: Final = "session"
_LINES_AT_ONCE: Final = 500


class StoredEpisodes:
    """The episodes of session ``name`` in this clone's own lineage. Read only."""

    def __init__(self, project: Project, name: str) -> None:
        self._project = project
        self._name = name
        self.item_id = session_id(name)

    def read(self) -> Iterator[Episode]:
        """Yield all episodes, in order. Raises DamageError."""
        return map(self.episode, self.records(0))

    def read_turn(self, turn: int) -> Sequence[Episode]:
        """Read the episodes of one turn without reading those before it."""
        found: list[Episode] = []
        for record in self.records(self._first_seq_of(turn)):
            episode = self.episode(record)
            if episode.turn > turn:
                break
            if episode.turn == turn:
                found.append(episode)
        return found

    def episode(self, record: Record) -> Episode:
        """Decode the episode of a record. Raises DamageError."""
        import orjson

        journal = self._project.journal
        if record.is_stub:
            raise DamageError("the record of a step of the session was redacted", seq=record.seq,
                              safe="Other records are untouched.", mend="Begin another session.")  # fmt: skip
        try:
            if record.payload_ref is not None:
                data = journal.load_object(record.payload_ref.sha256)
            else:
                data = bytes(record.payload)  # type: ignore[arg-type]  # an observation has a payload
            return decode_episode(orjson.loads(data))
        except DamageError as error:
            error.seq = record.seq
            raise

    def records(self, seq: int) -> Iterator[Record]:
        """Yield the records from ``seq`` on: those in the index, then the later ones."""
        self._prepare()
        journal = self._project.journal
        if journal.damage is not None:
            raise journal.damage
        where = "item_type = ? AND item_id = ? AND action = 'observe' AND lineage = ? AND seq >= ? ORDER BY seq"
        lineage = journal.lineage
        while rows := journal.index.records(where, (SESSION_TYPE, self.item_id, lineage, seq), _LINES_AT_ONCE):
            for row in rows:
                yield record_of(journal.line_at(row))
            seq = rows[-1].seq + 1
        for chunk in journal.reader(lineage).read_from(journal.index.watermarks().get(lineage, START)):
            for entry in chunk.entries:
                if entry.record.seq >= seq and self.is_mine(entry.record):
                    yield entry.record

    def is_mine(self, record: Record) -> bool:
        return record.item_id == self.item_id and record.action == "observe" and record.item_type == SESSION_TYPE

    def _prepare(self) -> None:
        journal = self._project.journal
        journal.refresh()
        journal.project()
        if not fill_history_if_present(journal):
            need_records(journal, journal.lineage, self._begun())

    def _begun(self) -> int:
        """The seq of the first record of the session's first run here, or the next seq without one."""
        from periplus.trail.recording.recorder import RUN_TYPE

        journal = self._project.journal
        runs = [one.value for one in journal.entities(RUN_TYPE) if one.value.get("session") == self._name]
        first = [
            seq
            for run in runs
            if run.get("lineage") == journal.lineage and isinstance(seq := run.get("first_seq"), int)
        ]
        return min(first, default=journal.end().next_seq)

    def _first_seq_of(self, turn: int) -> int:
        """A seq at or before the first record of the turn, by binary search: turn numbers only grow."""
        self._prepare()
        journal = self._project.journal
        where = "item_type = ? AND item_id = ? AND action = 'observe' AND lineage = ? AND seq >= ? ORDER BY seq"
        low, high = 0, journal.end().next_seq
        while high - low > 1:
            middle = (low + high) // 2
            rows = journal.index.records(where, (SESSION_TYPE, self.item_id, journal.lineage, middle), 1)
            if rows and turn_of(rows[0].summary) < turn:
                low = middle
            else:
                high = middle
        return low


class EpisodeFeed:
    """Feed of new episodes of session ``name``: ``read`` returns those added since its last call; the first time, all.

    Each further read costs only what was added and takes no lock, so the writer never waits. A read takes the project that it reads
    with, any one of the same store, for a project belongs to its thread and a feed does not.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._position = START
        self._last_seq = -1
        self._is_begun = False

    def read(self, project: Project) -> Iterator[Episode]:
        """Yield the new episodes. Raises DamageError, EnvironmentFailure; ReplacedError if the store was replaced or removed."""
        journal, stored = project.journal, StoredEpisodes(project, self._name)
        journal.lineages()  # this checks that the store is still there
        if not self._is_begun:
            journal.refresh()
            journal.project()
            self._position = journal.index.watermarks().get(journal.lineage, START)
            for record in stored.records(self._last_seq + 1):
                self._last_seq = record.seq
                yield stored.episode(record)
            self._is_begun = True
        for chunk in journal.reader(journal.lineage).read_from(self._position):
            for entry in chunk.entries:
                record = entry.record
                if record.seq > self._last_seq and stored.is_mine(record):
                    self._last_seq = record.seq
                    yield stored.episode(record)
            self._position = chunk.end


def turn_of(summary: str) -> int:
    """Parse the turn from a record's summary, as the log writes it."""
    word = summary.split(" ", 2)[1] if summary.startswith("turn ") else ""
    return int(word) if word.isdigit() else 0
