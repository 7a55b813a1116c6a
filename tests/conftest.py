from __future__ import annotations

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
