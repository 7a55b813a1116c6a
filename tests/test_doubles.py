"""The file layers that stop and fail: no call that changes a disk may go past them, or a test of every call tests some."""

from __future__ import annotations

import inspect

import pytest

from faulty_files import ERRORS, FaultyFiles, PowerFiles
from periplus.base.files import Files
from support import StoppingFiles

# No part of what the disk holds depends on these: a close, a word about this boot, advice that bytes set out for the disk.
HARMLESS = {"close", "boot_id", "begin_sync"}
CHANGES = {name for name, _ in inspect.getmembers(Files, inspect.isfunction) if not name.startswith("_")} - HARMLESS
# What only lies outside of stores is reached by an open folder and a name in it; of times and reserved room no test asks.
NOT_IN_STORES = {name for name in CHANGES if name.endswith("_at")} | {"touch", "reserve"}


@pytest.mark.parametrize(
    ("double", "left_out"),
    [(StoppingFiles, set()), (FaultyFiles, set()), (PowerFiles, NOT_IN_STORES)],
    ids=["stopping", "faulty", "power"],
)
def test_no_call_goes_past_them(double, left_out):
    assert {"open", "write", "sync_data", "replace", "link", "make_folder"} <= CHANGES
    assert {name for name in CHANGES if name not in vars(double)} == left_out


def test_each_call_that_fails_has_its_errors():
    assert {name.removesuffix("_at") for name in CHANGES} <= ERRORS.keys()
