"""Pictures of the page: graphs, lanes, tree maps and charts as markup, bounded and harmless whatever the texts in them are."""

from __future__ import annotations

import itertools
import json
import random
import re
import time
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser_support import MISSING, Browser
from periplus.memory.writing.remember import Memory
from periplus.project import Project
from periplus.web.rendering.charts import POINTS_MAX, Series, chart
from periplus.web.rendering.graphs import LINKS_MAX, NODES_MAX, Link, Node, layered_graph
from periplus.web.rendering.lanes import COMMITS_MAX, Commit, commit_lanes
from periplus.web.rendering.layering import placed
from periplus.web.rendering.svg import fitting, local_address, text_width
from periplus.web.rendering.treemap import TILES_MAX, Tile, treemap
from web_support import ADA, Site

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202eevil\u2066 \x1b[31m \0",
    "line\nbreak\ttab\r",
    "' onload='x",
    "]]>&amp;<!--",
    "\ud800 lone",
    "",
    "x" * 100_000,
)
NEVER = re.compile(r"<script>|javascript:|\x1b|\0|[\u202a-\u202e\u2066-\u2069]")


def parsed(markup):
    """The picture as XML: what does not close or escape is found here."""
    return ET.fromstring(str(markup).encode())


def texts(root, tag):
    return ["".join(one.itertext()) for one in root.iter(tag)]


# -- the layout of graphs ----------------------------------------------------------------------------------------------


def test_a_chain_takes_one_layer_for_each_node():
    found = placed(3, [(0, 1), (1, 2)])
    assert [place.layer for place in found.places] == [0, 1, 2]
    assert len({place.position for place in found.places}) == 1  # straight


def test_a_long_link_passes_the_layers_between():
    found = placed(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert [place.layer for place in found.routes[3]] == [1, 2]
    assert found.routes[0] == ()
    for bend in found.routes[3]:
        assert all(place.position != bend.position for place in found.places if place.layer == bend.layer)


def test_a_cycle_is_drawn_with_one_link_backwards():
    found = placed(3, [(0, 1), (1, 2), (2, 0)])
    assert sorted(place.layer for place in found.places) == [0, 1, 2]


@given(
    st.integers(1, 24).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60, unique=True)
        )
    )
)
def test_nodes_of_a_layer_never_overlap(given_graph):
    count, pairs = given_graph
    links = [pair for pair in pairs if pair[0] != pair[1]]
    found = placed(count, links)
    assert found == placed(count, links)
    by_layer = {}
    for place in found.places:
        by_layer.setdefault(place.layer, []).append(place.position)
    for positions in by_layer.values():
        ordered = sorted(positions)
        assert all(second - first >= 1 - 1e-6 for first, second in itertools.pairwise(ordered))
    assert min(place.position for place in found.places) >= 0.5 - 1e-6


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_a_graph_has_links_titles_and_a_label():
    nodes = [Node("a", "first", "done", "/memory/a", "done"), Node("b", "second")]
    root = parsed(layered_graph(nodes, [Link("a", "b", text="needs")], label="Steps of a plan"))
    svg = root.find(".//svg")
    assert svg.get("aria-label") == "Steps of a plan"
    assert svg.get("role") == "group"  # an image would hide the link
    assert [one.get("href") for one in root.iter("a")] == ["/memory/a"]
    assert root.find(".//a").get("class") == "node node-done"
    assert texts(root, "title") == ["needs", "first — done", "second"]
    assert texts(root, "text") == ["first", "done", "second"]


def test_a_graph_without_links_is_an_image():
    assert parsed(layered_graph([Node("a", "x")], [], label="One")).find(".//svg").get("role") == "img"


def test_a_graph_of_nothing_is_a_picture_too():
    assert parsed(layered_graph([], [], label="None")).find(".//svg") is not None


def test_what_is_beyond_the_bound_is_counted():
    nodes = [Node(str(number), f"n{number}") for number in range(NODES_MAX + 7)]
    links = [Link(str(one), str(other)) for one in range(60) for other in range(60)]
    root = parsed(layered_graph(nodes, links, label="Many", more=3))
    assert len(list(root.iter("rect"))) == NODES_MAX
    assert texts(root, "figcaption") == ["10 more are not drawn"]
    assert sum(one.get("class") == "line" for one in root.iter("path")) == LINKS_MAX


def test_links_to_nothing_to_itself_and_second_ones_are_left_out():
    nodes = [Node("a", "a"), Node("b", "b"), Node("b", "again")]
    links = [Link("a", "b"), Link("a", "b"), Link("a", "a"), Link("a", "missing")]
    root = parsed(layered_graph(nodes, links, label="x"))
    assert sum(one.get("class") == "line" for one in root.iter("path")) == 1
    assert texts(root, "text") == ["a", "b"]


def test_the_same_graph_is_the_same_picture():
    chosen = random.Random(3)
    nodes = [Node(str(number), f"n{number}") for number in range(80)]
    links = [Link(str(chosen.randrange(80)), str(chosen.randrange(80))) for _ in range(200)]
    assert layered_graph(nodes, links, label="x") == layered_graph(nodes, links, label="x")


def test_all_of_a_graph_lies_within_the_picture():
    chosen = random.Random(5)
    nodes = [Node(str(number), f"n{number}", "note") for number in range(150)]
    links = [Link("0", str(number)) for number in range(1, 90)] + [
        Link(str(chosen.randrange(150)), str(chosen.randrange(150))) for _ in range(60)
    ]
    root = parsed(layered_graph(nodes, links, label="x"))
    svg = root.find(".//svg")
    width, height = float(svg.get("width")), float(svg.get("height"))
    boxes = [tuple(float(one.get(name)) for name in ("x", "y", "width", "height")) for one in root.iter("rect")]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for at, (x, y, w, h) in enumerate(boxes):
        assert not any(x < x2 + w2 and x2 < x + w and y < y2 + h2 and y2 < y + h for x2, y2, w2, h2 in boxes[at + 1 :])


def test_a_link_that_passes_below_all_nodes_lies_within_the_picture():
    links = [Link("new", "old"), Link("rule", "old"), Link("mail", "old"), Link("new", "trap"), Link("trap", "rule")]
    nodes = [Node(name, name, note="a note") for name in ("old", "new", "rule", "mail", "trap")]
    root = parsed(layered_graph(nodes, links, label="x"))
    height = float(root.find(".//svg").get("height"))
    curves = [part for one in root.iter("path") for part in re.findall(r"[MC]([\d. ]+)", one.get("d"))]
    assert 0 < max(float(y) for part in curves for y in part.split()[1::2]) < height


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(text):
    nodes = [Node("a", text, text, "javascript:alert(1)", title=text), Node(text or "b", text)]
    pictures = [
        layered_graph(nodes, [Link("a", text or "b", text=text)], label=text),
        commit_lanes([Commit("a", text, ("b",), text, "//evil.example/"), Commit("b", text)], label=text),
        treemap([Tile(text, 5, 1, "javascript:x", text, (Tile(text, 3, 2, "\\\\x", text), Tile("b", 4)))], label=text),
        chart("bars", ["2026-01-01"], [Series(text, (1,))], title=text, unit=text),
    ]
    for picture in pictures:
        root = parsed(picture)
        assert not NEVER.search(str(picture))
        assert all(one.get("href", "/").startswith("/") for one in root.iter("a"))
        assert not [name for one in root.iter() for name in one.attrib if re.match("on|style", name)]
        assert not list(root.iter("img"))
        assert len(picture) < 60_000


def test_a_class_is_no_place_for_texts():
    with pytest.raises(ValueError, match="no name of a class"):
        layered_graph([Node("a", "x", kind='x" onload="y')], [], label="x")


def test_only_addresses_of_this_site_are_links():
    assert local_address("/memory/x?a=1")
    assert local_address("?page=2")
    assert local_address("#L1")
    for address in ("//evil.example", "/\\evil.example", "https://x", "javascript:x", "\n/x", "/x\ny", ""):
        assert not local_address(address)


def test_labels_are_cut_to_what_fits():
    assert fitting("short", 12, 200) == "short"
    cut = fitting("a name that is far too long for its box", 12, 100)
    assert cut.endswith("…")
    assert text_width(cut, 12) <= 100
    assert text_width(fitting("日本語" * 20, 12, 100), 12) <= 100
    assert fitting("wide", 12, 5) == ""


# -- lanes -------------------------------------------------------------------------------------------------------------


def test_commits_stand_in_lanes_and_a_merge_has_two_lines():
    commits = [
        Commit("m", "merge", ("a", "b"), href="/x"), Commit("a", "left", ("r",)), Commit("b", "right", ("r",)), Commit("r", "root"),
    ]  # fmt: skip
    root = parsed(commit_lanes(commits, label="History"))
    assert texts(root, "text") == ["merge", "left", "right", "root"]
    xs = [float(one.get("cx")) for one in root.iter("circle")]
    assert xs[0] == xs[1] == xs[3]
    assert xs[2] > xs[0]
    assert len(list(root.iter("path"))) == 4


def test_a_parent_beyond_the_list_is_a_line_to_its_end_and_disorder_draws_none():
    height = float(parsed(commit_lanes([Commit("a", "x", ("gone",))], label="x")).find(".//svg").get("height"))
    assert f"V{height:g}" in str(commit_lanes([Commit("a", "x", ("gone",))], label="x"))
    assert "<path" not in str(commit_lanes([Commit("a", "x"), Commit("b", "y", ("a",))], label="x"))


def test_many_commits_are_bounded():
    commits = [
        Commit(str(number), "x", tuple(str(number + step) for step in range(1, 40)))
        for number in range(COMMITS_MAX + 5)
    ]
    picture = commit_lanes(commits, label="x")
    assert len(list(parsed(picture).iter("circle"))) == COMMITS_MAX
    assert "5 older ones are not drawn" in picture


# -- tree maps ---------------------------------------------------------------------------------------------------------


def areas(root):
    found = {}
    for one in root.iter("a"):
        box = one.find("rect")
        found[one.find("title").text] = [float(box.get(name).rstrip("%")) for name in ("x", "y", "width", "height")]
    return found


def test_areas_are_in_proportion_and_fill_the_picture():
    tiles = [Tile(f"t{size}", size, href="/x", title=str(size)) for size in (600, 300, 60, 40)]
    found = areas(parsed(treemap(tiles, label="x")))
    for size in (600, 300, 60, 40):
        _, _, width, height = found[str(size)]
        assert width * height / 10_000 == pytest.approx(size / 1000, rel=0.01)
    assert all(x + width <= 100.01 and y + height <= 100.01 for x, y, width, height in found.values())


def test_small_tiles_are_counted_in_one_without_colour():
    tiles = [Tile("big", 10**6, 6)] + [Tile(f"s{number}", 1, 6) for number in range(50)]
    root = parsed(treemap(tiles, label="x"))
    assert texts(root, "title") == ["big", "50 smaller ones"]
    assert [one.get("class") for one in root.iter("g")] == ["tile level-6", "tile rest"]
    many = [
        Tile(f"d{folder}", 0, tiles=tuple(Tile(f"f{number}", 1 + number % 9, 3) for number in range(200)))
        for folder in range(40)
    ]
    picture = treemap(many, label="x")
    assert len(list(parsed(picture).iter("rect"))) <= TILES_MAX
    assert " smaller" in picture


def test_a_tree_map_of_very_many_is_soon_made():
    tiles = [
        Tile(f"d{folder}", 0, tiles=tuple(Tile(f"f{number}", 1, 1) for number in range(200))) for folder in range(250)
    ]
    begun = time.perf_counter()
    treemap(tiles, label="x")
    assert time.perf_counter() - begun < 5  # it takes a twentieth of a second; this finds what is not linear


def test_a_tree_map_of_nothing_is_empty():
    assert "<rect" not in treemap([Tile("x", 0), Tile("y", 0, tiles=(Tile("z", 0),))], label="x")


# -- charts ------------------------------------------------------------------------------------------------------------


def test_a_chart_has_its_numbers_as_data_and_as_a_table():
    made = chart(
        "stacked",
        ["2026-01-01", "2026-01-02"],
        [Series("ada", (1, None)), Series("bob", (2.5, 4))],
        title="Cost",
        unit="$",
        digits=2,
    )
    root = parsed(made)
    data = json.loads(root.find("script").text)
    assert root.find("script").get("type") == "application/json"
    assert data["times"] == [1767225600, 1767312000]
    assert data["series"] == [{"name": "ada", "values": [1, None]}, {"name": "bob", "values": [2.5, 4]}]
    assert [texts(row, "td") for row in root.iter("tr")][1:] == [["", "$4.00"], ["$1.00", "$2.50"]]
    assert texts(root, "summary") == ["Cost as a table"]


def test_nothing_in_the_data_ends_its_element():
    made = chart("bars", ["2026-01-01"], [Series("</script><script>alert(1)//\u2028", (1,))], title="x")
    assert made.count("</script>") == 1
    assert json.loads(parsed(made).find("script").text)["series"][0]["name"].startswith("</script>")


def test_many_series_and_days_are_bounded():
    days = [f"{2000 + number // 365}-01-{1 + number % 28:02d}" for number in range(POINTS_MAX + 10)]
    made = chart("lines", days, [Series(f"s{number}", (1,) * len(days)) for number in range(9)], title="x")
    data = json.loads(parsed(made).find("script").text)
    assert len(data["times"]) == POINTS_MAX
    assert [one["name"] for one in data["series"]] == ["s0", "s1", "s2", "s3", "s4", "others"]
    assert data["series"][5]["values"][0] == 4


def test_wrong_series_are_refused():
    with pytest.raises(ValueError, match="one value for each day"):
        chart("bars", ["2026-01-01"], [Series("a", ())], title="x")
    with pytest.raises(ValueError):
        chart("bars", ["yesterday"], [Series("a", (1,))], title="x")


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_charts_are_drawn_in_the_page_s_colours_and_width(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    Project.init(str(folder))
    with Project.open(str(folder), ADA) as project:
        project.remember(Memory("note", "Something happened today"))
    with Site(folder) as site, Browser(tmp_path) as window:
        window.go(site.server.url)
        window.go(f"http://127.0.0.1:{site.port}/")
        window.until("return document.querySelector('figure.chart canvas')")
        light = window.run("return document.querySelector('figure.chart canvas').toDataURL()")
        assert window.run(
            "return document.querySelector('.u-wrap').clientWidth === document.querySelector('.chart-area').clientWidth"
        )
        window.devtools("Emulation.setDeviceMetricsOverride", width=500, height=900, deviceScaleFactor=1, mobile=False)
        window.until("return document.querySelector('.u-wrap').clientWidth < 480")
        window.devtools("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        window.until("return document.querySelector('figure.chart canvas').toDataURL() === arguments[0]", light)
        window.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        window.until("return document.querySelector('figure.chart canvas').toDataURL() !== arguments[0]", light)
        assert window.run("return document.querySelectorAll('.chart-area')[0].children.length") == 1
        assert window.complaints() == []
