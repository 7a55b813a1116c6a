"""Pages of symbols and of the map, made of the code map where it is at hand."""

from __future__ import annotations

import os
import sqlite3
from functools import partial

import pytest

from cli_support import Shell
from periplus.agent.perception.file_ranking import Task
from periplus.agent.perception.project_map import MapPages
from periplus.agent.perception.symbol_pages import SymbolPages
from periplus.project.knowledge.code import fresh_view
from shop_project import make_shop

PAGE = "@periplus/symbols/price_of.md"


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(make_shop(tmp_path / "shop"), tmp_path / "home")
    shell("init")
    return shell


def index_of(shop):
    return os.fspath(shop.folder / ".periplus" / "cache" / "code.sqlite")


def code_of(shop):
    return partial(fresh_view, index_of(shop), os.fspath(shop.folder))


def symbols(shop, **options):
    return SymbolPages(os.fspath(shop.folder), code=code_of(shop), **options)


def test_uses_have_grades_where_the_code_map_is_at_hand(shop):
    by_words = SymbolPages(os.fspath(shop.folder)).read(PAGE)
    assert symbols(shop).read(PAGE) == by_words
    assert not os.path.exists(index_of(shop))
    shop("code", "status")
    (shop.folder / "src/web/guess.py").write_text(
        "from shop.prices import Till\n\n\ndef guess(thing):\n    return thing.total([])\n\n\ndef sure():\n    return Till().total([])\n\n\nclass Cart:\n    def total(self):\n        return 0\n"
    )
    text = symbols(shop).read(PAGE)
    assert "## Defined (1)\nsrc/shop/prices.py:4-6 function price_of\n    def price_of(item, amount):\n" in text
    assert "## Used (7 lines in 4 files: 7 proven)" in text
    assert "src/shop/orders.py\n  1 proven: from shop.prices import price_of\n  5 proven: return [price_of" in text
    member = symbols(shop).read("@periplus/symbols/Till::total.md")
    assert "method Till.total" in member
    assert "## Used (2 lines in 1 file: 1 likely, 1 named)" in member
    assert "src/web/guess.py\n  9 likely: return Till().total([])\n  5 named: return thing.total([])" in member


def test_what_the_code_map_does_not_define_is_looked_for_as_ever(shop):
    shop("code", "status")
    assert "README.md" in symbols(shop).read("@periplus/symbols/Shop.md")
    assert "as a word" in symbols(shop).read("@periplus/symbols/Shop.md")


def test_what_may_not_be_read_stands_on_no_page(shop):
    (shop.folder / "src/web/.secret.py").write_text("from shop.prices import price_of\nKEY = price_of\n")
    shop("code", "status")
    text = symbols(shop).read(PAGE)
    assert "src/web/pages.py" in text
    assert ".secret.py" not in text
    kept = symbols(shop, unread=lambda path: path == "src/web").read(PAGE)
    assert "src/web" not in kept
    assert "src/shop/orders.py" in kept
    hidden = symbols(shop, unread=lambda path: path == "src/shop/prices.py").read(PAGE)
    assert "as a word" in hidden
    assert "src/shop/prices.py" not in hidden


def test_an_index_that_is_behind_is_not_asked(shop):
    shop("code", "status")
    for number in range(40):
        (shop.folder / f"src/web/new_{number}.py").write_text(f"def new_{number}():\n    return {number}\n")
    assert "as a word" in symbols(shop).read(PAGE)
    with code_of(shop)() as view:
        assert view is None


def test_the_map_takes_symbols_from_the_code_map(shop):
    def page():
        return MapPages(os.fspath(shop.folder), lambda: Task(""), code=code_of(shop)).read("@periplus/map/src/shop.md")

    before = page()
    assert "src/shop/prices.py 214 bytes: function price_of 4-6, class Till 9-11 (total)" in before
    shop("code", "status")
    assert page() == before
    db = sqlite3.connect(index_of(shop))
    db.execute("UPDATE blob SET facts = (SELECT facts FROM blob WHERE size = 214) WHERE size = 102")
    assert db.total_changes == 1
    db.commit()
    db.close()
    assert "src/shop/orders.py 102 bytes: function price_of 4-6" in page(), "it was not parsed"
