"""References of the code map beside those of jedi, on a small sample."""

from __future__ import annotations

import pytest
from bench.code_references_python import measure

pytest.importorskip("jedi")
pytestmark = pytest.mark.slow


def test_references_agree_with_an_oracle_that_knows_types():
    reports = measure(("click", "jinja2", "pluggy"), symbols=60, lines=8, workers=1)
    for name, report in reports.items():
        assert report.symbols == 20, name
        judged = sum(count for (_, verdict), count in report.counts.items() if verdict in ("reference", "other"))
        assert judged >= 60, name
        assert report.precision("proven") >= 95, report.disagreements
        assert report.precision("likely") >= 75, report.disagreements
        assert report.recall("proven", "likely") >= 85, report.disagreements
