from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

from support import make_store, open_journal

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


def pytest_configure():
    # A shell starts what runs in its background with interruptions ignored, and children inherit that; in tests
    # programs are interrupted as at a terminal.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
