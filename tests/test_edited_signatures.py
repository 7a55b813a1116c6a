"""Edits of signatures: which of them a text changes, what depends on them, and what a hook says before."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cli_support import Shell, git
from hook_support import hook
from periplus.code.code_map import CodeMap
from periplus.code.index.glance import HEADED, defines, has_view
from periplus.code.model import KINDS
from periplus.code.queries.dependents import changed_heads, dependents_of, dependents_text, most_dependents
from periplus.code.queries.edited_text import changed_lines, words_near
from periplus.code.queries.view import SymbolId
from periplus.interop.git_history.git_process import environment
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.project import Project
from shop_project import make_shop

PRICES = "src/shop/prices.py"
CALLED = f"{PRICES}:price_of is called by 4, 1 of them in other packages: periplus code refs {PRICES}:price_of"
LONG = """\
package shop;

class Long {
    int area(
        int width,
        int height
    ) {
        return width * height;
    }
}
"""


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "home").mkdir()
    shell = Shell(make_shop(tmp_path / "shop"), tmp_path / "home")
    shell("init")
    shell("remember", "The shop opens at nine")
    return shell


@pytest.fixture
def view(shop):
    with CodeMap(
        os.fspath(shop.folder), os.fspath(shop.folder / "index.sqlite"), environment=environment()
    ) as code_map:
        yield code_map.view()


def test_kinds_with_signatures_are_where_the_index_has_them():
    named = "function method class interface struct trait macro record constructor object protocol"
    assert {KINDS[number] for number in HEADED} == set(named.split())


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a b c", "a b c", None),
        ("a b c", "a x c", (2, 2)),
        ("a b c", "a c", (2, 2)),
        ("a c", "a b c", (1, 2)),
        ("a b", "x a b", (1, 1)),
        ("a b", "a b x", (2, 2)),
        ("a a", "a a a", (1, 1)),
        ("", "x", (1, 1)),
        ("a b c d", "x b c y", (1, 4)),
    ],
)
def test_lines_that_differ(before, after, lines):
    assert changed_lines(before.split(" "), after.split(" ")) == lines


def test_words_of_a_line_and_of_the_head_that_it_belongs_to():
    lines = LONG.split("\n")
    assert words_near(lines, 6, 6) == ["int", "height", "area"]
    assert words_near(lines, 7, 7) == ["int", "area"]
    assert words_near(lines, 8, 8) == ["return", "width", "height"]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("def price_of(item, amount):", "def price_of(item, amount, rebate=0):", ["price_of"]),
        ("def price_of(item, amount):", "def price_of(\n    item,\n    amount,\n):", []),
        ("def price_of(item, amount):", "def price_of(item, amount):  # in cents", []),
        ("def price_of(item, amount):", "def price_of(item, amount) -> int:", ["price_of"]),
        ("def price_of(item, amount):", "def cost_of(item, amount):", ["price_of"]),
        ("    return item.cost * amount", "    return item.cost", []),
        ('    """Return the price of some items."""\n', "", []),
        ("def price_of(", "def first():\n    return 1\n\n\ndef price_of(", []),
        ("class Till:", "class Till(Base):", ["Till"]),
        ("    def total(self, items):", "    def total(self):", ["Till.total"]),
        ("items)\n", "items)\n\n    def more(self):\n        return 1\n", []),
    ],
)
def test_signatures_that_an_edit_changes(view, shop, old, new, changed):
    before = (shop.folder / PRICES).read_text()
    assert old in before
    found = changed_heads(view, PRICES, before, before.replace(old, new, 1))
    assert [one.name for one in found] == changed


def test_nothing_is_said_of_a_text_that_is_not_the_files(view, shop):
    before = (shop.folder / PRICES).read_text()
    assert changed_heads(view, PRICES, f"\n{before}", before.replace("amount", "count")) == []


def test_dependents_are_counted_by_where_they_are(view):
    one = dependents_of(view, SymbolId(PRICES, "price_of"))
    assert one == (SymbolId(PRICES, "price_of"), 4, 1, 1, False)
    assert dependents_text(one) == "used by 4, 1 of them in other packages and 1 in tests"
    assert dependents_text(one._replace(tests=0, calls=True)) == "called by 4, 1 of them in other packages"
    assert dependents_text(one._replace(elsewhere=0)) == "used by 4, 1 of them in tests"
    assert dependents_of(view, SymbolId(PRICES, "nothing")) is None
    (first, *others) = most_dependents(view, PRICES, 3, float("inf"))
    assert first.symbol.name == "price_of"
    assert [other.symbol.name for other in others] == []
    assert most_dependents(view, PRICES, 3, 0.0) == []
    assert most_dependents(view, "tests/test_prices.py", 3, float("inf")) == []


def test_the_glance_knows_views_and_names_and_nothing_of_damage(view, shop):
    index, root = os.fspath(shop.folder / "index.sqlite"), os.fspath(shop.folder)
    assert has_view(index, root)
    assert not has_view(index, f"{root}/src")
    assert defines(index, root, PRICES, ["return", "price_of"])
    assert not defines(index, root, PRICES, ["return", "items"])
    assert not defines(index, root, "src/web/pages.py", ["price_of"])
    assert not defines(index, root, PRICES, [])
    (shop.folder / "damaged.sqlite").write_bytes(b"no database" * 100)
    assert not has_view(os.fspath(shop.folder / "damaged.sqlite"), root)
    assert not has_view(os.fspath(shop.folder / "none.sqlite"), root)


# -- hooks -------------------------------------------------------------------------------------------------------------

OLD, NEW = "def price_of(item, amount):", "def price_of(item, amount, rebate=0):"


def told(shop, *, tool="Edit", session="s", path=PRICES, cwd=None, **arguments):
    arguments = arguments or {"old_string": OLD, "new_string": NEW}
    document = {"session_id": session, "cwd": os.fspath(cwd or shop.folder), "tool_name": tool, "tool_use_id": "t",
                "tool_input": {"file_path": os.fspath(path), **arguments}}  # fmt: skip
    done = hook("PreToolUse", document, cwd=cwd or shop.folder)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (shop.folder / ".periplus/hooks/notes").exists()
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""


def called_by(count):
    """The test of the project only names the function: without it, all call it."""
    return f"What this edit reaches:\n- {PRICES}:price_of is used by {count}, 1 of them in other packages and 1 in tests: periplus code refs {PRICES}:price_of"


def test_a_hook_says_what_a_new_signature_reaches(shop):
    assert told(shop) == "", "there is no index"
    assert not (shop.folder / ".periplus/cache/code.sqlite").exists()
    shop("code", "status")
    assert told(shop) == called_by(4)
    assert told(shop) == "", "it was told"
    assert told(shop, session="other") == called_by(4)
    edits = [
        {"old_string": "\n\n\nclass", "new_string": "\n\n\n# a till\nclass"},
        {"old_string": OLD, "new_string": NEW},
    ]
    assert told(shop, tool="MultiEdit", session="several", edits=edits) == called_by(4)
    assert told(shop, session="camel", oldString=OLD, newString=NEW) == called_by(4)
    (shop.folder / "src/web/more.py").write_text(
        "from shop.prices import price_of\n\n\ndef more():\n    return price_of(1, 2)\n"
    )
    assert told(shop).startswith(f"What this edit reaches:\n- {PRICES}:price_of is used by 5, 2 of them"), (
        "as files are now"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"old_string": "item.cost * amount", "new_string": "item.cost"},
        {"old_string": "class Till:", "new_string": "class Till(Base):"},  # nothing uses it
        {"old_string": "not there", "new_string": "x"},
        {"old_string": OLD, "new_string": 3},
        {"content": "x = 1\n"},
    ],
)
def test_a_hook_is_silent_about_other_edits(shop, arguments):
    shop("code", "status")
    assert told(shop, **arguments) == ""


def test_a_hook_never_fills_a_cold_or_outdated_index(shop):
    shop("code", "status")
    for number in range(60):
        (shop.folder / f"src/web/new_{number}.py").write_text(f"def new_{number}():\n    return {number}\n")
    assert told(shop) == ""
    beside = shop.folder.parent / "beside"
    subprocess.run(["git", "worktree", "add", "-q", beside], cwd=shop.folder, check=True, capture_output=True)
    assert told(shop, cwd=beside) == "", "that worktree was never asked about"
    with CodeMap(os.fspath(beside), os.fspath(shop.folder / ".periplus/cache/code.sqlite"), environment=environment(), budget_s=60,
                 is_hurried=True) as code_map:  # fmt: skip
        code_map.view()
        assert code_map.freshness.is_behind
    git(shop.folder, "add", "-A")
    git(shop.folder, "commit", "-q", "-m", "more")
    assert json.loads(shop("code", "find", "new_1", "--json").out)["symbols"]
    assert told(shop) == called_by(4)


def test_rules_and_what_an_edit_reaches_are_said_together(shop):
    shop("code", "status")
    with Project.open(os.fspath(shop.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        project.remember(Memory("trap", "Costs are in cents", about=(PRICES,)))
    said = told(shop)
    assert "Costs are in cents" in said
    assert said.endswith(called_by(4))
    assert told(shop) == ""


def test_an_edit_of_a_body_loads_no_code_map(shop):
    shop("code", "status")
    code = (
        "import sys\nfrom periplus.cli.hook_entry import tell_hook\ntell_hook(sys.argv[1:])\n"
        "sys.stdout.write(chr(10) + chr(32).join(sorted(sys.modules)))\n"
    )

    def loaded(old, new):
        document = {"session_id": "s", "cwd": os.fspath(shop.folder), "tool_name": "Edit",
                    "tool_input": {"file_path": PRICES, "old_string": old, "new_string": new}}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code, "PreToolUse"], input=json.dumps(document).encode(), cwd=shop.folder,
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        return set(done.stdout.decode().split("\n")[-1].split())

    heavy = {
        "msgspec",
        "periplus.code.code_map",
        "periplus.code.model",
        "periplus.project.project",
        "periplus.journal.journal",
    }
    assert loaded("item.cost * amount", "item.cost") & heavy == set()
    assert "periplus.code.code_map" in loaded(OLD, NEW)
    assert "periplus.project.project" not in loaded(OLD, NEW), "no rule and no claim is about the file"


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_says_what_depends_on_the_symbols_of_a_file(shop):
    assert shop.json("check", PRICES).dependents == [], "there is no index"
    assert not (shop.folder / ".periplus/cache/code.sqlite").exists()
    shop("code", "status")
    (one,) = shop.json("check", PRICES, "README.md", "src").dependents
    assert (one.symbol, one.dependents, one.other_packages, one.tests) == (f"{PRICES}:price_of", 4, 1, 1)
    said = f"{PRICES}:price_of is used by 4, 1 of them in other packages and 1 in tests"
    assert shop("check", PRICES).lines[0] == said
    assert shop("check", f"{PRICES}:price_of", cwd=shop.folder).lines[0] == said
    assert shop("check", "prices.py:price_of", cwd=shop.folder / "src/shop").lines[0] == said
    assert shop.json("check", f"{PRICES}:Till").dependents == []


def test_check_of_a_symbol_looks_at_claims_on_it(shop):
    bob = {"PERIPLUS_AGENT": "bob"}
    shop("claim", "take", f"{PRICES}:Till", env=bob)
    assert shop.json("check", f"{PRICES}:price_of").claims == []
    (checked,) = shop.json("check", f"{PRICES}:Till.total", code=1).claims
    assert checked.path == f"{PRICES}:Till.total"
    assert len(shop.json("check", PRICES, code=1).claims) == 1
    with Project.open(os.fspath(shop.folder), Writer("ada", "who_0000000000000000", "", 1)) as project:
        project.remember(Memory("trap", "Costs are in cents", about=(PRICES,)))
    found = shop.json("check", f"{PRICES}:price_of")
    assert found.paths == [f"{PRICES}:price_of"]
    assert [rule.text for rule in found.rules] == ["Costs are in cents"]
