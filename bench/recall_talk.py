"""How well recall finds the turn of a long conversation that answers a question: ``python -m bench.recall_talk FILE``.

``FILE`` is a JSON file in the form of the LoCoMo data set (Maharana et al., 2024, "Evaluating very long-term conversational memory of LLM
agents"; not part of this repository, its licence forbids commercial use): a list of samples, each with ``conversation``
(``session_1`` … lists of turns with ``speaker``, ``dia_id``, ``text``, perhaps ``blip_caption``; ``session_1_date_time`` …) and ``qa``
(``question``, ``evidence``, ``category``). Each conversation goes into a store of its own, each of its sessions as a trail, one speaker as who
asks and the other as who answers; the questions go through ``recall`` without any model. A question counts by the share of its evidence among
the first hits (R@1 …), and once more whole where any of its evidence is among the first ten; those without evidence in the conversation are left
out. Beside it stands plain FTS5 over the same turns.
"""

from __future__ import annotations

__all__ = ["Ranks", "Talk", "any_of", "ranks_of_plain_talk", "ranks_of_talk", "read_talks"]

import argparse
import json
import re
import sys
import tempfile
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from bench.recall_quality import Store, figures_of, plain_search, table_row
from periplus.memory import Filters
from periplus.trail import TrailBuilder

_ADVERSARIAL: Final = 5  # asks for what was never said: nothing answers it
_DEPTHS: Final = (1, 5, 10)
Ranks: TypeAlias = list[tuple[list[str], set[str]]]
_TURN_ID: Final = re.compile(r"D\d+:\d+")


class Turn(NamedTuple):
    name: str
    speaker: str
    text: str
    at_ms: int


class Talk(NamedTuple):
    """One conversation: its sessions in order, and what is asked with the turns that answer it."""

    sessions: list[list[Turn]]
    asked: list[tuple[str, set[str]]]


def read_talks(path: str) -> list[Talk]:
    with open(path, encoding="utf-8") as file:
        samples: list[dict[str, Any]] = json.load(file)
    return [_talk(sample) for sample in samples]


def _talk(sample: dict[str, Any]) -> Talk:
    said = sample["conversation"]
    numbers = sorted(int(name.removeprefix("session_")) for name in said if re.fullmatch(r"session_\d+", name))
    sessions = []
    for number in numbers:
        at = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        sessions.append([
            Turn(turn["dia_id"], turn["speaker"], _text(turn), int(at.timestamp() * 1000) + 60_000 * place)
            for place, turn in enumerate(said[f"session_{number}"])
        ])  # fmt: skip
    known = {turn.name for session in sessions for turn in session}
    asked = []
    for one in sample["qa"]:
        wanted = {name for part in one.get("evidence", ()) for name in _TURN_ID.findall(part)} & known
        if wanted and one["category"] != _ADVERSARIAL:
            asked.append((one["question"], wanted))
    return Talk([session for session in sessions if session], asked)


def _text(turn: dict[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['speaker']}: {turn['text']}" + (f" [image: {caption}]" if caption else "")


def ranks_of_talk(talks: list[Talk]) -> Ranks:
    """What was found of each question, best first, with what answers it."""
    ranks: Ranks = []
    for talk in talks:
        first = talk.sessions[0][0].speaker
        with tempfile.TemporaryDirectory() as scratch:
            store = Store(scratch)
            names: dict[tuple[str, int], str] = {}
            for number, session in enumerate(talk.sessions, 1):
                item_id, card, steps = _trail(store, f"session {number}", session, first)
                names.update({(item_id, at): name for at, name in enumerate(steps)})
                store.put([(item_id, card)])
            for question, wanted in talk.asked:
                found = store.project.recall(question, limit=_DEPTHS[-1], filters=Filters(kinds=("prompt", "answer")))
                ranks.append(([names[hit.item_id, hit.part] for hit in found.hits], wanted))
            store.close()
    return ranks


def _trail(store: Store, name: str, session: list[Turn], first: str) -> tuple[str, dict[str, Any], list[str]]:
    builder = TrailBuilder(name.encode().ljust(32, b"\0"), store.project.journal.objects.put)
    for turn in session:
        builder.add("PROMPT" if turn.speaker == first else "SAY", turn.text, at_ms=turn.at_ms)
    item_id, card = store.card(name, "claude-code", name, builder, [turn.at_ms for turn in session])
    return item_id, card, [turn.name for turn in session]


def ranks_of_plain_talk(talks: list[Talk]) -> Ranks:
    """The same by plain FTS5."""
    ranks: Ranks = []
    for talk in talks:
        turns = [turn for session in talk.sessions for turn in session]
        texts = [turn.text for turn in turns]
        ranks += [([turns[at].name for at in plain_search(texts, question)], wanted) for question, wanted in talk.asked]
    return ranks


def any_of(ranks: Ranks, depth: int) -> float:
    """Percentage of questions with any of their evidence among the first ``depth``."""
    return 100 * sum(not wanted.isdisjoint(found[:depth]) for found, wanted in ranks) / max(1, len(ranks))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recall_talk", description="How well recall finds a turn.")
    parser.add_argument("file", metavar="FILE", help="conversations with questions, in the form of LoCoMo")
    talks = read_talks(parser.parse_args().file)
    turns = sum(len(session) for talk in talks for session in talk.sessions)
    print(
        f"question → turns ({len(talks)} conversations, {turns:,} turns, {sum(len(t.asked) for t in talks)} questions)"
    )
    print(f"{'':58}" + " ".join(f"{name:>6}" for name in ("R@1", "R@5", "R@10", "MRR", "any@10")))
    for name, ranks in (("plain FTS5", ranks_of_plain_talk(talks)), ("recall", ranks_of_talk(talks))):
        figures = figures_of(ranks, _DEPTHS)
        print(table_row(name, (*figures.at, figures.mrr, any_of(ranks, _DEPTHS[-1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
