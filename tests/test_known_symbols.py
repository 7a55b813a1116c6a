"""Symbols that the code map has are not parsed again; what was edited since, what it has not, and damage are."""

from __future__ import annotations

import os
import sqlite3

from cli_support import Shell
from periplus.code import symbols_of
from periplus.code.index.known_symbols import KnownSymbols
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from shop_project import FILES, make_shop

PRICES = "src/shop/prices.py"
DATA = FILES[PRICES].encode()
ORDERS = FILES["src/shop/orders.py"].encode()


def shop_at(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(make_shop(tmp_path / "shop"), tmp_path / "home")
    shell("init")
    return shell, shell.folder / ".periplus" / "cache" / "code.sqlite"


def with_facts_of_prices(index):
    """As if all contents had the facts of one: what is answered by them was not parsed."""
    db = sqlite3.connect(index)
    db.execute("UPDATE blob SET facts = (SELECT facts FROM blob WHERE size = ?) WHERE symbols", (len(DATA),))
    db.commit()
    db.close()


def test_contents_in_the_index_are_answered_from_it(tmp_path):
    shell, index = shop_at(tmp_path)
    known = KnownSymbols(os.fspath(index))
    assert known(PRICES, DATA) == symbols_of(PRICES, DATA)
    assert not index.exists()
    shell("code", "status")
    assert known(PRICES, DATA) == symbols_of(PRICES, DATA)
    assert known(PRICES, DATA + b"X = 1\n").named("X")
    assert known("README.md", b"# Shop\n") == symbols_of("README.md", b"# Shop\n")
    with_facts_of_prices(index)
    assert known("src/shop/orders.py", ORDERS).found == known(PRICES, DATA).found
    assert known("src/shop/orders.py", ORDERS + b"\n") == symbols_of("src/shop/orders.py", ORDERS + b"\n")


def test_damage_is_not_believed(tmp_path):
    shell, index = shop_at(tmp_path)
    shell("code", "status")
    known = KnownSymbols(os.fspath(index))
    db = sqlite3.connect(index)
    db.execute("UPDATE blob SET facts = x'00'")
    db.commit()
    db.close()
    assert known(PRICES, DATA) == symbols_of(PRICES, DATA)
    index.write_bytes(b"damage" * 1_000)
    assert known(PRICES, DATA) == symbols_of(PRICES, DATA)


def test_staleness_and_claims_use_them(tmp_path):
    shell, index = shop_at(tmp_path)
    (shell.folder / "src/shop/orders.py").write_text(FILES["src/shop/orders.py"].replace("items):", "items, at=0):"))
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        trap = project.remember(Memory("trap", "Orders are sorted", about=("src/shop/orders.py:order",))).entity
    (shell.folder / "src/shop/orders.py").write_bytes(ORDERS.replace(b"def order(items):", b"def order(things):"))
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        (standing,) = project.ground().standings(trap)
        assert standing.state == "changed", "its symbol is still there"
    shell("code", "status")
    with_facts_of_prices(index)
    with Project.open(os.fspath(shell.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        (standing,) = project.ground().standings(trap)
        assert standing.state == "gone", "the index says so"
    claim = shell.json("claim", "take", "src/shop/orders.py:price_of").claim
    assert claim.lines == [[4, 6]]
