"""References of the code map beside those of jedi, on a small sample."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.code_references_python import Report, measure

pytest.importorskip("jedi")
pytestmark = pytest.mark.slow


def test_references_agree_with_an_oracle_that_knows_types():
    reports = measure(("click", "jinja2", "pluggy"), symbols=60, lines=8, workers=1)
    assert {name: report.symbols for name, report in reports.items()} == {"click": 20, "jinja2": 20, "pluggy": 20}
    counts: Counter[tuple[str, str]] = Counter()
    for report in reports.values():
        counts.update(report.counts)
    whole = Report(60, counts)
    listed = [one for report in reports.values() for one in report.disagreements]
    assert sum(count for (_, verdict), count in counts.items() if verdict in ("reference", "other")) >= 180
    assert whole.precision("proven") >= 97, listed
    assert whole.precision("likely") >= 80, listed
    assert whole.recall("proven", "likely") >= 90, listed
