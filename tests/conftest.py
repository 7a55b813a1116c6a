from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support import make_store, open_journal


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
