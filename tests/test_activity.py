"""The activity of a journal says what a count over all records says."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from periplus.base.clock import FixedClock, parse_ms
from periplus.base.text.list_counts import facets_of
from periplus.journal import Writer
from periplus.project import Project

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.web_store import make_web_store, sizes_at

ANN = Writer.named("ann")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_web_store(str(tmp_path_factory.mktemp("activity") / "project"), sizes_at(0)._replace(records=600))


def test_store_without_records_has_no_activity(tmp_path: Path) -> None:
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), ANN) as project:
        found = project.activity(3)
    assert ([one.records for one in found.days], found.types, found.is_whole) == ([0, 0, 0], (), True)


@pytest.mark.parametrize("days", [1, 30, 90, 400])
def test_activity_counts_all_records_of_the_days(root: str, days: int) -> None:
    now = date(2026, 6, 1)
    with Project(root, ANN, clock=FixedClock(parse_ms(f"{now}T12:00:00Z") or 0)) as project:
        found = project.activity(days)
        records = project.journal.index.records("1", (), -1)
    span = [(now - timedelta(back)).isoformat() for back in range(days - 1, -1, -1)]
    held = [one for one in records if span[0] <= one.ts[:10] <= span[-1]]
    counts = Counter(one.ts[:10] for one in held)
    assert [(one.day, one.records) for one in found.days] == [(day, counts[day]) for day in span]
    assert found.types == facets_of(Counter(one.item_type for one in held))
    assert found.is_whole
