"""How well recall and related find on real work records, beside plain FTS5 in the same run; see ``recall_quality``.

The records are evaluation data and not part of this repository: without them this part says so and gives no rows.
"""

from __future__ import annotations

__all__ = ["RECORDS", "measure"]

import os
from collections.abc import Iterator
from typing import Final

from bench.measure import Bench, Figure, Row, row
from bench.recall_quality import Figures, measure_files, measure_plain_sessions, measure_sessions
from bench.samples import REPOSITORY

RECORDS: Final = os.path.join(os.path.dirname(REPOSITORY), "shared", "recall")


def measure(bench: Bench) -> Iterator[Row]:
    if not os.path.isfile(os.path.join(RECORDS, "records.jsonl")):
        bench.say(f"left out: there are no work records in {RECORDS}")
        return
    if bench.is_quick:
        bench.say("left out: what is measured does not depend on the size, and takes a minute")
        return
    bench.say("commit subject to session")
    yield from _rows("commit → session", (1, 5, 10), measure_sessions(RECORDS), measure_plain_sessions(RECORDS))
    bench.say("prompts to files")
    ours, plain = measure_files(RECORDS)
    yield from _rows("prompts → files", (5, 10, 20), ours, plain)


def _rows(what: str, depths: tuple[int, int, int], ours: Figures, plain: Figures) -> Iterator[Row]:
    for depth, mine, theirs in zip(depths, ours.at, plain.at, strict=True):
        yield row("recall-work", f"{what}, {ours.count} asked, R@{depth}", "%", Figure(mine, mine, mine), "plain FTS5",
                  Figure(theirs, theirs, theirs), better="higher")  # fmt: skip
