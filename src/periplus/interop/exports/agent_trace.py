"""Export of a trail as an Agent Trace record (version 0.1.0): the lines of files that the agent wrote.

The record describes files at one revision. Where the trail contains a file's contents (it was written whole, then
edited), lines are followed from step to step. Otherwise the text of an edit is searched in the file at that revision;
an edit that is not found exactly once is counted as unplaced, never guessed.
"""

from __future__ import annotations

__all__ = ["FILE_BYTES_MAX", "SPEC_VERSION", "agent_trace", "last_commit"]

import hashlib
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from periplus.base.clock import format_ms
from periplus.base.encoding.canonical import canonical
from periplus.interop.exports.trail_source import ExportSource, Moment
from periplus.trail import Digest
from periplus.trail.listings.sequence_alignment import align_texts
from periplus.trail.model import TOOL_VERSION

SPEC_VERSION: Final = "0.1.0"
FILES_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 4 << 20
_COMPARED_LINES_MAX: Final = 5_000
_PROVIDERS: Final = (("claude", "anthropic"), ("gpt", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"),
                     ("gemini", "google"), ("grok", "xai"), ("deepseek", "deepseek"), ("mistral", "mistral"))  # fmt: skip

_PUTTING: Final = frozenset({"FILE_WRITE", "FILE_EDIT"})

ReadFile = Callable[[str], bytes | None]


class _Line(NamedTuple):
    text: str
    part: int  # of the trail that wrote it, -1 for lines of no agent


class _File:
    def __init__(self) -> None:
        self.lines: list[_Line] | None = None  # as far as the trail contains them
        self.put: list[tuple[str, int]] = []  # texts of edits where the lines are unknown
        self.parts: set[int] = set()
        self.is_doubtful = False  # from a step with unknown outcome


def agent_trace(source: ExportSource, read_file: ReadFile, revision: str = "") -> bytes:
    """Return the record as canonical JSON. ``read_file`` returns a file at ``revision``, None where there is none."""
    files: dict[str, _File] = {}
    last_ms = source.readers[0].header.started_ms
    for moment in source.moments():
        last_ms = max(last_ms, moment.at_ms)
        if moment.step.outcome == "ok" or (moment.step.outcome == "unknown" and moment.op in _PUTTING):
            _follow(source, moment, files)
    found, unplaced = [], 0
    for path in sorted(files)[:FILES_MAX]:
        data = read_file(path)
        if data is None and files[path].is_doubtful:
            unplaced += 1  # some agents do not store outcomes: only the file itself shows that the call took effect
            continue
        lines, missed = _settled(files[path], data)
        unplaced += missed
        conversations = [one for part in sorted(files[path].parts) if (one := _conversation(source, part, lines))]
        if conversations:
            found.append({"path": path, "conversations": conversations})
    header = source.readers[0].header
    record: dict[str, Any] = {
        "version": SPEC_VERSION,
        "id": _uuid(b"PPLS/agent-trace\0" + source.digest),
        "timestamp": format_ms(last_ms),
        "tool": {"name": source.text(header.agent), **_version(source)},
        "files": found,
        "metadata": {
            "periplus": {
                "trail": source.digest.hex(),
                "edits_not_placed": unplaced,
                "files_left_out": max(0, len(files) - FILES_MAX),
                "exporter": TOOL_VERSION,
            }
        },
    }
    if revision:
        record["vcs"] = {"type": "git", "revision": revision}
    return canonical(record) + b"\n"


def last_commit(source: ExportSource) -> str:
    """Return the last commit in the trail: made by the run, or its base; "" where there is none."""
    base = source.readers[0].header.base
    found = base.value.hex() if isinstance(base, Digest) and base.algorithm.startswith("git") else ""
    for moment in source.moments():
        commit = moment.operand(2)
        if moment.op == "GIT_COMMIT" and moment.step.outcome == "ok" and isinstance(commit, Digest):
            found = commit.value.hex()
    return found


def _uuid(name: bytes) -> str:
    """Return a UUID of version 8 (RFC 9562) derived from ``name``: repeated exports give the same record."""
    data = bytearray(hashlib.sha256(name).digest()[:16])
    data[6] = data[6] & 0x0F | 0x80
    data[8] = data[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(data)))


def _version(source: ExportSource) -> dict[str, str]:
    header = source.readers[0].header
    version = source.text(header.tool_version)
    return {"version": version} if version and source.text(header.tool) == source.text(header.agent) else {}


def _follow(source: ExportSource, moment: Moment, files: dict[str, _File]) -> None:
    step, part = moment.operand, moment.part
    if moment.op == "FILE_WRITE":
        file = files.setdefault(source.path(step(0)), _File())
        content = source.content(step(1))
        file.put.clear()
        file.parts.add(part)
        file.is_doubtful = moment.step.outcome != "ok"
        file.lines = None
        if content is not None and len(content) <= FILE_BYTES_MAX:
            file.lines = [_Line(text, part) for text in content.decode("utf-8", "replace").splitlines()]
    elif moment.op == "FILE_EDIT":
        file = files.setdefault(source.path(step(0)), _File())
        file.parts.add(part)
        file.is_doubtful |= moment.step.outcome != "ok"
        _edit(file, source.text(step(1)), source.text(step(2)), part)
    elif moment.op == "FILE_DELETE":
        files.pop(source.path(step(0)), None)
    elif moment.op == "FILE_MOVE" and (moved := files.pop(source.path(step(0)), None)) is not None:
        files[source.path(step(1))] = moved


def _edit(file: _File, old: str, new: str, part: int) -> None:
    if file.lines is not None:
        text = "\n".join(line.text for line in file.lines)
        if old and text.count(old) == 1:
            begin = text.index(old)
            first = text.count("\n", 0, begin)
            last = text.count("\n", 0, begin + len(old))
            changed = text[:begin] + new + text[begin + len(old) :]
            inserted = changed.split("\n")[first : first + 1 + new.count("\n") + (last - first - old.count("\n"))]
            before = file.lines[first : last + 1]
            file.lines[first : last + 1] = _inherited(before, inserted, part)
            return
        file.put += [(line.text, line.part) for line in file.lines if line.part >= 0]
        file.lines = None
    file.put.append((new, part))


def _inherited(before: list[_Line], texts: list[str], part: int) -> list[_Line]:
    """Return the lines ``texts`` that replace ``before``: equal lines keep their author."""
    lines = [_Line(text, part) for text in texts]
    if len(before) + len(texts) <= _COMPARED_LINES_MAX:
        for a, b, length in align_texts([line.text for line in before], texts):
            lines[b : b + length] = before[a : a + length]
    return lines


def _settled(file: _File, data: bytes | None) -> tuple[list[_Line], int]:
    """Return the lines at the revision, and the number of edits that could not be placed in them."""
    if data is None or len(data) > FILE_BYTES_MAX:
        return file.lines or [], len(file.put)
    texts = data.decode("utf-8", "replace").splitlines()
    if file.lines is not None:
        if len(file.lines) + len(texts) > _COMPARED_LINES_MAX and [line.text for line in file.lines] != texts:
            return [], 1
        return _inherited(file.lines, texts, -1), 0
    lines, missed = [_Line(text, -1) for text in texts], 0
    for put, part in file.put:
        wanted = put.splitlines()
        while wanted and not wanted[-1].strip():
            wanted.pop()
        places = _places(texts, wanted)
        if len(places) != 1:
            missed += bool(wanted)
            continue
        lines[places[0] : places[0] + len(wanted)] = [_Line(text, part) for text in texts[places[0] :][: len(wanted)]]
    return lines, missed


def _places(texts: list[str], wanted: list[str]) -> list[int]:
    """Return up to two places of ``wanted`` in ``texts``; its first and last line may be parts of lines."""
    found: list[int] = []
    if not wanted:
        return found
    size = len(wanted)
    for at in range(len(texts) - size + 1):
        if size == 1:
            is_there = wanted[0].strip() and wanted[0] in texts[at]
        else:
            is_there = (
                texts[at].endswith(wanted[0])
                and texts[at + size - 1].startswith(wanted[-1])
                and texts[at + 1 : at + size - 1] == wanted[1:-1]
            )
        if is_there:
            found.append(at)
            if len(found) == 2:
                break
    return found


def _conversation(source: ExportSource, part: int, lines: list[_Line]) -> dict[str, Any] | None:
    ranges: list[dict[str, Any]] = []
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].part == lines[begin].part:
            end += 1
        if lines[begin].part == part:
            text = "\n".join(line.text for line in lines[begin:end])
            content = f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"
            ranges.append({"start_line": begin + 1, "end_line": end, "content_hash": content})
        begin = end
    if not ranges:
        return None
    reader = source.readers[part]
    contributor = {"type": "ai"}
    model = source.text(reader.header.model)
    if model:
        provider = next((name for mark, name in _PROVIDERS if model.startswith(mark)), "")
        contributor["model_id"] = f"{provider}/{model}" if provider and "/" not in model else model
    return {"url": f"urn:periplus:trail:{reader.digest.hex()}", "contributor": contributor, "ranges": ranges}
