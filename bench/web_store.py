"""A large store to measure pages with: memories, sessions, work and a long history, of which every number is scaled.

``python -m bench.web_store FOLDER [SCALE]`` makes it in ``FOLDER``, a git repository of a few hundred files. At scale 1 it has 100,000
memories, 5,000 sessions of which one has 20,000 steps, and 1,000,000 records. Everything is written by transactions of a journal, in large
batches and without entity files; the same seed gives the same texts.
"""

from __future__ import annotations

__all__ = ["Sizes", "make_web_store", "sizes_at"]

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple

from bench.appends import WRITER
from bench.samples import Texts
from periplus.base.clock import FixedClock, SystemClock, format_ms
from periplus.base.encoding.canonical import JSONValue
from periplus.base.files import Files
from periplus.base.ids import derived_id
from periplus.journal import Transaction, Writer, create_store
from periplus.project.store import ProjectStore
from periplus.trail import Digest, Header, TrailBuilder

_BATCH: Final = 2_000
_CHANGES_EACH: Final = 20  # of one entity in one batch
_TRAILS_EACH: Final = 100
_FILES: Final = 400
_DAY_MS: Final = 86_400_000
_DAYS: Final = 180
_BEGUN_MS: Final = 1_767_225_600_000
_AGENTS: Final = ("claude-code", "codex", "cursor", "gemini", "periplus")
_MODELS: Final = ("large-2", "small-2", "medium-1")
_AUTHORS: Final = ("ann", "ben", "claude-code", "codex", "dora", "periplus")
_BRANCHES: Final = ("main", "rate-limits", "fix/tokens", "docs", "release-2")
_TAGS: Final = ("api", "auth", "build", "cache", "ci", "db", "docs", "http", "money", "speed", "tests", "ui")
_MEMORIES: Final[tuple[tuple[str, str, int, tuple[str, ...]], ...]] = (
    ("note", "not", 40, ("",)),
    ("decision", "dec", 25, ("accepted", "accepted", "accepted", "proposed", "rejected", "superseded", "deferred")),
    ("lesson", "les", 15, ("active", "active", "superseded")),
    ("constraint", "con", 10, ("active", "active", "resolved")),
    ("trap", "trp", 10, ("active", "active", "resolved", "expired")),
)


class Sizes(NamedTuple):
    """The numbers of a store; ``long_steps`` are those of its longest session."""

    memories: int
    sessions: int
    long_steps: int
    plans: int
    messages: int
    records: int


def sizes_at(scale: float) -> Sizes:
    def of(whole: int, least: int) -> int:
        return max(least, round(whole * scale))

    return Sizes(of(100_000, 50), of(5_000, 10), of(20_000, 100), of(300, 3), of(2_000, 5), of(1_000_000, 200))


def make_web_store(
    folder: str, sizes: Sizes, say: Callable[[str], None] = lambda _: None, *, begun_ms: int = _BEGUN_MS
) -> str:
    """Make the project and its store in ``folder``, which must not exist yet; return the store's path. Its history begins at ``begun_ms``
    and lasts 180 days.
    """
    texts = Texts(11)
    paths = _repository(folder, texts)
    clock = FixedClock(begun_ms)
    root = create_store(os.path.join(folder, ".periplus"), Files(), clock).root
    with ProjectStore(root, WRITER, clock=clock, has_files=False) as project:
        store = _Store(project, clock, texts, paths, sizes, say)
        store.write_sessions()
        store.write_memories()
        store.write_work()
        store.write_history()
        project.journal.project()
    return root


def _repository(folder: str, texts: Texts) -> list[str]:
    paths = sorted({f"src/{'/'.join(texts.several(2))}.py" for _ in range(_FILES)} | {"README.md", "docs/guide.md"})
    for path in paths:
        whole = os.path.join(folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            names = texts.several(6)
            file.writelines(f"def {name}(value):\n    return value  # {texts.sentence(3, 9)}\n\n" for name in names)
    git = ("git", "-C", folder, "-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "Begin")):
        subprocess.run((*git, *words), check=True, capture_output=True)
    return paths


def _parts(count: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, count)) for start in range(0, count, size))


class _Store:
    """The store that is made, and the generators of its texts and choices."""

    def __init__(
        self,
        project: ProjectStore,
        clock: FixedClock,
        texts: Texts,
        paths: list[str],
        sizes: Sizes,
        say: Callable[[str], None],
    ) -> None:
        self._project, self._clock, self._texts, self._paths = project, clock, texts, paths
        self._sizes, self._say, self._begun_ms = sizes, say, clock.now_ms()
        self._chance = random.Random(12)
        self._tick_ms = max(1, _DAYS * _DAY_MS // sizes.records)
        self._written = 0
        self._memories: list[tuple[str, str]] = []
        self._sentences = [texts.memory() for _ in range(min(20_000, sizes.memories))]
        self._trails: list[str] = []

    # -- writing -------------------------------------------------------------------------------------------------------

    def _put(
        self, transaction: Transaction, item_type: str, item_id: str, payload: dict[str, JSONValue], action: str = ""
    ) -> None:
        text = payload.get("text") or payload.get("title") or ""
        transaction.put(item_type, item_id, payload, action=action, summary=f"{item_type}: {text}", is_admitted=True)
        self._written += 1

    def _write(self, fn: Callable[[Transaction], None]) -> None:
        """Write a batch as one of the authors, in one of a few hundred sessions."""
        before = self._written
        author = self._chance.choice(_AUTHORS)
        writer = Writer.named(author, session=f"s{self._chance.randrange(400):03d}")
        self._project.journal.mutate(fn, writer, project=False)
        self._clock.advance((self._written - before) * self._tick_ms)
        if self._written // 20_000 != before // 20_000:
            self._say(f"{self._written:,} of {self._sizes.records:,} records")

    def _created(self) -> str:
        return format_ms(self._clock.now_ms())

    # -- sessions ------------------------------------------------------------------------------------------------------

    def write_sessions(self) -> None:
        """Write the trails; they began on any day of the time that the store covers."""
        long = self._sizes.sessions // 2
        for part in _parts(self._sizes.sessions, _TRAILS_EACH):

            def write(transaction: Transaction, part: range = part) -> None:
                for number in part:
                    steps = self._sizes.long_steps if number == long else self._chance.randint(8, 60)
                    self._trail(transaction, number, steps)

            self._write(write)

    def _trail(self, transaction: Transaction, number: int, steps: int) -> None:
        chance = self._chance
        agent, model, started_ms = chance.choice(_AGENTS), chance.choice(_MODELS), self._session_ms(number)
        title = self._texts.sentence(3, 9)
        builder, files, at_ms, counts = TrailBuilder(bytes(32)), {}, started_ms, dict.fromkeys(_COUNTED, 0)
        while builder.step_count < steps:
            name = self._step(builder, at_ms, model, files)
            counts[name] = counts.get(name, 0) + 1
            at_ms += chance.randint(500, 40_000)
        data = builder.finish(
            Header(agent, f"session-{number}", model=model, title=title, started_ms=started_ms), "success"
        )
        name = self._project.journal.objects.put(data, durable=False)
        item_id = derived_id("trl", "bench", str(number), "")
        self._trails.append(item_id)
        card: dict[str, JSONValue] = {
            "v": 1, "digest": sha256(data).hexdigest(), "object": name.hex(), "bytes": len(data), "format": agent, "agent": agent,
            "session_id": f"session-{number}", "source_sha256": sha256(b"%d" % number).hexdigest(), "title": title,
            "cwd": self._project.folder, "model": model, "started": format_ms(started_ms), "ended": format_ms(at_ms),
            "status": chance.choice(("success", "success", "success", "partial", "error")),
            "counts": {"steps": builder.step_count, "files": len(files), "prompts": counts["PROMPT"],
                       "model_calls": counts["MODEL_CALL"], "commands": counts["COMMAND_RUN"]},
            "files": list(files)[:200], "branch": chance.choice(_BRANCHES),
        }  # fmt: skip
        self._put(transaction, "trail", item_id, card, "import")

    def _session_ms(self, number: int) -> int:
        day = number * _DAYS // self._sizes.sessions
        return self._begun_ms + day * _DAY_MS + self._chance.randrange(7 * 3_600_000, 19 * 3_600_000)

    def _step(self, builder: TrailBuilder, at_ms: int, model: str, files: dict[str, None]) -> str:
        chance, texts, first = self._chance, self._texts, builder.step_count == 0
        name = "PROMPT" if first else chance.choices(tuple(_STEPS), weights=tuple(_STEPS.values()))[0]
        path = chance.choice(self._paths)
        took = chance.randint(5, 4_000)
        result = Digest("sha256", sha256(b"%d" % chance.randrange(500)).digest())
        if name == "PROMPT":
            builder.add(name, texts.sentence(8, 40), at_ms=at_ms)
        elif name == "SAY":
            builder.add(name, texts.sentence(6, 50), at_ms=at_ms)
        elif name == "MODEL_CALL":
            fresh, cached, out = chance.randint(200, 6_000), chance.randint(5_000, 90_000), chance.randint(30, 1_500)
            cost = fresh * 3 + cached * 3 // 10 + out * 15
            builder.add(name, model, fresh, cached, out, cost, at_ms=at_ms, duration_ms=took)
        elif name == "COMMAND_RUN":
            command = f"pytest {path} -k {texts.several(1)[0]}"
            builder.add(name, command, at_ms=at_ms, duration_ms=took, exit_code=0, result=result, result_size=700)
        elif name == "FILE_EDIT":
            files[path] = None
            builder.add(name, path, texts.sentence(4, 20), texts.sentence(4, 20), at_ms=at_ms, duration_ms=took)
        else:
            builder.add(name, path, at_ms=at_ms, duration_ms=took, result=result, result_size=900)
        return name

    # -- memories and work ---------------------------------------------------------------------------------------------

    def write_memories(self) -> None:
        kinds = [row for row in _MEMORIES for _ in range(row[2])]
        for part in _parts(self._sizes.memories, _BATCH):

            def write(transaction: Transaction, part: range = part) -> None:
                for number in part:
                    item_type, prefix, _, states = kinds[self._chance.randrange(len(kinds))]
                    item_id = derived_id(prefix, "bench", str(number), "")
                    self._memories.append((item_type, item_id))
                    self._put(transaction, item_type, item_id, self._memory(number, item_type, states))

            self._write(write)

    def _memory(self, number: int, item_type: str, states: tuple[str, ...]) -> dict[str, JSONValue]:
        chance = self._chance
        sentence = self._sentences[number] if number < len(self._sentences) else chance.choice(self._sentences)
        payload: dict[str, JSONValue] = {
            "v": 1, "text": f"{sentence} {number}", "author": chance.choice(_AUTHORS), "created": self._created(),
            "tags": sorted(chance.sample(_TAGS, chance.randrange(4))),
            "about": [self._anchor(path) for path in sorted(chance.sample(self._paths, chance.randrange(3)))],
            "provenance": {"kind": chance.choice(("person", "agent"))},
        }  # fmt: skip
        state = chance.choice(states)
        if state:
            payload["state"] = state
        if item_type == "decision" and chance.random() < 0.5:
            payload["rationale"] = self._texts.sentence(6, 30)
        if item_type == "trap":
            payload["severity"] = chance.choice(("low", "medium", "high", "critical"))
        return payload

    def _anchor(self, path: str) -> dict[str, JSONValue]:
        """Return an anchor at a file: most as the file is, some as it was before."""
        with open(os.path.join(self._project.folder, path), "rb") as file:
            data = file.read()
        luck = self._chance.random()
        now = sha256(data if luck < 0.9 else data[1:]).hexdigest()
        return {"kind": "path", "ref": path, **({"sha256": now} if luck < 0.8 or luck >= 0.9 else {})}

    def write_work(self) -> None:
        """Write plans with steps, claims on some of them, and mail."""
        for part in _parts(self._sizes.plans, _TRAILS_EACH):

            def write(transaction: Transaction, part: range = part) -> None:
                for number in part:
                    self._plan(transaction, number)

            self._write(write)
        for part in _parts(self._sizes.messages, _BATCH):

            def send(transaction: Transaction, part: range = part) -> None:
                for number in part:
                    sender, recipient = self._chance.sample(_AUTHORS, 2)
                    self._put(transaction, "message", derived_id("msg", "bench", str(number), ""), {
                        "v": 1, "state": self._chance.choice(("sent", "read", "answered")), "sender": sender,
                        "recipient": recipient, "text": self._texts.sentence(5, 40), "created": self._created(),
                    })  # fmt: skip

            self._write(send)

    def _plan(self, transaction: Transaction, number: int) -> None:
        chance, plan = self._chance, derived_id("pln", "bench", str(number), "")
        is_open = number % 10 == 0
        common: dict[str, JSONValue] = {"v": 1, "author": chance.choice(_AUTHORS), "created": self._created()}
        self._put(
            transaction,
            "plan",
            plan,
            {**common, "text": self._texts.sentence(4, 12), "state": "todo" if is_open else "done"},
        )
        before = ""
        for place in range(chance.randint(4, 12)):
            step = derived_id("stp", "bench", f"{number}.{place}", "")
            state = chance.choice(("todo", "doing", "done")) if is_open else "done"
            self._put(transaction, "step", step, {
                **common, "text": self._texts.sentence(4, 14), "state": state, "plan": plan, "place": place,
                **({"depends_on": [before]} if before else {}), "assignee": chance.choice(_AUTHORS) if state == "doing" else "",
            })  # fmt: skip
            before = step
            path = chance.choice(self._paths)
            holder = chance.choice(_AUTHORS)
            self._put(transaction, "claim", derived_id("clm", "bench", f"{number}.{place}", ""), {
                **common, "text": f"edit {path}", "state": "released", "scopes": [path], "holder": holder,
                "holder_id": Writer.named(holder).id, "ttl_s": 3_600, "expires": self._created(), "step": step,
            })  # fmt: skip

    # -- history -------------------------------------------------------------------------------------------------------

    def write_history(self) -> None:
        """Change memories until the store has its number of records."""
        while (left := self._sizes.records - self._written) > 0:
            changes = min(_CHANGES_EACH, left)
            chosen = self._chance.sample(self._memories, min(len(self._memories), max(1, min(_BATCH, left) // changes)))

            def write(transaction: Transaction, chosen: list[tuple[str, str]] = chosen, changes: int = changes) -> None:
                for key in chosen:
                    entity = transaction.get(*key)
                    assert entity is not None
                    for change in range(changes):
                        value = {**entity.value, "updated": self._created(), "confidence": 100 - change}
                        self._put(transaction, *key, value)

            self._write(write)


_COUNTED: Final = ("PROMPT", "MODEL_CALL", "COMMAND_RUN")
_STEPS: Final = {"PROMPT": 4, "SAY": 20, "MODEL_CALL": 30, "COMMAND_RUN": 12, "FILE_READ": 20, "FILE_EDIT": 14}


def _tell(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    make_web_store(
        sys.argv[1],
        sizes_at(float(sys.argv[2]) if len(sys.argv) > 2 else 1.0),
        _tell,
        begun_ms=SystemClock().now_ms() - _DAYS * _DAY_MS,
    )
