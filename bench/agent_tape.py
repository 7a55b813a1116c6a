"""The tape of the agent: how much of each request is the one before, how large requests get, and what a turn costs the host.

Everything runs through the real loop, the real file tools and a scripted model in a folder of its own. The baselines are the
transcript that grows and, where it is installed (``PERIPLUS_BENCH_PEER`` names its command), the published peer.
"""

from __future__ import annotations

__all__ = ["EditingSession", "measure"]

import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any, Final

from bench.agent_peer import find_peer, run_peer
from bench.agent_start import measure_start
from bench.measure import Bench, Figure, Row, row
from periplus.agent.contracts import AssistantMessage, Message, RunLog, ToolCall, ToolSchema, TurnContext
from periplus.agent.episodes import Answered, Ended, Requested, Resulted
from periplus.agent.loop import Limits
from periplus.agent.memories import NullMemory
from periplus.agent.models.scripted import ScriptedClient
from periplus.agent.persistence.run_log import MemoryLog, StoreLog
from periplus.agent.persistence.turn_index import StoredTurns, TurnIndex
from periplus.agent.session import Parts, Session
from periplus.agent.tape.compiler import Tape
from periplus.agent.tape.folder_view import FolderView
from periplus.agent.tape.history.handle_pages import pages_of
from periplus.agent.tape.history.turn_source import KeptTurns
from periplus.agent.tape.prefix_survival import PrefixMeter, serialised
from periplus.agent.tape.system_prompt import SYSTEM_PROMPT
from periplus.agent.tools import Pages
from periplus.agent.tools.local_host import HostParts, open_host
from periplus.agent.transcript import TranscriptContext
from periplus.journal import Writer
from periplus.memory.claim_status import session_id
from periplus.project import Project

_FILES: Final = 8
_FUNCTIONS: Final = 24
_PART: Final = "agent"


class EditingSession:
    """A person who asks for one change after another in a small project; the model searches, reads, edits, looks, answers.

    ``kind`` is ``tape`` or ``transcript``; ``options`` are the tape's. With ``seals`` every turn is folded when it is over.
    """

    def __init__(
        self, folder: str, kind: str = "tape", *, seals: bool = False, log: RunLog | None = None, **options: Any
    ) -> None:
        self._seals = seals
        os.makedirs(os.path.join(folder, "work", "src"))
        for number in range(_FILES):
            with open(os.path.join(folder, "work", "src", f"part{number}.py"), "w", encoding="utf-8") as file:
                file.write(_source(number))
        self.log = log or MemoryLog()
        pages = Pages(pages_of(KeptTurns(self.log.read)))
        self.host = open_host(HostParts(
            root=os.path.join(folder, "work"), state=os.path.join(folder, "state"), pages=pages, memory=NullMemory(),
            environment={"PATH": os.environ.get("PATH", "")},
        ))  # fmt: skip
        files = FolderView(self.host.work.folder, self.host.work.changes.objects.get)
        tools = self.host.schemas()
        self.context: TurnContext = (
            Tape(SYSTEM_PROMPT, tools, files=files, **options)
            if kind == "tape"
            else TranscriptContext(SYSTEM_PROMPT, tools)
        )
        self.meter = PrefixMeter(tools)
        self.requests: list[int] = []
        self.turn_of_request: list[int] = []
        self.cpu_s: list[float] = []
        self.priced = 0.0
        self._model = ScriptedClient(self._answer)
        self.session = Session(Parts(self._model, self.host, self.context, self.log, limits=Limits(steps=40)))
        self._step = 0
        self._turn = 0

    def close(self) -> None:
        self.session.close()
        self.host.close()

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self._turn += 1
            self._step = 0
            begun = time.process_time()
            text = f"In part {self._turn % _FILES} make step {self._turn % _FUNCTIONS} add {1000 + self._turn}, and keep its name."
            ended = self.session.turn(text)
            self.cpu_s.append(time.process_time() - begun)
            assert ended.reason == "done", ended.note
            if self._seals and isinstance(self.context, Tape):
                for note in self.log.append(self.context.fold()):
                    self.context.take(note)

    def _answer(self, messages: Sequence[Message], _tools: Sequence[ToolSchema]) -> AssistantMessage:
        fold = self.context.state.fold if isinstance(self.context, Tape) else 0
        found = self.meter.take(messages, self._turn, fold)
        self.requests.append(found.request_bytes)
        self.priced += found.request_bytes - 0.9 * found.common_bytes
        self.turn_of_request.append(self._turn)
        self._model.requests.clear()  # thousands of them would be the memory that is measured
        self._step += 1
        path, name = f"src/part{self._turn % _FILES}.py", f"step_{self._turn % _FUNCTIONS}"
        calls: dict[int, tuple[str, dict[str, Any]]] = {
            1: ("search", {"pattern": f"def {name}\\b", "path": "src"}),
            2: ("read", {"path": path}),
            3: ("edit", {"edits": [self._edit(path, name)]}),
            4: ("read", {"path": path, "start": 1 + 9 * (self._turn % _FUNCTIONS), "count": 20}),
        }
        if self._step not in calls:
            return AssistantMessage(
                content=f"{name} in {path} adds {1000 + self._turn} now; I read it again and it stands."
            )
        tool, args = calls[self._step]
        call = ToolCall(id=f"call_{self._turn}_{self._step}", name=tool, args=args)
        return AssistantMessage(content=f"Step {self._step}: {tool}.", tool_calls=(call,), finish_reason="tool_calls")

    def _edit(self, path: str, name: str) -> dict[str, Any]:
        text = self.host.read_text(path)
        at = text.index(f"def {name}(")
        line = text[text.index("    total = ", at) : text.index("\n", text.index("    total = ", at))]
        before = text[at : text.index(line, at) + len(line)]
        return {"path": path, "old": before, "new": before.replace(line, f"    total = value + {1000 + self._turn}")}


def _source(number: int) -> str:
    functions = "\n\n".join(
        f"def step_{one}(value: int) -> int:\n"
        f'    """Step {one} of part {number}: what goes in comes out larger."""\n'
        f"    assert value >= 0, 'a step takes no debt'\n"
        f"    total = value + {one}\n"
        f"    if total > {one * 100 + 100}:\n"
        f"        total -= {one + 1}\n"
        f"    return total\n"
        for one in range(_FUNCTIONS)
    )
    return f'"""Part {number}."""\n\n\n{functions}'


def measure(bench: Bench) -> Iterator[Row]:
    yield from _survival(bench)
    yield from _long(bench)
    yield from _floor(bench)
    yield from _peer(bench)
    yield from _recall(bench)
    yield from _stored(bench)
    yield from measure_start(bench)


def _one(value: float) -> Figure:
    return Figure(value, value, value)


def _survival(bench: Bench) -> Iterator[Row]:
    turns = bench.size(120, 30)
    tape = EditingSession(os.path.join(bench.folder, "tape"))
    sealing = EditingSession(os.path.join(bench.folder, "sealing"), seals=True)
    plain = EditingSession(os.path.join(bench.folder, "plain"), kind="transcript")
    for one in (tape, sealing, plain):
        one.run(turns)
        one.close()
    every = [*tape.meter.between, *tape.meter.at_folds]
    cut = [*sealing.meter.between, *sealing.meter.at_folds]
    percent = "% of the request before"
    yield row(_PART, f"prefix survival, {turns} turns of editing, without folds", percent, _one(100 * mean(tape.meter.between)),
              "every turn sealed at its end", _one(100 * mean(cut)), better="higher")  # fmt: skip
    yield row(_PART, f"the same with its {len(tape.meter.at_folds)} folds", percent, _one(100 * mean(every)),
              "every turn sealed at its end", _one(100 * mean(cut)), better="higher")  # fmt: skip
    if tape.meter.at_folds:
        yield row(_PART, "the same at folds alone", percent, _one(100 * mean(tape.meter.at_folds)),
                  "every turn sealed at its end", _one(100 * mean(cut)), better="higher")  # fmt: skip
    yield row(_PART, "price of the prompts (a cached byte a tenth)", "MB as fresh", _one(_price(tape)), "the transcript",
              _one(_price(plain)))  # fmt: skip
    yield row(_PART, "price of the prompts (a cached byte a tenth)", "MB as fresh", _one(_price(tape)),
              "every turn sealed at its end", _one(_price(sealing)))  # fmt: skip


def _price(session: EditingSession) -> float:
    return session.priced / 1e6


def _long(bench: Bench) -> Iterator[Row]:
    early, late = 50, bench.size(1_000, 120)
    bench.say(f"a session of {late} turns")
    session = EditingSession(os.path.join(bench.folder, "long"))
    session.run(late)
    session.close()
    first = max(size for size, turn in zip(session.requests, session.turn_of_request, strict=True) if turn <= early)
    last = max(session.requests)
    yield row(
        _PART, f"largest request in {late:,} turns", "kB", _one(last / 1e3), f"in {early} turns", _one(first / 1e3)
    )
    tenth = max(1, late // 10)
    yield row(_PART, f"CPU a turn of the host, last {tenth} turns", "ms", _one(1e3 * mean(session.cpu_s[-tenth:])),
              f"turns {tenth} to {2 * tenth}", _one(1e3 * mean(session.cpu_s[tenth : 2 * tenth])))  # fmt: skip


def _stored(bench: Bench) -> Iterator[Row]:
    """The same session with every step a record of a store."""
    turns = bench.size(1_000, 40)
    bench.say(f"a session of {turns} turns in a store")
    folder = os.path.join(bench.folder, "stored")
    os.makedirs(folder)
    Project.init(folder)
    with Project.open(folder, Writer("bench", "agt_bench", "stored")) as project:
        session = EditingSession(os.path.join(folder, "session"), log=StoreLog(project, "stored"))
        tenth = max(1, turns // 10)
        root = project.journal.layout.root
        kept = [_kept(root)]
        for _ in range(10):
            session.run(tenth)
            kept.append(_kept(root))
        session.close()
    disk = [(after - before) / tenth for before, after in pairwise(kept)]
    early, late = session.cpu_s[tenth : 2 * tenth], session.cpu_s[-tenth:]
    yield row(_PART, f"CPU a turn with a store, last {tenth} of {turns:,} turns", "ms", _spread(late),
              f"turns {tenth} to {2 * tenth}", _spread(early))  # fmt: skip
    yield row(_PART, f"disk a turn, last {tenth} of {turns:,} turns", "kB", _one(disk[-1] / 1e3),
              f"turns {tenth} to {2 * tenth}", _one(disk[1] / 1e3))  # fmt: skip


def _kept(root: str) -> int:
    """Bytes of a store, without the logs that SQLite writes over."""
    paths = (os.path.join(place, name) for place, _, names in os.walk(root) for name in names)
    return sum(os.path.getsize(path) for path in paths if not path.endswith(("-wal", "-shm")))


def _floor(bench: Bench) -> Iterator[Row]:
    session = EditingSession(os.path.join(bench.folder, "floor"))
    tools = sum(len(serialised(one)) for one in session.host.schemas())
    session.close()
    yield row(_PART, "system prompt and tools", "characters", _one(len(SYSTEM_PROMPT) + tools), "what is allowed",
              _one(12_000))  # fmt: skip


def _peer(bench: Bench) -> Iterator[Row]:
    command, turns = find_peer(), bench.size(40, 8)
    if not command:
        bench.say("the peer is not installed (PERIPLUS_BENCH_PEER names its command): left out")
        return
    bench.say(f"the peer, {turns} turns")
    once, peer = (
        run_peer(command, os.path.join(bench.folder, f"peer{count}"), count, _source, _FILES, _FUNCTIONS)
        for count in (1, turns)
    )
    places = len({(number % _FILES, number % _FUNCTIONS) for number in range(1, turns + 1)})
    assert peer.edits == places, f"the peer was driven wrongly: {peer.edits} of {places} changes are there"
    ours = EditingSession(os.path.join(bench.folder, "beside"))
    ours.run(turns)
    floor = len(SYSTEM_PROMPT) + sum(len(serialised(one)) for one in ours.host.schemas())
    ours.close()
    every = [*ours.meter.between, *ours.meter.at_folds]
    cpu = (peer.cpu_s - once.cpu_s) / (turns - 1)
    yield row(_PART, f"prefix survival, {turns} turns, folds among them", "% of the request before", _one(100 * mean(every)),
              "the peer", _one(100 * mean(peer.between)), better="higher")  # fmt: skip
    yield row(_PART, "system prompt and tools", "characters", _one(floor), "the peer", _one(peer.floor))
    yield row(_PART, "CPU a turn of the host", "ms", _one(1e3 * mean(ours.cpu_s[1:])), "the peer", _one(1e3 * cpu))
    yield row(_PART, f"largest request in {turns} turns", "kB", _one(max(ours.requests) / 1e3), "the peer",
              _one(peer.largest / 1e3))  # fmt: skip


def _recall(bench: Bench) -> Iterator[Row]:
    count, batch = bench.size(10_000, 300), 50
    bench.say(f"a history of {count:,} turns")
    folder = os.path.join(bench.folder, "history")
    os.makedirs(folder)
    Project.init(folder)
    with Project.open(folder, Writer("bench", "agt_bench", "talk")) as project:
        log = StoreLog(project, "talk", checkpoints=False)
        for first in range(1, count, batch):
            log.append(*(one for number in range(first, first + batch) for one in _turn(number)))
        index = TurnIndex(project)
        begun = time.perf_counter()
        index.refresh()
        bench.say(f"the turns were indexed in {time.perf_counter() - begun:.1f} s")
        turns = StoredTurns(index, session_id("talk"))
        pages = Pages(pages_of(turns))
        numbers = [1 + number * 37 % count for number in range(40)]
        read = [_took(lambda number=number: pages.read(f"@periplus/turns/{number}.md")) for number in numbers]
        asked = [_took(lambda number=number: _found(index, number)) for number in numbers]
        whole = _took(log.read)
        name = f"all {count:,} turns read"
        yield row(_PART, f"an old turn of {count:,} by its handle", "ms", _spread(read), name, _one(whole * 1e3))
        yield row(_PART, f"an old turn of {count:,} by its words", "ms", _spread(asked), name, _one(whole * 1e3))
        index.close()
        log.close(None)


def _found(index: TurnIndex, number: int) -> None:
    found = index.search(f"what of the {_word(number)} in module{number}?", 5, session=session_id("talk"))
    assert found[0].turn == number


def _took(work: Any) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _spread(seconds: Sequence[float]) -> Figure:
    ordered = sorted(seconds)
    return Figure(ordered[len(ordered) // 2] * 1e3, ordered[0] * 1e3, ordered[-1] * 1e3)


def _word(number: int) -> str:
    return ("parser", "cache", "socket", "index", "queue", "lexer", "driver")[number % 7]


def _turn(number: int) -> tuple[Requested | Answered | Resulted | Ended, ...]:
    from periplus.agent.contracts import ToolResult

    call = ToolCall(id=f"c{number}", name="read", args={"path": f"src/module{number}.py"})
    text = f"The {_word(number)} in module{number} fails on an empty input; see why."
    return (
        Requested(turn=number, text=text),
        Answered(turn=number, step=1, message=AssistantMessage(tool_calls=(call,))),
        Resulted(turn=number, step=1, call_id=call.id, name="read",
                 result=ToolResult(outcome="ok", output=f"line of {number}\n" * 30)),
        Answered(turn=number, step=2, message=AssistantMessage(content=f"Its first line is missing a check ({number}).")),
        Ended(turn=number, step=2, reason="done", text=f"Its first line is missing a check ({number})."),
    )  # fmt: skip
