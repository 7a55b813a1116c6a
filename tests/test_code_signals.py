"""Knowledge of the code map in ``related`` and ``brief``: what depends on files, and their tests."""

from __future__ import annotations

import os

import pytest

from cli_support import Shell
from shop_project import make_shop

PRICES = "src/shop/prices.py"


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(make_shop(tmp_path / "shop"), tmp_path / "home")
    shell("init")
    return shell


def indexed(shop):
    shop("code", "status", "--wait", "60")  # with its graph
    return shop


def test_without_an_index_nothing_is_made_for_the_question(shop):
    found = shop.json("related", PRICES)
    assert (found.tests, found.commands) == ([], [])
    assert "Tests to run" not in shop("brief", "change price_of").out
    assert not os.path.exists(shop.folder / ".periplus/cache/code.sqlite")


@pytest.mark.parametrize("wait", ["5", "60"])
def test_files_that_use_a_file_are_related_to_it_with_a_reason(shop, wait):
    """With the graph of the index, and without."""
    shop("code", "status", "--wait", wait)
    found = shop.json("related", PRICES)
    why = {one.path: one.why for one in found.files}
    assert why["src/shop/orders.py"] == [f"uses what {PRICES} defines"]
    assert why["src/web/pages.py"] == [f"uses what {PRICES} defines"]
    assert f"uses what {PRICES} defines" in why["tests/test_prices.py"]
    assert found.tests == ["tests/test_prices.py:test_price"]
    assert found.commands == ["python -m pytest tests/test_prices.py::test_price"]
    assert "tests to run\n  python -m pytest tests/test_prices.py::test_price" in shop("related", PRICES).out
    pages = {one.path: one.why for one in shop.json("related", "src/web/pages.py").files}
    assert pages["src/shop/orders.py"] == ["defines what src/web/pages.py uses"]


def test_a_task_is_told_files_by_the_graph_and_their_tests(shop):
    indexed(shop)
    found = shop.json("related", "--task", "round the price of items")
    why = {one.path: one.why for one in found.files[:2]}
    assert "the code map ranks it for the task" in why[PRICES]
    assert found.tests == ["tests/test_prices.py:test_price"]
    brief = shop("brief", "round the price of items").out
    assert f"\n- {PRICES}\n" in brief[brief.index("## Files likely to change") : brief.index("## Tests to run")]
    assert "## Tests to run\n- tests/test_prices.py: 1 of its tests name what the likeliest files define\n" in brief


def test_files_are_told_as_they_are_now(shop):
    indexed(shop)
    (shop.folder / "src/web/more.py").write_text(
        "from shop.prices import price_of\n\n\ndef more():\n    return price_of(1, 2)\n"
    )
    assert "src/web/more.py" in {one.path for one in shop.json("related", PRICES).files}
    for number in range(40):
        (shop.folder / f"src/web/new_{number}.py").write_text(f"def new_{number}():\n    return {number}\n")
    assert shop.json("related", PRICES).tests == [], "the index is behind"
