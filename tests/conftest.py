from __future__ import annotations

import collections
import os
import random
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from periplus.base.clock import FixedClock
from periplus.project import Project
from sampling import is_in_third, seed, third_of_commit
from support import ADA, BOB, make_store, open_journal

seed()  # before the processes of pytest-xdist begin: they take it over

# How long one example takes, or the making of many, says more of what else this machine does than of us. The suite tries the same
# examples each time; PERIPLUS_EXHAUSTIVE looks for new ones.
settings.register_profile(
    "periplus",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="PERIPLUS_EXHAUSTIVE" not in os.environ,
)
settings.load_profile("periplus")


@pytest.fixture
def root(tmp_path):
    return make_store(tmp_path)


@pytest.fixture
def journal(root):
    with open_journal(root) as journal:
        yield journal


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def ada(tmp_path, clock):
    """A new project, opened by ada."""
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with Project(root, ADA, clock=clock) as project:
        yield project


@pytest.fixture
def bob(ada, clock):
    """The project of ada, opened by bob as well."""
    with Project(ada.root, BOB, clock=clock) as project:
        yield project


def pytest_addoption(parser):
    parser.addoption(
        "--tier",
        choices=("quick", "test", "ci", "all"),
        default="all",
        help="quick: about a minute; test: all but slow tests; ci: test and a third of the slow ones, by commit; all (default)",
    )
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


def pytest_report_header(config):
    return f"tier: {config.getoption('tier')}; seed of samples: {seed()} (PERIPLUS_SEED repeats it)"


def pytest_collection_modifyitems(config, items):
    keep_tier(config, items)
    if (given := config.getoption("shuffle")) is not None:
        drawn = random.Random(given)
        by_file = collections.defaultdict(list)
        for item in items:
            by_file[item.path].append(item)
        files = list(by_file.values())
        drawn.shuffle(files)
        for tests in files:
            drawn.shuffle(tests)
        items[:] = [item for tests in files for item in tests]


def keep_tier(config, items):
    tier = config.getoption("tier")
    if tier == "all":
        return
    third = third_of_commit() if tier == "ci" else None
    kept, left = [], []
    for item in items:
        if item.get_closest_marker("slow") is not None:
            is_wanted = third is not None and is_in_third(item.nodeid, third)
        else:
            is_wanted = tier != "quick" or item.get_closest_marker("quick") is not None
        (kept if is_wanted else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_terminal_summary(terminalreporter):
    """Say how many tests were skipped, by reason: a test that did not run protects nothing."""
    reasons = collections.Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    if reasons:
        terminalreporter.write_line(f"{sum(reasons.values())} skipped:")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"  {count} × {reason}")


def _reason(report):
    return report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)


def pytest_configure():
    # A shell starts what runs in its background with interruptions ignored, and nohup does so with hang-ups; children inherit
    # both. In tests programs are interrupted and hung up as at a terminal. A handler of Python's is not inherited: this process
    # survives a hang-up, its children have the system's default.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or "PERIPLUS_NOHUP" in os.environ:
        os.environ["PERIPLUS_NOHUP"] = "1"  # for the processes of pytest-xdist
        signal.signal(signal.SIGHUP, lambda *_: None)
