"""Config files as text: whatever stands in them, only what was meant changes, and a cut is the inverse of an insertion."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
import tomllib

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from periplus.base.errors import FormatError, PeriplusError, RefusedError
from periplus.interop.agents.config_parts import (
    TOML_COMMENT,
    BlockPart,
    Entry,
    JsonPart,
    TomlHooksPart,
    TomlItemPart,
    TomlPart,
    YamlHooksPart,
    YamlPart,
    put,
    standing,
    starts,
    take,
)
from periplus.interop.agents.editing.jsonc_editing import append_item, parse, remove, set_member
from periplus.interop.agents.editing.markdown_block import find_block, put_block, remove_block
from periplus.interop.agents.editing.toml_editing import parse_toml, put_table, remove_table

MANY = 5_000 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 300
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
keys = st.one_of(texts, st.sampled_from(["mcpServers", "hooks", "periplus", "a", "//", "/*"]))
numbers = st.one_of(st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False, width=32))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)
blanks = st.sampled_from(
    ["", "", "", " ", "  ", "\t", "\n", "\n  ", "\n\n", "\r\n", "// one\n", " // two\r\n", "/* a */", "/*\n * b\n */"]
)
calm = settings(max_examples=MANY // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def documents(draw, value=None):
    """A value as somebody wrote it down: with blanks, comments and commas where they may stand."""

    def write(value):
        if isinstance(value, dict):
            entries = [f"{json.dumps(key)}{draw(blanks)}:{draw(blanks)}{write(one)}" for key, one in value.items()]
        elif isinstance(value, list):
            entries = [write(one) for one in value]
        else:
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        inner = ",".join(draw(blanks) + entry + draw(blanks) for entry in entries) or draw(blanks)
        comma = "," + draw(blanks) if entries and draw(st.booleans()) else ""
        return ("{%s}" if isinstance(value, dict) else "[%s]") % (inner + comma)

    held = draw(st.dictionaries(keys, values, max_size=4)) if value is None else value
    return draw(st.sampled_from(["", "\ufeff"])) + draw(blanks) + write(held) + draw(blanks), held


def is_added_to(before, after):
    """But for blanks, of which those go that stand alone between brackets."""
    rest = iter(after)
    return all(char in rest for char in before if not char.isspace())


def told(error, path=None):
    """It says what is safe, and where it is wrong."""
    assert error.safe
    assert path is None or (error.path == path and (error.line or error.offset is not None))


@pytest.mark.slow
@calm
@given(documents())
def test_what_was_written_is_read(document):
    text, held = document
    assert parse(text.encode(), "f").value == held


@pytest.mark.slow
@calm
@given(documents(), st.lists(keys, min_size=1, max_size=3, unique=True), values, st.booleans())
@example(("{}", {}), ["a"], 1, False)
@example(("{ // c\n}", {}), ["a", "b"], [], True)
@example(('{"a": 1 // c\n}', {"a": 1}), ["b"], {"c": [1, {"d": 2}]}, False)
@example(('{\n  "a": 1, /* x */ // c\n}', {"a": 1}), ["b"], 2, False)
def test_an_entry_is_added_and_cut_out_again(document, path, value, is_item):
    """Nothing of the text goes, nothing else of the value changes, and cutting takes away what was added, of the value and the text."""
    text, held = document
    before = parse(text.encode(), "f")
    node = before.root
    for depth in range(len(path)):
        node = before.find(tuple(path[: depth + 1]))
        if node is None:
            break
    else:
        return  # it is there
    try:
        after = append_item(before, tuple(path), value) if is_item else set_member(before, tuple(path), value)
    except RefusedError:
        assert before.find(tuple(path[:depth])).kind != "object", "on the way stands what is no object"
        return
    assert is_added_to(before.text, after.text)
    assert after.mark == before.mark
    wanted = [value] if is_item else value
    for key in reversed(path[depth + 1 :]):
        wanted = {key: wanted}
    inner = expected = json.loads(json.dumps(held))
    for key in path[:depth]:
        inner = inner[key]
    inner[path[depth]] = wanted
    assert after.value == expected
    again = remove(after, tuple(path[: depth + 1]))
    assert again.value == held
    assert "".join(again.text.split()) == "".join(before.text.split()), "but for blanks, the text is as it was"


@pytest.mark.slow
@calm
@given(documents())
@example(('{// one\n"":null/*\n * b\n */,\n"0":null}', {"": None, "0": None}))
def test_any_entry_is_cut_out_alone(document):
    text, held = document
    before = parse(text.encode(), "f")
    for key in held:
        after = remove(before, (key,))
        assert after.value == {name: one for name, one in held.items() if name != key}
        for comment in ("// one", "// two", "/* a */", " * b"):
            outside = before.text.count(comment) - before.text[
                before.find((key,)).start : before.find((key,)).end
            ].count(comment)
            assert after.text.count(comment) >= outside - 2, "at most those around it go"


PART = JsonPart(
    "f", "server", "codex",
    (
        Entry(("mcpServers", "periplus"), {"command": "periplus", "args": ["mcp"]}),
        Entry(("hooks", "Stop"), {"hooks": [{"type": "command", "command": "periplus hook Stop --agent codex"}]}, is_item=True),
    ),
)  # fmt: skip


@pytest.mark.slow
@calm
@given(documents())
def test_a_part_goes_in_and_out(document):
    """Either it is refused, and says so, or it is in, once, and out again."""
    text, held = document
    data = text.encode()
    try:
        after = put(PART, data, "f")
    except RefusedError:
        assert any(not isinstance(held.get(name, {}), dict) for name in ("mcpServers", "hooks")) or (
            "periplus" in held.get("mcpServers", {}) or "Stop" in held["hooks"]
        )
        return
    assert standing(PART, after, "f") == "current"
    assert put(PART, after, "f") == after
    assert parse(take(PART, after, "f", data), "f").value == held


@settings(max_examples=MANY, deadline=None)
@given(st.binary(max_size=60) | st.text('{}[]",:/*\\\n\r\t 01e.-truefalsnN\x00\ufeffé', max_size=60).map(str.encode))
def test_hostile_json_is_read_or_refused(data):
    try:
        held = parse(data, "f")
    except FormatError as error:
        told(error, path="f")
        return
    assert held.data == data
    try:
        assert set_member(held, ("periplus",), 1).value["periplus"] == 1
    except RefusedError as refused:
        told(refused)


# -- JSON5 -----------------------------------------------------------------------------------------------------------

JSON5 = JsonPart(
    "f", "server", "openclaw", (Entry(("mcp", "servers", "periplus"), {"command": "periplus", "args": ["mcp"]}),), dialect="json5"
)  # fmt: skip
json5_scalars = [
    "'one'", "'it\\'s \"x\"'", '"it\'s"', "'a\\\nb'", "'a\\\r\nb'", "'\\x41\\v\\0\\u00e9\\q'", "'\\ud83d\\ude00'", "'// no comment'", "'\u2028'",
    "0x1F", "-0Xaf", "+1", ".5", "5.", "+.5e2", "-Infinity", "Infinity", "NaN", "1e3", "true", "null", "12345678901234567890", "[]", "{}", "[1, 'a',]",
]  # fmt: skip
json5_keys = ["a", "$b_1", "'q'", '"d"', "é", "\\u0061b", "mcp", "servers", "periplus", "true", "'x y'", "NaN"]
json5_blanks = st.sampled_from(
    ["", "", " ", "\n", "\t", "\u00a0", "\v", "// it's\n", "/* ' */", "\r\n", "// \u00e9\u2028", "\ufeff"]
)


@st.composite
def json5_documents(draw):
    def write(depth):
        if depth == 3 or draw(st.booleans()):
            return draw(st.sampled_from(json5_scalars))
        names = draw(st.lists(st.sampled_from(json5_keys), max_size=3, unique=True))
        entries = [f"{name}{draw(json5_blanks)}:{draw(json5_blanks)}{write(depth + 1)}" for name in names]
        inner = ",".join(draw(json5_blanks) + one + draw(json5_blanks) for one in entries) or draw(json5_blanks)
        return "{%s}" % (inner + ("," + draw(json5_blanks) if entries and draw(st.booleans()) else ""))

    body = write(0)
    while not body.startswith("{"):
        body = f"{{a: {body}}}"
    return draw(json5_blanks) + body + draw(json5_blanks)


SPOKEN = """
const vm = require("node:vm")
const shown = (key, value) => typeof value === "number" && !Number.isFinite(value) ? `number ${value}` : value
let text = ""
process.stdin.on("data", (part) => (text += part)).on("end", () => {
  const said = JSON.parse(text).map((one) => {
    try { return [JSON.parse(JSON.stringify(vm.runInNewContext(`(${one}\\n)`), shown))] } catch { return null }
  })
  process.stdout.write(JSON.stringify(said))
})
"""


def as_spoken(value):
    if isinstance(value, dict):
        return {key: as_spoken(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_spoken(one) for one in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isfinite(value):
        return "number " + {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
    return value


@pytest.mark.slow
def test_json5_is_what_javascript_says():
    """JSON5 is a part of JavaScript, whose interpreter judges: before and after, and of what is no JSON5 at all."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    texts = []

    @settings(max_examples=MANY, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(json5_documents())
    def collect(text):
        texts.append(text)

    collect()
    pairs = []
    for text in texts:
        before = parse(text.encode(), "f", "json5").value
        try:
            after = put(JSON5, text.encode(), "f")
        except RefusedError as refused:
            told(refused)
            continue
        assert is_added_to(text, after.decode())
        assert put(JSON5, after, "f") == after
        assert standing(JSON5, after, "f") == "current"
        again = take(JSON5, after, "f", text.encode()).decode()
        assert "".join(again.split()) == "".join(text.split())
        pairs += [(text, before), (after.decode(), parse(after, "f", "json5").value)]
    assert len(pairs) > 100
    done = subprocess.run(
        [node, "-e", SPOKEN], input=json.dumps([text for text, _ in pairs]), capture_output=True, text=True, check=True, timeout=120
    )  # fmt: skip
    for (text, value), said in zip(pairs, json.loads(done.stdout), strict=True):
        assert said == [json.loads(json.dumps(as_spoken(value)))] or "12345678901234567890" in text, text


@pytest.mark.parametrize(
    "text",
    ["{a: 01}", "{a: '\\1'}", "{a: 'b\nc'}", "{a-b: 1}", "{1: 2}", "{a: 0x}", "{a: +'b'}", "{a: tru}", "{a: 1e}", "{a: '\\x4'}", "{a: 1 b: 2}",
     "{,}", "{a: [,]}", "{a: undefined}", "{'a: 1}", "{a: /* b}", "{a: 1}}", "a: 1", "{a: " + "9" * 500 + "}", "{a: " + "[" * 200],
)  # fmt: skip
def test_what_is_no_json5_is_refused(text):
    with pytest.raises(FormatError, match="column") as caught:
        put(JSON5, text.encode(), "f")
    told(caught.value, path="f")


def test_json5_is_no_other_dialect():
    with pytest.raises(FormatError):
        parse(b"{a: 1}", "f")


# -- TOML ------------------------------------------------------------------------------------------------------------

LINES = [
    'model = "x"', "a.b = 1", "n = nan", "[features]", "[mcp_servers]", "[mcp_servers.docs]", 'command = "npx"', "args = [", '  "a", # b',
    "]", "[[rules]]", 'text = """', "[mcp_servers.periplus]", '"""', "lines = '''", "'''", "# comment", "", "   ", 'key = "a # b"', "[x.'y z']",
    't = "\\"[mcp_servers.periplus]"', "[mcp_servers.periplus.env]", 'e = { a = "[b]" }', '"quoted key" = 1', "d = 2026-01-01T00:00:00Z",
]  # fmt: skip
KEYS = ("mcp_servers", "periplus")
OURS = {"command": "/a b/periplus", "args": ("mcp",)}


@settings(max_examples=MANY, deadline=None)
@given(
    st.lists(st.sampled_from(LINES), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["", "\ufeff"]),
)
@example(['text = """', "[mcp_servers.periplus]", '"""'], "\n", True, "")
@example(["[mcp_servers]"], "\n", False, "")
def test_a_table_is_added_and_cut_out_again(lines, end, is_ended, mark):
    text = mark + end.join(lines) + (end if is_ended and lines else "")
    try:
        before = parse_toml(text.encode(), "f")
    except FormatError as error:
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(text.removeprefix("\ufeff"))
        told(error, path="f")
        return
    try:
        after = put_table(before, KEYS, OURS, TOML_COMMENT)
    except RefusedError:
        assert "periplus" in text, "only where something of ours is there in another form"
        return
    found = after.value["mcp_servers"]["periplus"]
    assert (found["command"], found["args"]) == ("/a b/periplus", ["mcp"])
    assert put_table(after, KEYS, OURS, TOML_COMMENT) is after
    if "periplus" in before.value.get("mcp_servers", {}):
        return
    assert after.text.startswith(before.text), "everything else stands before it, byte for byte"
    again = remove_table(after, KEYS, TOML_COMMENT)
    assert again.text.rstrip() == before.text.rstrip()
    assert repr(again.value) == repr(before.value)
    later = parse_toml((after.text + f'{end}[mcp_servers.later]{end}command = "x"{end}').encode(), "f")
    rest = remove_table(later, KEYS, TOML_COMMENT)
    assert rest.value["mcp_servers"]["later"] == {"command": "x"}
    assert "periplus" not in rest.value["mcp_servers"]


ITEM_LINES = [
    'model = "x"', "[mcp]", "enabled = true", "enabled = false", "auto_start = true # all", "[[mcp.servers]]", 'name = "docs"', 'name = "a" # b',
    "[mcp.servers.env]", "A = 'b'", "[[rules]]", 'text = """', '"""', "# comment", "", "   ", "servers = []", "servers = [ # none yet", "]",
    '  { name = "x", args = ["]", "}"] },', '  { name = "y" } # last', "servers = [{ name = 'z' }, { name = \"w\", e = [1,\n2] }]", "[mcp.other]",
    'name = "periplus"', 'command = "periplus"', 'args = ["mcp"]', 'servers = [{ name = "periplus", command = "periplus", args = ["mcp"] }]',
]  # fmt: skip
ITEM = TomlItemPart(
    "f",
    "server",
    ("mcp", "servers"),
    {"name": "periplus", "command": "/a b/periplus", "args": ("mcp",)},
    (("enabled", True),),
)


@pytest.mark.slow
@settings(max_examples=MANY * 2, deadline=None)
@given(
    st.lists(st.sampled_from(ITEM_LINES), max_size=10),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["", "\ufeff"]),
)
@example(["[mcp]", "servers = []"], "\n", True, "")
@example(["[mcp]", "servers = [{ name = 'z' }, { name = \"w\", e = [1,\n2] }]"], "\n", False, "")
@example(["[mcp]", "servers = [ # none yet", '  { name = "y" } # last', "]"], "\r\n", True, "\ufeff")
@example(["[[mcp.servers]]", 'name = "docs"', "[mcp.servers.env]", "A = 'b'", "[[rules]]"], "\n", True, "")
@example(
    ["[[mcp.servers]]", 'name = "periplus"', 'command = "periplus"', 'args = ["mcp"]', "[mcp.servers.env]"],
    "\n",
    True,
    "",
)
@example(["[mcp]", 'servers = [{ name = "periplus", command = "periplus", args = ["mcp"] }]'], "\n", True, "")
@example(["[[mcp.servers]]", "", "[mcp]", "enabled = false"], "\n", True, "")
def test_an_element_is_added_and_cut_out_again(lines, end, is_ended, mark):
    text = mark + end.join(lines) + (end if is_ended and lines else "")
    try:
        before = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        return
    try:
        after = put(ITEM, text.encode(), "f")
    except RefusedError as refused:
        told(refused)
        return
    assert standing(ITEM, after, "f") == "current"
    assert put(ITEM, after, "f") == after
    assert after.startswith(mark.encode())
    value = tomllib.loads(after.decode().removeprefix("\ufeff"))
    assert value["mcp"]["enabled"] is before.get("mcp", {}).get("enabled", True), "a choice of the person stays"
    (ours,) = (one for one in value["mcp"]["servers"] if one.get("name") == "periplus")
    assert (ours["command"], ours["args"]) == ("/a b/periplus", ["mcp"])
    others = [one for one in before.get("mcp", {}).get("servers", []) if one.get("name") != "periplus"]
    assert [one for one in value["mcp"]["servers"] if one.get("name") != "periplus"] == others
    assert {key: one for key, one in value.items() if key != "mcp"} == {
        key: one for key, one in before.items() if key != "mcp"
    }
    if "periplus" in text:
        return
    assert is_added_to(text, after.decode())
    again = take(ITEM, after, "f", text.encode()).decode()
    assert tomllib.loads(again.removeprefix("\ufeff")) == before
    assert "".join(again.split()) == "".join(text.split()), "but for blanks, the text is as it was"


@pytest.mark.parametrize(
    "text",
    [
        "mcp = { servers = [] }\n",
        '[mcp]\nservers = "none"\n',
        '[[mcp.servers]]\nname = "periplus"\ncommand = "my-own"\n',
        '[mcp]\nservers = [{ name = "periplus", command = "periplus", args = ["mcp"], env = { A = "b" } }]\n',
        "[[mcp]]\nenabled = true\n",
        "mcp.servers = [1]\nmcp.enabled = true\n",
    ],
)
def test_an_array_of_another_form_is_refused(text):
    with pytest.raises(RefusedError) as caught:
        put(ITEM, text.encode(), "f")
    told(caught.value)


HOOKS = TomlHooksPart("f", "hooks", "kimi-code", tuple({"event": name, "command": f"periplus hook {name} --agent kimi-code"} for name in ("Stop", "SessionEnd")))  # fmt: skip
THEIRS = '[[hooks]]\nevent = "Stop" # theirs\ncommand = "beep"\n'


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", ["", "a = 1", f"{THEIRS}\n[b]\nc = 1\n", f"[b]\n\n{THEIRS}# last\n"])
def test_hooks_are_elements_of_an_array(text, end):
    data = text.replace("\n", end).encode()
    after = put(HOOKS, data, "f")
    assert after.startswith(data)
    assert [one for one in tomllib.loads(after.decode())["hooks"] if one["command"] != "beep"] == list(HOOKS.items)
    assert (standing(HOOKS, after, "f"), put(HOOKS, after, "f")) == ("current", after)
    assert starts(HOOKS, after, ("periplus",))
    assert not starts(HOOKS, after, ("/other/periplus",))
    older = after.replace(b"periplus hook Stop", b"/old/periplus hook Stop")
    assert standing(HOOKS, older, "f") == "older"
    assert tomllib.loads(put(HOOKS, older, "f").decode()) == tomllib.loads(after.decode())
    later = after + f"{end}[later]{end}d = 2{end}".encode()
    assert tomllib.loads(take(HOOKS, later, "f", data).decode()) == {**tomllib.loads(data.decode()), "later": {"d": 2}}
    left = take(HOOKS, after, "f", data or None)
    assert left is None if not text else left.rstrip() == data.rstrip()


@pytest.mark.parametrize("text", ['hooks = [{event = "Stop", command = "beep"}]\n', "hooks = 1\n", "[hooks]\na = 1\n"])
def test_hooks_of_another_form_are_refused(text):
    with pytest.raises(RefusedError) as caught:
        put(HOOKS, text.encode(), "f")
    told(caught.value)
    assert standing(HOOKS, text.encode(), "f") == "absent"


YAML_HOOKS = YamlHooksPart("f", "hooks", "hermes", {name: {"command": f"periplus hook {name} --agent hermes", "timeout": 10} for name in ("pre_llm_call", "pre_tool_call")})  # fmt: skip
BEEP = "hooks:\n  pre_tool_call: # ours\n    - command: beep\n      matcher: terminal\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1",
        f"a: 1\n{BEEP}b:\n- 2\n",
        f"{BEEP}    - command: boop\n",
        "hooks:\n  on_reset: [{command: beep}]\nb: {}\n",
    ],
)
def test_hooks_are_elements_of_lists(text, end):
    data = text.replace("\n", end).encode()
    after = put(YAML_HOOKS, data, "f")
    value = yaml.safe_load(after)
    ours = {name: items[0] for name, items in value["hooks"].items() if "periplus" in items[0]["command"]}
    assert ours == YAML_HOOKS.items
    assert {name for name, items in value["hooks"].items() if len(items) > 1} == (
        {"pre_tool_call"} if "pre_tool" in text else set()
    )
    assert (standing(YAML_HOOKS, after, "f"), put(YAML_HOOKS, after, "f")) == ("current", after)
    assert starts(YAML_HOOKS, after, ("periplus",))
    assert not starts(YAML_HOOKS, after, ("/other/periplus",))
    older = after.replace(b'"periplus hook', b'"/old/periplus hook')
    assert standing(YAML_HOOKS, older, "f") == "older"
    assert yaml.safe_load(put(YAML_HOOKS, older, "f")) == value
    left = take(YAML_HOOKS, after, "f", data or None)
    assert left is None if not text else left.rstrip() == data.rstrip()


@pytest.mark.parametrize(
    "text",
    [
        "hooks:\n  pre_tool_call: [{command: beep}]\n",
        "hooks: 1\n",
        "hooks:\n  pre_tool_call: beep\n",
        "hooks:\n  pre_tool_call: &a\n  - command: beep\n",
    ],
)
def test_lists_of_another_form_are_refused(text):
    with pytest.raises(RefusedError) as caught:
        put(YAML_HOOKS, text.encode(), "f")
    told(caught.value)


def test_nan_is_itself():
    before = parse_toml(b"n = nan\nm = [inf, {x = nan}]\n", "f")
    after = put_table(before, KEYS, OURS, TOML_COMMENT)
    assert math.isnan(after.value["n"])
    assert remove_table(after, KEYS, TOML_COMMENT).text == before.text


@settings(max_examples=MANY, deadline=None)
@given(st.binary(max_size=60))
def test_hostile_toml_is_read_or_refused(data):
    part = TomlPart("f", "server", KEYS, dict(OURS))
    try:
        after = put(part, data, "f")
    except PeriplusError as error:
        told(error)
        return
    assert after.startswith(data) or not data.strip()
    assert standing(part, after, "f") == "current"


# -- YAML ------------------------------------------------------------------------------------------------------------

YAML = YamlPart(
    "f",
    "server",
    ("servers", "periplus"),
    {"enabled": True, "cmd": "/a b's/periplus", "args": ("mcp", 'a"b\\\u2028'), "timeout": 300},
)
yaml_scalars = st.sampled_from(
    ["1", "x", "'it''s'", '"a: b # c"', "null", "~", "true", "-1.5", "http://x#y", "a b", "&anchor v", "!!str 1", '"\\x41"', "''", "[]", "{}",
     "[a, 'b', {c: d}]", '{"k":[1,2], x: }', "[\n a, # c\n b\n ]", "|\n%  one\n\n%   two\n", ">-\n%  one\n% two\n", "|+\n%  kept\n\n", "one\n%  two", '"one\n%  two"',
     "'a\n\n%  b'", "", "# nothing", "x # c", "|2\n%   deeper\n"]
)  # fmt: skip
yaml_keys = st.sampled_from(["a", "b c", '"q"', "'s'", "servers", "periplus", "x.y", "-z", "a#b", "k:v", "<<", "1"])


@st.composite
def yaml_documents(draw):
    """A document as somebody wrote it down, in lines: with comments, blank lines and values of every form."""
    lines = []

    def blank(indent):
        lines.extend(draw(st.sampled_from([[], [], [], [""], [" " * indent + "# comment"], ["# left"], ["  "]])))

    def mapping(indent, depth, prefix=None):
        for at, key in enumerate(draw(st.lists(yaml_keys, min_size=1, max_size=3, unique=True))):
            blank(indent)
            value(draw, key + ":", indent, depth, prefix if at == 0 and prefix is not None else " " * indent)

    def value(draw, head, indent, depth, prefix):
        kind = draw(st.sampled_from(["scalar", "scalar", "mapping", "sequence"])) if depth < 3 else "scalar"
        if kind == "scalar":
            text = draw(yaml_scalars)
            lines.extend(
                f"{prefix}{head} {text}".rstrip(" ")
                .replace("%", " " * (indent + 1))
                .replace("&anchor", f"&a{len(lines)}")
                .split("\n")
            )
            return
        lines.append(f"{prefix}{head}{draw(st.sampled_from(['', ' # c', ' ']))}")
        if kind == "mapping":
            mapping(indent + draw(st.sampled_from([1, 2, 4])), depth + 1)
            return
        inner = indent + draw(st.sampled_from([0, 2]))
        for _ in range(draw(st.integers(1, 2))):
            if draw(st.booleans()):
                value(draw, "-", inner, 3, " " * inner)
            else:
                mapping(inner + 2, depth + 1, " " * inner + "- ")

    lines.extend(draw(st.sampled_from([[], [], ["---"], ["# head", "", "---  # c"]])))
    if draw(st.booleans()):
        mapping(draw(st.sampled_from([0, 0, 0, 2])), 0)
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return draw(st.sampled_from(["", "\ufeff"])) + end.join(lines) + draw(st.sampled_from(["", end, end * 2]))


def loaded(text):
    """Return the value of the file by PyYAML; None for an empty file or no YAML."""

    class Loader(yaml.SafeLoader):
        def flatten_mapping(self, node):
            pass  # a merge key is a key like others, so that what it stands for is seen as it is written

    Loader.add_constructor("tag:yaml.org,2002:merge", lambda loader, node: "<<")
    try:
        return yaml.load(text.removeprefix("\ufeff"), Loader)
    except (yaml.YAMLError, ValueError, TypeError):
        return None


@pytest.mark.slow
@settings(max_examples=MANY * 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(yaml_documents())
@example("servers:\n")
@example("servers: {} # none\nb: 1\n")
@example("servers: ~")
@example("a: |+\n  kept\n\n")
@example("a: |\n  x")
@example("servers:\n  a: |\n    x")
@example("- a\n")
@example("servers: &x\n  a: 1\nb: *x\n")
@example('a: "\nservers:\n  x: 1"\n')
@example("a: [\nservers:\n  , 1]\n")
@example("a:\n- servers:\n    x: 1\n")
@example("servers:\n\n  # first\n  a: 1\n")
def test_an_entry_is_added_to_yaml_and_cut_out_again(text):
    before = loaded(text)
    try:
        after = put(YAML, text.encode(), "f")
    except (FormatError, RefusedError) as refused:
        told(refused)
        assert "periplus" in f"{refused} {refused.mend}"  # noqa: PT017 - many documents are changed, and some are refused
        return
    assert before is not None or not text.strip("\ufeff \r\n") or not value_lines(text), "it is no YAML for others"
    value = loaded(after.decode())
    assert value["servers"]["periplus"] == {
        "enabled": True, "cmd": "/a b's/periplus", "args": ["mcp", 'a"b\\\u2028'], "timeout": 300,
    }  # fmt: skip
    others = dict(value["servers"])
    del others["periplus"]
    assert others == ((before or {}).get("servers") or {})
    assert {key: one for key, one in value.items() if key != "servers"} == {
        key: one for key, one in (before or {}).items() if key != "servers"
    }
    assert standing(YAML, after, "f") == "current"
    assert put(YAML, after, "f") == after
    assert is_added_to(text.replace("~", "").replace("null", "").replace("{}", ""), after.decode())
    try:
        again = take(YAML, after, "f", text.encode()).decode()
    except RefusedError:
        assert "|+" in text, "a text that would take in the blank lines behind ours"
        return
    assert loaded(again) == before or loaded(again) == {**(before or {}), "servers": {}}
    if (before or {}).get("servers", 0) is not None and "{}" not in text:
        assert "".join(again.split()) == "".join(text.split()), "but for blanks, the text is as it was"


def value_lines(text):
    return [line for line in text.removeprefix("\ufeff").splitlines() if line.strip() and line.strip()[0] not in "#-"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("servers: {a: 1}\n", "line 1: servers is no block mapping"),
        ("servers: [a]\n", "is no block mapping"),
        ("servers: text\n", "is no block mapping"),
        ("servers: &x\n  a: 1\nb: *x\n", "has an anchor"),
        ("b: &x\n  a: 1\nservers: *x\n", "is an alias"),
        ("servers:\n  <<: {a: 1}\n  b: 2\n", r"merge key"),
        ("<<: {a: 1}\nb: 2\n", r"merge key"),
        ("servers:\n  a: 1\nservers:\n  b: 1\n", "line 3: servers is there twice"),
        ("servers:\n  periplus:\n    cmd: mine\n", r"servers\.periplus exists already"),
        ("servers:\n\ta: 1\n", r"line 2: column 1: a tab"),
        ("a: 1\n \t\nb: 1\n", r"line 2: column 2: a tab"),
        ("a: 1\n---\nservers:\n", "another document|a key with a colon"),
        ("%YAML 1.2\n---\na: 1\n", "a directive"),
        ("? a\n: b\n", "no block mapping"),
        ("[a, b]\n", "no block mapping"),
        ("a: b: c\n", "column 5: a mapping where a value was expected"),
        ('a: "b\n', "does not end"),
        ("a: [b\n", "ends in the middle"),
        ("a: 1\x00\n", "control character"),
        ("a: 1\rb: 2\n", "line end of another kind"),
        ("a: 1\u2028b: 2\n", "line end of another kind"),
        ("a:\n  b: 1\n c: 2\n", "line 3"),
        ("- a\n", "no block mapping"),
    ],
)
def test_yaml_of_another_form_is_refused(text, wrong):
    with pytest.raises((FormatError, RefusedError), match=wrong) as caught:
        put(YAML, text.encode(), "f")
    told(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * (1 << 24),
        "a: " + "[" * 100_000,
        "a: " + "{a: " * 100_000,
        "".join(f"{' ' * depth}a:\n" for depth in range(1_000)),
        "- " * 100_000,
        "a: " + "- " * 100_000,
        "a" + " " * 500_000 + "b\n",
        "a: " + "x" * 500_000 + "\n",
        "a: " + "x " * 250_000 + "\n",
        "a: '" + "''" * 250_000,
        'a: "' + "\\" * 500_001,
        "a: [" + "b, " * 160_000 + "]\n",
        "a: [" + " \n" * 250_000,
        "a: |\n" + "  x\n" * 120_000,
        "a: " + "&" * 500_000 + "\n",
        "a: " + "&a " * 160_000 + "\n",
        "#" * 500_000,
        " \n" * 250_000 + "\t\n",
        "a: 1\n" + "\n" * 500_000 + "b: 1\n",
        "\0" * 500_000,
    ],
    ids=range(20),
)
def test_hostile_yaml_is_answered_soon(text):
    begun = time.monotonic()
    try:
        put(YAML, text.encode(), "f")
    except (FormatError, RefusedError) as refused:
        told(refused)
    assert time.monotonic() - begun < 60, "linear: a quadratic search takes hours"


def test_aliases_are_not_expanded():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 12)]
    text = "\n".join(lines) + "\n"
    after = put(YAML, text.encode(), "f")
    assert after.startswith(text.encode())
    assert take(YAML, after, "f", text.encode()) == text.encode()


@settings(max_examples=MANY, deadline=None)
@given(st.binary(max_size=60) | st.text("servers: \n-{}[]'\"|>&*!#,\t?%\r\u2028é", max_size=60).map(str.encode))
def test_hostile_yaml_is_changed_as_meant_or_refused(data):
    try:
        after = put(YAML, data, "f")
    except PeriplusError as error:
        told(error)
        return
    assert standing(YAML, after, "f") == "current"
    assert after.startswith(data.removesuffix(b"\n")) or b"servers" in data
    if loaded(data.decode()) is not None:  # PyYAML refuses tabs where YAML 1.2 has them
        assert loaded(after.decode())["servers"]["periplus"]["timeout"] == 300


def test_an_entry_that_another_program_wrote_anew_is_ours():
    """Goose writes the whole file anew: with other quotes, other members, in another order."""
    text = "servers:\n  a:\n    x: 1\n  periplus:\n    bundled: null\n    args:\n    - mcp\n    cmd: /old/periplus\n    enabled: false\nb: 1\n"
    assert standing(YAML, text.encode(), "f") == "older"
    after = put(YAML, text.encode(), "f")
    assert loaded(after.decode())["servers"]["periplus"] == {
        "bundled": None, "args": ["mcp", 'a"b\\\u2028'], "cmd": "/a b's/periplus", "enabled": True, "timeout": 300,
    }  # fmt: skip
    assert take(YAML, after, "f", b"b: 1\n") == b"servers:\n  a:\n    x: 1\nb: 1\n"
    inline = "servers:\n  periplus: {cmd: periplus, args: [mcp]}\n"
    assert loaded(put(YAML, inline.encode(), "f").decode())["servers"]["periplus"]["timeout"] == 300
    assert take(YAML, inline.encode(), "f", None) is None
    assert take(YAML, inline.encode(), "f", b"servers:\n").decode() == "servers: {}\n"


# -- Markdown --------------------------------------------------------------------------------------------------------

bodies = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029"), max_size=30).map(
    lambda text: f"{text}\n"
)


@pytest.mark.slow
@settings(max_examples=MANY, deadline=None)
@given(
    st.text("ab \n#`\ufeff<!->", max_size=30),
    bodies,
    bodies,
    st.sampled_from(["\n", "\r\n"]),
    st.text("xy\n", max_size=5),
)
@example("\ufeff", "a\n", "b\n", "\n", "")
def test_a_block_is_added_changed_and_cut_out_again(text, body, other, end, behind):
    text = text.replace("\n", end)
    first = put_block(text, body, "f")
    assert first.startswith(text)
    held = find_block(first, "f")
    assert (held.body, held.is_edited) == (body, False)
    assert put_block(first, body, "f") == first
    second = put_block(first + behind, other, "f")
    assert second.startswith(text)
    assert second.endswith(behind)
    assert find_block(second, "f").body == other
    assert remove_block(first, "f").rstrip() == text.rstrip()
    assert remove_block(second, "f").endswith(behind)
    edited = first[: held.start] + re.sub(r"(-->\r?\n)", r"\1more\n", first[held.start :], count=1)
    assert find_block(edited, "f").is_edited
    part = BlockPart("f", "instructions", body)
    assert take(part, put(part, text.encode(), "f"), "f", text.encode()).decode().rstrip() == text.rstrip()
