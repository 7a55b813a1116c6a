"""Questions that name symbols of the code find the memory about them and their files."""

from __future__ import annotations

import pytest

from cli_support import Shell
from periplus.memory.text.named_symbols import symbol_words
from shop_project import make_shop

PRICES = "src/shop/prices.py"


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(make_shop(tmp_path / "shop"), tmp_path / "home")
    shell("init")
    return shell


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("why is price_of slow?", ["price_of"]),
        ("Till.total or Till::total", ["Till.total"]),
        ("does PriceList#sum and getItem work", ["PriceList.sum", "getItem"]),
        ("how do we hash passwords. Quickly", []),
        ("_private and __all__", ["_private", "__all__"]),
        ("", []),
    ],
)
def test_words_that_look_like_code(text, words):
    assert symbol_words(text) == words


def test_memory_about_a_named_symbol_is_found(shop):
    shop("remember", "Costs are in cents", "--type", "trap", "--about", f"{PRICES}:price_of")
    shop("remember", "The drawer sticks", "--about", f"{PRICES}:Till.total")
    shop("remember", "Rates change at noon", "--about", PRICES)
    shop("remember", "Pages are cached", "--about", "src/web/pages.py")

    def found(question, code=0):
        return [
            (hit.text, hit.why)
            for hit in shop.json("recall", question, code=code).hits
            if hit.why[0].startswith("about ")
        ]

    file = ("Rates change at noon", [f"about {PRICES}"])
    assert found("what about price_of?") == [], "there is no index"
    shop("code", "status")
    assert found("what about price_of?") == [("Costs are in cents", [f"about {PRICES}:price_of"]), file]
    assert found("Till.total") == [("The drawer sticks", [f"about {PRICES}:Till.total"]), file]
    hits = shop.json("recall", "cached pages of price_of").hits
    assert [hit.text for hit in hits[:3]] == ["Costs are in cents", "Rates change at noon", "Pages are cached"]
    assert found("not_there", code=1) == []
    assert next(hit.text for hit in shop.json("recall", "price_of", "--type", "note").hits) == "Rates change at noon"
