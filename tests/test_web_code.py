"""The pages of the code: the tree map and its table, symbols and files, the impact of changes."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest

from browser_support import MISSING, Browser
from code_page_project import make_shop
from periplus.base.errors import EnvironmentFailure, NotFoundError, UsageError
from periplus.code.code_map import CodeMap
from periplus.code.queries.file_sizes import FileSize, file_sizes
from periplus.journal import Layout
from periplus.memory.coordination.claims import Asked as Claim
from periplus.memory.writing.remember import Memory
from periplus.project import Project
from periplus.web.background import Background
from periplus.web.pages.code.folders import (
    children_of,
    folder_at,
    folder_tree,
    greatest_value,
    levelled,
    sums_by_folder,
    tiles_of,
)
from periplus.web.pages.code.impact import impact
from periplus.web.pages.code.measures import CLAIMED, PLANNED, legend_of, level_of, measured, scale_of, value_text
from periplus.web.pages.code.opening import code_map, command_line, lacks_of
from periplus.web.pages.code.symbol import symbol
from periplus.web.pages.code.tree import tree
from periplus.web.pages.model import Query
from periplus.web.rendering.treemap import TILES_MAX, treemap
from web_support import ADA, Site, asked

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull}
DAY_S = 86_400
browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def git(folder, *words):
    done = subprocess.run(["git", *words], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def index(project):
    """Bring the code map up to date, however slow the machine is: the pages wait for a moment only."""
    with CodeMap(project.top, Layout(project.root).code, environment=ENVIRONMENT, budget_s=120) as opened:
        opened.view(with_graph=True)


@pytest.fixture
def shop(tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    make_shop(folder, ENVIRONMENT)
    Project.init(str(folder))
    with Project.open(str(folder), ADA) as project:
        index(project)
        yield project


def page(shop, function, base, **query):
    made = asked(shop, base, **{f"{name}_": value for name, value in query.items()})
    return function(
        made._replace(context=made.context._replace(now_ms=lambda: int(time.time() * 1000), environment=ENVIRONMENT))
    )


def write(shop, path, text):
    place = os.path.join(shop.top, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write(text)


# -- folders -----------------------------------------------------------------------------------------------------------


def sized(*paths):
    return [FileSize(path, 10, 2, "python", "parsed", False) for path in paths]


def test_a_chain_of_folders_is_shown_as_one():
    root = folder_tree(sized("src/main/java/a.py", "src/main/java/b.py", "top.py"))
    shown = children_of(root, lambda _path: 0)
    assert [(one.name, one.path, one.files, one.lines, one.bytes) for one in shown] == [
        ("src/main/java/", "src/main/java", 2, 4, 20), ("top.py", "top.py", 1, 2, 10),
    ]  # fmt: skip
    assert folder_at(root, "src/main").files_below == 2
    assert folder_at(root, "src/other") is None


def test_values_are_summed_or_the_greatest_counts():
    values = {"a/b/c.py": 2, "a/d.py": 3, "a/b/": 1}
    assert sums_by_folder(values, is_sum=True) == {"a/b/c.py": 2, "a/b": 3, "a": 6, "": 6, "a/d.py": 3}
    assert sums_by_folder(values, is_sum=False)["a"] == 3


def test_fifty_thousand_files_are_few_tiles_in_no_time():
    files = sized(*(f"p{number % 40}/m{number % 1_000}/f{number}.py" for number in range(50_000)))
    begun = time.perf_counter()
    root = folder_tree(files)
    tiles = tiles_of(
        root, lambda _path: 1, "lines", lambda name, _amount, _value: name, lambda path, _is: f"/code?path={path}"
    )
    assert greatest_value(tiles) == 1
    picture = treemap(tiles, label="x")
    assert time.perf_counter() - begun < 5  # it takes a third of a second
    assert 100 < picture.count("<rect") <= TILES_MAX


# -- measures ----------------------------------------------------------------------------------------------------------


def measure(shop, by):
    made = asked(shop, "/code")
    context = made.context._replace(now_ms=lambda: int(time.time() * 1000), environment=ENVIRONMENT)
    with code_map(made) as opened:
        files = {file.path: file.is_changed for file in file_sizes(opened.view())}
    return measured(made._replace(context=context), by, files)


def test_memory_counts_for_its_file_whether_about_it_or_a_symbol(shop):
    shop.remember(Memory("decision", "Prices are whole cents", about=("src/shop/prices.py",)))
    shop.remember(Memory("trap", "Rounding is banker's", about=("src/shop/prices.py:with_vat",)))
    shop.remember(Memory("note", "All of the shop is old", about=("src/shop",)))
    found = measure(shop, "memory").lookup()
    assert found("src/shop/prices.py") == 2
    assert found("src/shop") == 3
    assert found("src/shop/cart.py") == 0
    ended = shop.remember(Memory("trap", "Prices are guessed", about=("src/shop/prices.py",))).entity
    shop.work.change_state([ended.item_id], "resolved", reason="said twice")
    assert measure(shop, "memory").lookup()("src/shop/prices.py") == 2


def test_claims_and_open_steps_are_work(shop):
    assert measure(shop, "work").values == {}
    shop.work.claim(Claim(("src/shop/cart.py", "tests/**/*.py", "web")))
    found = measure(shop, "work").lookup()
    assert found("src/shop/cart.py") == found("tests/test_cart.py") == found("web/cart.ts") == CLAIMED
    assert found("src/shop/prices.py") == 0
    assert value_text("work", PLANNED, 0) == "an open step is about it"


def test_globs_of_claims_are_compared_with_every_file(shop):
    with open(os.fsencode(shop.top) + b"/src/shop/\xff.py", "w", encoding="utf-8"):
        pass
    shop.work.claim(Claim(("**/c?rt.*", "src/{none,other}/**")))
    found = measure(shop, "work")
    assert found.values == {"src/shop/cart.py": CLAIMED, "web/cart.ts": CLAIMED}
    assert found.note == ""


def test_memory_is_stale_where_its_code_changed(shop):
    shop.remember(Memory("decision", "Prices are whole cents", about=("src/shop/prices.py",)))
    shop.remember(Memory("decision", "A cart is a list", about=("src/shop/cart.py",)))
    assert measure(shop, "stale").values == {}
    write(shop, "src/shop/prices.py", "VAT = 0.2\n")
    assert measure(shop, "stale").values == {"src/shop/prices.py": 1}


def test_age_is_that_of_the_last_commit_or_edit(shop):
    now_s = int(time.time())
    found = measure(shop, "age").lookup()
    assert now_s - 600 < found("src/shop/prices.py") <= now_s
    assert level_of("age", found("src"), now_s) == 6
    assert [level_of("age", now_s - days * DAY_S, now_s) for days in (0, 5, 20, 60, 200, 900)] == [6, 5, 4, 3, 2, 1]
    assert level_of("age", 0, now_s) == 0
    assert value_text("age", now_s - 3 * DAY_S, now_s) == "3 days ago"


def test_levels_of_counts():
    for by in ("memory", "stale"):
        assert [level_of(by, count, 0) for count in (0, 1, 2, 4, 8, 16, 17)] == [0, 1, 2, 3, 4, 5, 6]
    assert [text for _, text in legend_of("memory")] == ["none", "1", "2", "3–4", "5–8", "9–16", "more"]


def test_levels_are_stretched_where_counts_are_great():
    assert [scale_of("memory", greatest) for greatest in (0, 32, 33, 64, 65, 1_000)] == [1, 1, 2, 2, 4, 32]
    assert scale_of("work", 10**6) == scale_of("age", 10**9) == 1
    assert [level_of("memory", count, 0, 4) for count in (0, 1, 4, 5, 8, 64, 65)] == [0, 1, 1, 2, 2, 5, 6]
    assert [text for _, text in legend_of("memory", 4)] == ["none", "1–4", "5–8", "9–16", "17–32", "33–64", "more"]


def test_small_folders_are_tiles_and_large_ones_groups():
    files = [
        *sized(*(f"many{number}/f.py" for number in range(150))),
        FileSize("big/a.py", 10, 500, "python", "parsed", False),
    ]
    tiles = tiles_of(folder_tree(files), len, "lines", lambda name, _amount, _value: name, lambda path, _is: f"/{path}")
    assert [tile.name for tile in tiles if tile.tiles] == ["big/"]
    assert len(tiles) == 151
    picture = treemap(levelled(tiles, lambda value: value % 7), label="x")
    assert picture.count("<rect") == 152
    assert 'class="tile level-1"' in picture  # of big/a.py, which is as long as it is valuable


# -- the tree map ------------------------------------------------------------------------------------------------------


def test_the_tree_map_shows_files_with_links(shop):
    shop.remember(Memory("decision", "Prices are whole cents", about=("src/shop/prices.py",)))
    view = page(shop, tree, "/code")
    assert view.command == "periplus code status"
    assert [row.name for row in view.values["rows"]] == ["src/shop/", "tests/", "web/"]
    assert [row.value for row in view.values["rows"]] == ["1 about it", "no memory", "no memory"]
    picture = view.values["picture"]
    assert 'href="/code/symbol?path=src%2Fshop%2Fprices.py"' in picture
    assert "src/shop/prices.py: 13 lines, 1 about it" in picture
    inside = page(shop, tree, "/code", path="src/shop", by="age", sort="name")
    assert [row.name for row in inside.values["rows"]] == ["__init__.py", "cart.py", "prices.py"]
    assert {row.value for row in inside.values["rows"]} == {"today"}


def test_the_table_is_sorted(shop):
    write(shop, "a.py", "x = 1\n" * 90)
    index(shop)
    for sort, first in (
        ("", "a.py"),
        ("lines", "web/"),
        ("name", "a.py"),
        ("-name", "web/"),
        ("-files", "src/shop/"),
        ("-bytes", "src/shop/"),
    ):
        assert page(shop, tree, "/code", sort=sort).values["rows"][0].name == first, sort
    assert page(shop, tree, "/code", of="bytes").values["sort"] == "-bytes"


def test_bytes_show_files_that_are_no_code(shop):
    write(shop, "README.md", "# Shop\n" * 40)
    assert "README.md" not in page(shop, tree, "/code").values["picture"]
    assert "README.md: 280 B" in page(shop, tree, "/code", of="bytes").values["picture"]


@pytest.mark.parametrize("path", ["..", "src/../..", "a//b", "./src", "\0"])
def test_paths_stay_in_the_project(shop, path):
    with pytest.raises(UsageError, match="does not lie in the project"):
        page(shop, tree, "/code", path=path)
    with pytest.raises((UsageError, NotFoundError)):
        page(shop, symbol, "/code/symbol", path=path)


def test_an_absolute_path_is_one_of_the_project(shop):
    with pytest.raises(NotFoundError):
        page(shop, symbol, "/code/symbol", path="/etc/passwd")
    with pytest.raises(NotFoundError):
        page(shop, tree, "/code", path="/etc")


def test_a_link_out_of_the_project_is_not_followed(shop, tmp_path):
    (tmp_path / "secret.py").write_text("def secret():\n    return 'outside'\n")
    os.symlink(tmp_path / "secret.py", os.path.join(shop.top, "linked.py"))
    index(shop)
    try:
        view = page(shop, symbol, "/code/symbol", path="linked.py")
    except NotFoundError:
        return
    assert "outside" not in str(view.values["excerpt"])


def test_a_project_without_git_is_shown_too(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), ADA) as project:
        index(project)
        view = page(project, tree, "/code", by="age")
        assert "a.py" in [row.name for row in view.values["rows"]]
        assert "there is no git" in view.values["note"]
        told = page(project, impact, "/code/impact")
        assert told.values["answer"] is None
        assert not told.values["lacks"].has_git


def test_an_index_that_cannot_be_written_is_said(shop):
    place = Layout(shop.root).code
    for name in os.listdir(os.path.dirname(place)):
        os.unlink(os.path.join(os.path.dirname(place), name))
    os.rmdir(os.path.dirname(place))
    with open(os.path.dirname(place), "w", encoding="utf-8"):
        pass
    with pytest.raises(EnvironmentFailure, match="cannot be written"):
        page(shop, tree, "/code")


def test_the_first_look_at_a_project_is_done_in_the_background(tmp_path):
    make_shop(tmp_path, ENVIRONMENT)
    Project.init(str(tmp_path))
    gate, ended = threading.Event(), threading.Event()

    def opening():
        assert gate.wait(60)
        return Project.open(str(tmp_path), ADA)

    background = Background(opening, ended.set)
    with Project.open(str(tmp_path), ADA) as project:
        made = asked(project, "/code")
        made = made._replace(context=made.context._replace(environment=ENVIRONMENT, background=background))
        before = tree(made._replace(query=Query([("path", "src")])))
        assert before.values["rows"] == []
        assert before.values["lacks"].waiting >= 4
        gate.set()
        assert ended.wait(60)
        assert background.job("the index of the code").error is None
        after = tree(made)
        assert [row.name for row in after.values["rows"]] == ["src/shop/", "tests/", "web/"]
        assert after.values["lacks"].waiting == 0
    background.close()


def test_missing_parsers_are_counted(shop):
    with code_map(asked(shop, "/code")) as opened:
        opened.view()
        found = lacks_of(opened, [FileSize("a.go", 1, 0, "go", "no_parser", False), *sized("b.py")])
    assert found.without_parser == 1


# -- symbols -----------------------------------------------------------------------------------------------------------


def test_a_symbol_with_its_neighbours_and_memory(shop):
    shop.remember(Memory("trap", "Rounding is banker's", about=("src/shop/prices.py:with_vat",)))
    shop.remember(Memory("decision", "Prices are whole cents", about=("src/shop/prices.py",)))
    shop.remember(Memory("note", "Total is slow", about=("src/shop/prices.py:total",)))
    view = page(shop, symbol, "/code/symbol", path="src/shop/prices.py", name="with_vat")
    values = view.values
    assert view.command == "periplus code show src/shop/prices.py:with_vat"
    assert values["symbol"].kind == "function"
    assert values["excerpt"].first_line == 6
    assert "with_vat" in values["excerpt"].html
    assert [(row.name, row.path, row.role, row.grade, row.line) for row in values["callers"]] == [
        ("total", "src/shop/prices.py", "call", "proven", 13)
    ]
    assert [(row.name, row.grade) for row in values["called"]] == [("VAT", "proven")]
    assert {hit.text for hit in values["memory"]} == {"Rounding is banker's", "Prices are whole cents"}
    assert "total" in values["picture"]


def test_sessions_that_changed_the_file_lead_to_their_step(shop):
    write(shop, "src/shop/prices.py", "VAT = 0.2\n")
    with shop.record(title="Raise the tax", folder=shop.top, checkpoints=False) as run:
        run.step("FILE_READ", path="src/shop/cart.py")
        run.step("FILE_EDIT", path="src/shop/prices.py", old="VAT = 0.19", new="VAT = 0.2")
    changed = page(shop, symbol, "/code/symbol", path="src/shop/prices.py").values["sessions"]
    assert [hit.address for hit in changed] == [f"/sessions/{changed[0].id}?from=1"]
    assert page(shop, symbol, "/code/symbol", path="src/shop/cart.py").values["sessions"] == []


def test_a_claim_on_the_symbol_is_said(shop):
    shop.work.claim(Claim(("src/shop/prices.py:total",)))
    assert [
        one.holder
        for one in page(shop, symbol, "/code/symbol", path="src/shop/prices.py", name="total").values["claims"]
    ] == ["ada"]
    assert page(shop, symbol, "/code/symbol", path="src/shop/prices.py", name="with_vat").values["claims"] == []
    assert len(page(shop, symbol, "/code/symbol", path="src/shop/prices.py").values["claims"]) == 1


def test_a_file_has_an_outline(shop):
    view = page(shop, symbol, "/code/symbol", path="src/shop/cart.py")
    assert [(one.id.name, depth) for one, _, depth in view.values["rows"]] == [
        ("Cart", 0), ("Cart.__init__", 1), ("Cart.add", 1), ("Cart.checkout", 1),
    ]  # fmt: skip
    assert view.values["rows"][3][1] == "/code/symbol?path=src%2Fshop%2Fcart.py&name=Cart.checkout"
    assert view.values["excerpt"].left_out == 0


def test_what_is_not_there_is_not_found(shop):
    for query in (
        {"path": "src/none.py"},
        {"path": "src/shop/cart.py", "name": "none"},
        {"path": "src/shop/cart.py", "name": "Cart", "ordinal": 2},
        {},
    ):
        with pytest.raises(NotFoundError):
            page(shop, symbol, "/code/symbol", **query)


def test_secrets_in_code_are_masked(shop):
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    write(shop, "src/keys.py", f"def key():\n    return '{key}'\n\n\ndef use():\n    return key() + '{key}'\n")
    index(shop)
    for query in ({"name": "key"}, {"name": "use"}, {}):
        view = page(shop, symbol, "/code/symbol", path="src/keys.py", **query)
        assert key not in str(view.values)
        assert "[masked:" in str(view.values["excerpt"])


def test_commands_are_quoted_for_a_shell():
    assert command_line("code", "show", "a b$(x):f") == "periplus code show 'a b$(x):f'"
    assert command_line("code", "show", "-x.py") == "periplus code show -- -x.py"
    assert command_line("code", "impact", "--diff") == "periplus code impact --diff"


# -- the search --------------------------------------------------------------------------------------------------------


def test_symbols_are_found_by_name(shop):
    view = page(shop, tree, "/code", q="checkout")
    assert view.template == "code/found.html"
    assert {one.id.name for one, _ in view.values["rows"][:2]} == {"checkout", "Cart.checkout"}
    assert page(shop, tree, "/code", q="checkout", path="src").values["total"] == 1
    assert page(shop, tree, "/code", q="nothing_like_it").values["total"] == 0


# -- impact ------------------------------------------------------------------------------------------------------------


def test_the_impact_of_what_is_not_committed(shop):
    assert page(shop, impact, "/code/impact").values["changed"] == []
    with open(os.path.join(shop.top, "src/shop/prices.py"), encoding="utf-8") as file:
        text = file.read()
    write(shop, "src/shop/prices.py", text.replace("round(", "int("))
    index(shop)
    view = page(shop, impact, "/code/impact")
    values = view.values
    assert [one.name for one in values["changed"]] == ["with_vat"]
    found = {(row.name, row.depth, row.is_test) for row in values["rows"]}
    assert {("total", 1, False), ("Cart.checkout", 2, False), ("test_checkout_adds_the_tax", 3, True)} <= found
    assert [one.text for one in values["commands"]] == [
        "python -m pytest tests/test_cart.py::test_checkout_adds_the_tax"
    ]
    assert "node-test" in values["picture"]
    assert view.command == "periplus code impact --diff"
    assert page(shop, impact, "/code/impact", since="main").values["changed_total"] == 1


def test_the_impact_of_one_symbol(shop):
    values = page(shop, impact, "/code/impact", of="src/shop/prices.py:total").values
    assert {row.name for row in values["rows"]} >= {"Cart.checkout"}


@pytest.mark.parametrize("since", ["no-such-ref", "--output=/tmp/x", "-p", "x" * 300])
def test_a_wrong_revision_is_refused(shop, since):
    with pytest.raises(UsageError):
        page(shop, impact, "/code/impact", since=since)


def test_a_repository_without_a_commit_is_no_error(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("x = 1\n")
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), ADA) as project:
        index(project)
        view = page(project, impact, "/code/impact")
        assert "git cannot compare" in view.values["problem"]


# -- as a browser sees it ----------------------------------------------------------------------------------------------

HOSTILE_NAMES = (
    "<img src=x onerror=alert(1)>.py",
    "a\nb\u202egnp.py",
    "'\"&$(touch x)`.py",
    "\x1b[31mred.py",
    "sp ace/<b>/ünï.py",
    "-rf.py",
    "javascript:alert(1).js",
)


@pytest.mark.slow
def test_pages_of_hostile_names_are_whole_and_harmless(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    for number, name in enumerate(HOSTILE_NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            f"def f{number}():\n    '''<script>alert(1)</script> \u202e'''\n    return f{number}\n"
        )
    (folder / "tests.js").write_text("test('</a><script>alert(2)</script> \\u202e \u202e: x', () => { f() })\n")
    Project.init(str(folder))
    with Project.open(str(folder), ADA) as project:
        project.remember(Memory("note", "<script>alert(3)</script>", about=(HOSTILE_NAMES[0],)))
        index(project)
    with Site(folder) as site:
        seen = set()
        waiting = [
            "/code",
            "/code?by=age&of=bytes",
            "/code?by=work",
            "/code?by=stale",
            "/code/impact",
            "/code?q=f0",
            "/code?q=script",
        ]
        while waiting:
            address = waiting.pop()
            seen.add(address)
            got = site.get(address)
            assert got.status == 200, (address, got.text)
            assert "<script>alert" not in got.html
            assert "<img src=x" not in got.html
            assert " style=" not in got.html
            assert not set("\x1b\u202e") & set(got.html)
            links = [link for link in got.page.links() if link.startswith("/code/symbol")]
            waiting += [link for link in dict.fromkeys(links) if link not in seen and link not in waiting]
        assert len([address for address in seen if address.startswith("/code/symbol")]) >= 2 * len(HOSTILE_NAMES)
        assert site.get("/code?path=nowhere").status == 404
        assert site.get("/code?by=colour").status == 400
        assert site.get("/code/symbol?path=../../etc/passwd").status == 400


def test_the_pages_have_what_a_screen_reader_needs(shop):
    with Site(shop.folder) as site:
        for address in (
            "/code",
            "/code/symbol?path=src/shop/cart.py",
            "/code/symbol?path=src/shop/cart.py&name=Cart.checkout",
            "/code/impact",
            "/code?q=cart",
        ):
            found = site.get(address).page
            assert len(found.all("h1")) == 1, address
            assert len(found.all("table")) == len(found.all("caption")), address
            labelled = {one.attributes["for"] for one in found.all("label")}
            fields = {one.attributes["id"] for one in found.all("input") if one.attributes.get("type") != "hidden"}
            assert fields <= labelled, address
            assert all(
                one.attributes.get("aria-label") or one.attributes.get("aria-hidden") or "x" in one.attributes
                for one in found.all("svg")
            ), address


@pytest.mark.slow
@browser
def test_symbols_are_found_while_they_are_typed_and_opened_by_keys(shop, tmp_path):
    with Site(shop.folder) as site, Browser(tmp_path) as window:
        window.go(site.server.url)
        window.go(f"http://127.0.0.1:{site.port}/code")
        window.keys("/")  # moves to the search of this page
        window.keys("with_v")
        window.until("return document.querySelector('#found h2')?.innerText === '1 symbol'")
        assert window.run("return document.activeElement.id") == "q"
        window.run("document.activeElement.blur()")
        window.keys("j")
        assert window.run("return document.activeElement.innerText") == "with_vat"
        window.run("document.activeElement.click()")
        window.until("return document.querySelector('h1')?.innerText === 'with_vat'")
        assert "total" in window.text("main")
        assert window.complaints() == []


@pytest.mark.slow
@browser
def test_a_narrow_screen_has_nothing_beside_it(shop, tmp_path):
    shop.remember(Memory("decision", "A long anchor", about=("src/shop/prices.py",)))
    write(shop, "src/shop/prices.py", "def total():\n    return " + "1 + " * 200 + "1\n")
    index(shop)
    with Site(shop.folder) as site, Browser(tmp_path, width=390, dark=True) as window:
        window.go(site.server.url)
        for address in (
            "/code",
            "/code?by=age&path=src/shop",
            "/code/symbol?path=src/shop/prices.py",
            "/code/symbol?path=src/shop/prices.py&name=total",
            "/code/impact",
            "/code?q=total",
        ):
            window.go(f"http://127.0.0.1:{site.port}{address}")
            assert window.run("return document.documentElement.scrollWidth") == 390, address
