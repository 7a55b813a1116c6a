"""Importer of ATIF documents: one trajectory, with those of its subagents in it since version 1.7.

Format: ``schema_version`` ("ATIF-v1.4"), the ``agent``, and ``steps`` of the system, the user or the agent; a step of the
agent holds its reasoning, text, calls, their results and the tokens. There is no time of a result, and no mark of a
failed one. The document is read twice: first what stands about the steps, and the subagents, to whose trails the steps
refer; then the steps, one after the other.
"""

from __future__ import annotations

__all__ = ["is_mine", "read"]

import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from periplus.base.errors import FormatError
from periplus.interop.conversion.source import Head, Source, status_of
from periplus.interop.exports.atif_facts import EXTRA, EXTRA_VERSION
from periplus.interop.importers.atif.facts import digest_of
from periplus.interop.importers.atif.steps import StepImporter
from periplus.interop.model import Imported
from periplus.interop.readers.json_stream import Element, JsonReader, JsonWalker
from periplus.interop.readers.json_values import decode_value, integer_of, optional_text, table_of, text_of
from periplus.trail.model import STATUSES, Status

_NAME: Final = "atif"
_MARK: Final = "ATIF-v"
_KNOWN_VERSION: Final = re.compile(r"ATIF-v1\.[0-8](\.\d{1,4})?", re.ASCII)
_STEPS: Final = "steps"
_SUBAGENTS: Final = "subagent_trajectories"
_OPENED: Final = ((_STEPS,), (_SUBAGENTS,))
_DEPTH_MAX: Final = 8
_SUBAGENTS_MAX: Final = 1000
_ID_CHARS_MAX: Final = 200
_FACTS: Final = frozenset({"agent", "extra", "final_metrics", "schema_version", "session_id", "trajectory_id"})
_SKIPPED: Final = {"continued_trajectory_ref": "continuation in another file", "notes": "member: notes"}


def is_mine(head: Head) -> bool:
    return text_of(head.document.members.get("schema_version")).startswith(_MARK)


def read(source: Source) -> Iterator[Imported]:
    yield _Trajectory(source, _Place("", "", 0, [0])).read(JsonReader(source.path, _OPENED), None)


class _Place(NamedTuple):
    """Place of a trajectory in the document: session of the root, path of ids, depth, and the number of subagents."""

    session_id: str
    agent_id: str
    depth: int
    subagents: list[int]


class _Trajectory:
    def __init__(self, source: Source, place: _Place) -> None:
        self._source = source
        self._place = place
        self._intake = source.intake()
        self._members: dict[str, object] = {}
        self._children: dict[str, Imported] = {}

    def read(self, elements: Iterable[Element], data: bytes | None) -> Imported:
        """Read the trajectory; ``data`` is the text of one within the document, None for the document itself."""
        intake = self._intake
        for element in elements:
            if element.path == (_SUBAGENTS,):
                self._child(element)
            elif not element.path:
                self._learn(element.name, element.data)
        agent = table_of(self._members.get("agent"))
        extra = table_of(self._members.get("extra"))
        ours = self._ours(extra)
        intake.model = optional_text(agent.get("model_name"))
        intake.version = optional_text(agent.get("version"))
        intake.cwd = optional_text(extra.get("cwd")) or optional_text(table_of(agent.get("extra")).get("cwd"))
        intake.session_id, intake.agent_id = self._ids(is_ours=bool(ours))
        digests = {name: child.trail_digest for name, child in self._children.items()}
        importer = StepImporter(intake, digests, table_of(self._members.get("final_metrics")), is_exact=bool(ours))
        self._start(ours, importer)
        if data is None:
            digest, status = self._source.read_document(importer, intake, _OPENED, is_record=_is_step)
        else:
            digest, status = self._read_part(importer, data)
        if ours:
            intake.started_ms = importer.clock(ours.get("started_ms"))  # steps may have begun before the trail
        base = digest_of(ours.get("base"))
        return self._source.trail(
            intake, _NAME, digest, _told(ours) or status,
            optional_text(self._members.get("session_id")) if ours else None,
            agent=optional_text(agent.get("name")) or _NAME, base=base, children=tuple(self._children.values()),
        )  # fmt: skip

    def _read_part(self, importer: StepImporter, data: bytes) -> tuple[bytes, Status]:
        walker = JsonWalker(io.BytesIO(data).read, self._source.path, _OPENED)
        count = 0
        for element in walker:
            if _is_step(element):
                count += 1
                if not importer.feed(element.place + 1, element.data):
                    self._intake.note_unreadable(element.place + 1)
        self._intake.count("lines", count)
        status = status_of(self._intake, importer.finish(), is_torn=walker.broken is not None)
        return hashlib.sha256(data).digest(), status

    # Members of the trajectory

    def _learn(self, name: str, data: bytes) -> None:
        intake = self._intake
        if name in _FACTS:
            self._members[name] = decode_value(data)
        elif name in _SKIPPED:
            if data != b"null":
                intake.skip(_SKIPPED[name])
        elif name not in (_STEPS, _SUBAGENTS):
            intake.note_unknown(f"member: {name}")
        if name == "schema_version":
            version = text_of(self._members[name])
            if not _KNOWN_VERSION.fullmatch(version):
                intake.note_unknown(f"schema_version: {version or 'none'}")

    def _ours(self, extra: dict[str, object]) -> dict[str, object]:
        """Return the facts that our own export left, empty for a document of another program."""
        facts = table_of(extra.get(EXTRA))
        version = facts.get("version")
        if facts and version != EXTRA_VERSION:
            self._intake.note_unknown(f"extra: {EXTRA}, version {integer_of(version)}")
            return {}
        return facts

    def _start(self, ours: dict[str, object], importer: StepImporter) -> None:
        if ours:
            self._intake.title = importer.title = optional_text(ours.get("title"))
            if _told(ours) == "partial":
                self._intake.partial("it ended so where it was exported")

    def _ids(self, *, is_ours: bool) -> tuple[str | None, str | None]:
        """Return the ids of session and agent. A session's id may stand in several documents, which then differ in the
        trajectory's.
        """
        session = text_of(self._members.get("session_id"))[:_ID_CHARS_MAX]
        trajectory = text_of(self._members.get("trajectory_id"))[:_ID_CHARS_MAX]
        if self._place.depth:
            return self._place.session_id or session, self._place.agent_id
        if is_ours or not session or not trajectory or session == trajectory:
            return session or trajectory or None, None
        return f"{session}/{trajectory}", None

    # Subagents

    def _child(self, element: Element) -> None:
        place, intake = self._place, self._intake
        if place.depth >= _DEPTH_MAX or place.subagents[0] >= _SUBAGENTS_MAX:
            intake.skip("subagent: too many or too deep")
            return
        place.subagents[0] += 1
        if element.data[:1] != b"{":
            intake.skip("subagent that cannot be read")
            return
        name = _own_id(element.data, self._source.path) or f"subagent {element.place + 1}"
        if name in self._children:
            intake.skip("subagent: the same trajectory_id again")
            return
        root = place.session_id or self._ids(is_ours=True)[0] or ""
        below = _Place(root, f"{place.agent_id}/{name}".lstrip("/"), place.depth + 1, place.subagents)
        part = _Trajectory(self._source.beside(self._source.path), below)
        try:
            walker = JsonWalker(io.BytesIO(element.data).read, self._source.path, _OPENED)
            self._children[name] = part.read(walker, element.data)
        except FormatError:  # the session is complete without it; the count reports it
            intake.skip("subagent that cannot be read")


def _is_step(element: Element) -> bool:
    return element.path == (_STEPS,)


def _told(ours: dict[str, object]) -> Status | None:
    status = ours.get("status")
    return next((one for one in STATUSES if one == status), None)


def _own_id(data: bytes, path: str) -> str:
    """Return the id of a trajectory within the document."""
    for element in JsonWalker(io.BytesIO(data).read, path, _OPENED):
        if not element.path and element.name == "trajectory_id":
            return text_of(decode_value(element.data))[:_ID_CHARS_MAX]
    return ""
