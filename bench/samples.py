"""Material to measure with: seeded words and texts, and a long session of Claude Code."""

from __future__ import annotations

__all__ = ["Session", "Texts", "session_file"]

import hashlib
import os
import random
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

REPOSITORY: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRANSCRIPTS: Final = os.path.join(os.path.dirname(REPOSITORY), "shared", "transcripts", "claude-code-jsonl")
_SYLLABLES: Final = "ba co di fu ga he ji ka lo mu ne or pi qua re si ta ul ve wo ya zen ter lin mar sto".split()
_WORDS: Final = 20_000
_ZIPF: Final = 1.05
_OWN_TEXT_CHARACTERS: Final = 40
_IDS: Final = re.compile(
    rb"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|(?P<token>(?:toolu|msg|req)_\w{16,})"
)
_SESSION_ID: Final = re.compile(rb'"session(?:Id|_id)":"([^"]+)"')


class Texts:
    """Words by Zipf's law, and what is written with them; the same seed gives the same texts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        known: dict[str, None] = {}
        while len(known) < _WORDS:
            known["".join(self._random.choices(_SYLLABLES, k=self._random.randint(1, 4)))] = None
        self.words = list(known)
        self._weights = list(accumulate(1 / (rank + 3) ** _ZIPF for rank in range(_WORDS)))

    def several(self, count: int) -> list[str]:
        return self._random.choices(self.words, cum_weights=self._weights, k=count)

    def sentence(self, least: int, most: int) -> str:
        return " ".join(self.several(self._random.randint(least, most)))

    def path(self) -> str:
        return f"src/{'/'.join(self.several(2))}.py"

    def memory(self) -> str:
        """Prose with now and then an identifier or a path, as people write about a program."""
        parts = [self.sentence(8, 60)]
        if self._random.random() < 0.4:
            parts.append("_".join(self.several(2)))
        if self._random.random() < 0.3:
            parts.append(self.path())
        return " ".join(parts)

    def question(self, text: str) -> str:
        """Some words of ``text`` that are not among the commonest, in another order."""
        common = set(self.words[:40])
        candidates = [word for word in dict.fromkeys(text.split()) if word not in common] or text.split()
        return " ".join(self._random.sample(candidates, min(len(candidates), self._random.randint(2, 4))))


class Session(NamedTuple):
    path: str
    size_bytes: int
    source: str


def session_file(folder: str, size_bytes: int, transcripts: str = TRANSCRIPTS) -> Session:
    """A session of at least ``size_bytes``: the real ones in ``transcripts`` again and again, else a made one."""
    real = sorted(_real_sessions(transcripts))
    texts = Texts(2)
    path = os.path.join(folder, "session.jsonl")
    with open(path, "wb") as file:
        copy = 0
        while file.tell() < size_bytes:
            file.writelines(_copied(real, copy) if real else _made(texts, copy))
            copy += 1
        size = file.tell()
    source = f"{len(real)} real sessions × {copy}, ids and texts made distinct" if real else "a made session"
    return Session(path, size, source)


def _real_sessions(transcripts: str) -> Iterator[str]:
    for folder, _, names in os.walk(transcripts):
        if "full.jsonl" in names:
            yield os.path.join(folder, "full.jsonl")


def _copied(paths: list[str], copy: int) -> Iterator[bytes]:
    """The lines of the files as one session: its ids are another copy's nowhere, its longer texts neither."""
    import orjson

    stamp = f" ·{copy}"
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        sessions = {*_SESSION_ID.findall(data)}

        def renamed(match: re.Match[bytes], kept: set[bytes] = sessions) -> bytes:
            found = match.group()
            if found in kept:
                return b"00000000-0000-4000-8000-000000000000"
            digits = hashlib.sha256(b"%d %b" % (copy, found)).hexdigest().encode()
            if match.lastgroup == "uuid":
                return b"-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
            head, _, tail = found.partition(b"_")
            return head + b"_" + digits[: len(tail)]

        for line in data.splitlines():
            if line.strip():
                yield orjson.dumps(_stamped(orjson.loads(_IDS.sub(renamed, line)), stamp)) + b"\n"


def _stamped(value: Any, stamp: str) -> Any:
    if isinstance(value, dict):
        return {key: _stamped(item, stamp) for key, item in value.items()}
    if isinstance(value, list):
        return [_stamped(item, stamp) for item in value]
    if isinstance(value, str) and len(value) >= _OWN_TEXT_CHARACTERS and " " in value:
        return value + stamp
    return value


def _made(texts: Texts, copy: int) -> Iterator[bytes]:
    """A stretch of a session: a prompt, then calls of tools with their results, and an answer."""
    import orjson

    parent: str | None = None
    for turn in range(12):
        key = f"{copy:06d}-{turn:02d}"
        file = texts.path()
        result = "\n".join(texts.sentence(4, 14) for _ in range(120))
        call = {"type": "tool_use", "id": f"toolu_{key}", "name": "Read", "input": {"file_path": f"/srv/shop/{file}"}}
        usage = {"input_tokens": 12, "cache_read_input_tokens": 30_000, "output_tokens": 200}
        records: list[dict[str, Any]] = [
            {"type": "user", "message": {"role": "user", "content": texts.sentence(10, 60)}},
            {"type": "assistant", "message": {"id": f"msg_{key}", "role": "assistant", "model": "claude-made",
                                              "content": [call], "usage": usage}},
            {"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": f"toolu_{key}", "content": result}]},
             "toolUseResult": {"type": "text", "file": {"filePath": f"/srv/shop/{file}", "content": result}}},
            {"type": "assistant", "message": {"id": f"msg_{key}_2", "role": "assistant", "model": "claude-made",
                                              "content": [{"type": "text", "text": texts.sentence(40, 200)}],
                                              "usage": usage}},
        ]  # fmt: skip
        for number, record in enumerate(records):
            uuid = f"{copy:08x}-{turn:04x}-4000-8000-{number:012x}"
            stamp = f"2026-03-01T{copy % 24:02d}:{turn:02d}:{number:02d}.000Z"
            yield orjson.dumps({"parentUuid": parent, "isSidechain": False, "cwd": "/srv/shop", "version": "2.1.17",
                                "sessionId": "00000000-0000-4000-8000-000000000000", "uuid": uuid,
                                "timestamp": stamp, **record}) + b"\n"  # fmt: skip
            parent = uuid
