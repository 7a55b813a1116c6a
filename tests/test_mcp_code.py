"""The tool ``code`` of the MCP server: the rows of ``periplus code --json``, within the budget."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from cli_support import Shell
from mcp_support import Served
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.coordination.claims import Asked
from periplus.project import Project
from periplus.server.mcp.catalogue import TOOLS
from periplus.server.mcp.tool_calls import Caller, Desk
from shop_project import make_shop
from test_mcp_server import run, told

TOOLS_MAX = 9


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "home").mkdir()
    return Shell(make_shop(tmp_path / "shop"), tmp_path / "home")


@pytest.fixture
def desk(shop):
    shop("init")
    made = Desk(lambda writer: Project.open(os.fspath(shop.folder), writer), host="here")
    yield made
    made.close()


def asked(desk, **arguments):
    reply = desk.call(Caller("probe", "one"), "code", arguments)
    assert not reply.is_error, reply.text
    return reply.text, reply.data


def test_there_are_at_most_nine_tools():
    assert len(TOOLS) <= TOOLS_MAX
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)


def test_rows_are_those_of_the_command_line(shop, desk):
    for action, of, rows in (("find", "price_of", "symbols"), ("impact", "price_of", "dependents")):
        document = json.loads(shop("code", action, of, "--json").out)
        _, data = asked(desk, action=action, of=of)
        assert data["entries"] == document[rows]
        assert data["schema"] == document["schema"]
    document = json.loads(shop("code", "search", "price of some items", "--json").out)
    _, data = asked(desk, action="search", of="price of some items")
    assert data["entries"] == document["hits"]
    assert data["entries"][0]["symbol"]["symbol"] == "src/shop/prices.py:price_of"
    (symbol,) = json.loads(shop("code", "refs", "price_of", "--json").out)["symbols"]
    text, data = asked(desk, action="refs", of="price_of")
    assert data["entries"] == [{"of": symbol["symbol"], **place} for place in symbol["places"]]
    assert data["counts"] == {"src/shop/prices.py:price_of": symbol["counts"]}
    assert "src/web/pages.py:6 proven  return order(items), price_of(items[0], 1)" in text


def test_a_symbol_is_shown_with_what_is_known_of_it(shop, desk):
    with Project.open(os.fspath(shop.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        trap = project.remember(Memory("trap", "Costs are in cents", about=("src/shop/prices.py:price_of",)))
        project.work.claim(Asked(("src/shop/prices.py:price_of",)))
    text, data = asked(desk, action="show", of="src/shop/prices.py:price_of")
    assert data["entries"][0]["text"].startswith("def price_of(item, amount):")
    assert f"memory: {trap.entity.item_id} Costs are in cents" in text
    assert "claimed: " in text
    assert "ada: src/shop/prices.py:price_of" in text
    assert "test: tests/test_prices.py:test_price" in text


def test_changes_are_followed_to_the_tests_to_run(shop, desk):
    (shop.folder / "src/shop/prices.py").write_text("def price_of(item, amount, rebate=0):\n    return item.cost\n")
    text, data = asked(desk, action="impact")
    assert "tests/test_prices.py:test_price" in data["tests"]
    assert any("tests/test_prices.py" in command for command in data["commands"])
    assert f"run: {data['commands'][0]}" in text
    _, data = asked(desk, action="find", of="price_of")
    assert data["entries"][0]["signature"] == "def price_of(item, amount, rebate=0)"


def test_files_uses_and_counts(shop, desk):
    text, data = asked(desk, action="outline", of=["src/shop/prices.py", "README.md"])
    assert [row["name"] for row in data["entries"][:3]] == ["price_of", "Till", "Till.total"]
    assert "README.md: unsupported" in text
    _, data = asked(desk, action="calls", of=os.fspath(shop.folder / "src/web/pages.py:page"))
    assert {row["symbol"] for row in data["entries"]} == {"src/shop/orders.py:order", "src/shop/prices.py:price_of"}
    text, data = asked(desk, action="status")
    assert data["entries"][0]["language"] == "python"


def test_a_map_has_the_files_of_the_task_first(shop, desk):
    text, data = asked(desk, action="map", of="round the price of items", budget=600)
    document = json.loads(shop("code", "map", "round the price of items", "--budget", "600", "--json").out)
    assert data["entries"][0]["path"] == document["files"][0]["path"]
    assert data["files_total"] == document["files_total"]
    assert "src/shop/prices.py\n  4: def price_of(item, amount)" in text
    assert asked(desk, action="map")[1]["entries"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"action": "show", "of": "nowhere"}, 'code(action="search", of=…) finds symbols'),
        ({"action": "show"}, "nothing is named in `of`"),
        ({"action": "outline", "of": "../x.py"}, "outside of the project"),
        ({"action": "impact", "of": "price_of", "revision": "main"}, "Give one of them"),
        ({"action": "impact", "revision": "--output=x"}, 'revision="main"'),
        ({"action": "rename"}, "Allowed: "),
    ],
)
def test_a_refusal_says_what_to_call(desk, arguments, said):
    reply = desk.call(Caller("probe", "one"), "code", arguments)
    assert reply.is_error
    assert said in reply.text
    assert "periplus code" not in reply.text


def test_answers_keep_their_budget_and_are_paged(shop, desk):
    lines = "".join(f"def uses_{number}():\n    price_of(None, {number})\n" for number in range(300))
    (shop.folder / "src/shop/many.py").write_text(f"from shop.prices import price_of\n{lines}")
    for action in ("refs", "impact", "show", "outline", "calls", "find", "search", "map"):
        of = "src/shop/many.py" if action in ("outline", "calls") else "price_of"
        for budget in (100, 400, 4_000):
            text, data = asked(desk, action=action, of=of, budget=budget)
            assert estimate_tokens(text) <= budget, (action, budget)
            assert estimate_tokens(json.dumps(data, ensure_ascii=False)) <= budget, (action, budget)
    _, first = asked(desk, action="refs", of="price_of", budget=600)
    assert f"offset={len(first['entries'])}" in first["more"]
    _, then = asked(desk, action="refs", of="price_of", budget=600, offset=len(first["entries"]))
    keys = [{(row["path"], row["line"]) for row in page["entries"]} for page in (first, then)]
    assert keys[0]
    assert not keys[0] & keys[1]


@pytest.mark.slow
def test_a_client_asks_over_stdio(tmp_path):
    served = Served(tmp_path)
    shutil.rmtree(served.folder / ".git")
    make_shop(served.folder)

    async def talk():
        async with served.client(name="claude-code") as client:
            text, data = await told(client, "code", action="refs", of="price_of", grade="proven")
            assert data["counts"]["src/shop/prices.py:price_of"]["proven"] == len(data["entries"]) > 3
            assert "src/shop/orders.py:5 proven" in text

    run(talk)
    with served.project() as project:
        assert list(project.journal.entities("session")) == []  # questions begin no session
