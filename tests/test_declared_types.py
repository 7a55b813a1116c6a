"""Types that a project declares in config.toml: written, found and changed like ours, bounded, and never lost by who does not know them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from cli_support import SECRET, Shell
from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, NotFoundError, PeriplusError, SecretFoundError, UsageError
from periplus.journal import Journal, Writer
from periplus.memory import Filters, Memory, memory_types
from periplus.memory.entities import declared_schemas
from periplus.memory.entities.declared_schemas import DEPTH_MAX, check_own, prepared
from periplus.memory.entities.declared_types import DECLARED_MAX, Declaration, read_declared
from periplus.project import Project
from support import Stop, StoppingFiles

ADA = Writer("ada", "who_0000000000000001", "", 1)
RISK = """
[types.risk]
meaning = "what may go wrong"
prefix = "rsk"
states = ["open", "mitigated", "closed"]
transitions = { open = ["mitigated", "closed"], mitigated = ["open", "closed"] }
ended = ["closed"]
replaced = "closed"
touchable = ["text", "tags", "about", "likelihood", "owner"]
projected = true
weight = 130

[types.risk.schema]
type = "object"
required = ["likelihood"]
additionalProperties = false

[types.risk.schema.properties]
likelihood = { enum = ["low", "high"] }
owner = { type = "string", maxLength = 20 }
costs = { type = "array", items = { type = "integer", minimum = 0 } }
code = { "$ref" = "#/$defs/code" }

[types.risk.schema."$defs".code]
type = "string"
pattern = "^R-[0-9]+$"
"""
HIDDEN = """
[types.diary]
prefix = "dia"
recalled = false
stale = "never"
"""


def declare(root, text):
    path = os.path.join(root, "config.toml")
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


@pytest.fixture
def root(tmp_path, clock):
    return Project.init(os.fspath(tmp_path), clock=clock).root


@pytest.fixture
def project(root, clock):
    declare(root, RISK + HIDDEN)
    with Project(root, ADA, clock=clock) as project:
        yield project


def risk(text, **extra):
    return Memory("risk", text, extra={"likelihood": "high", **extra})


def records(project):
    project.journal.refresh()
    return project.journal.end().next_seq - 1


# ---- what can be done with it


@pytest.mark.slow
def test_it_is_written_found_changed_and_replaced_like_any_other(project, tmp_path):
    (tmp_path / "pay.py").write_text("def pay():\n    return 1\n")
    made = project.remember(Memory("risk", "The bank may close the account", ("money",), ("pay.py",),
                                   extra={"likelihood": "high", "owner": "treasurer", "costs": [3, 4], "code": "R-1"}))  # fmt: skip
    entity = made.entity
    assert entity.item_id.startswith("rsk_")
    assert (entity.value["state"], entity.value["costs"], entity.value["author"]) == ("open", [3, 4], "ada")
    assert not project.remember(risk("The bank may close the account")).is_new
    for question in ("bank account", "treasurer", entity.item_id[:8], "pay.py"):
        assert [hit.item_id for hit in project.recall(question).hits] == [entity.item_id], question
    assert (tmp_path / ".periplus" / "entities" / "risk" / f"{entity.item_id}.json").exists()
    done = project.work.set_fields(entity.item_id, {"likelihood": "low"})
    assert done.entities[0].value["likelihood"] == "low"
    assert project.work.change_state([entity.item_id], "mitigated").entities[0].value["state"] == "mitigated"
    new = project.work.evolve(entity.item_id, "The bank may close two accounts", {"likelihood": "high"}).entities
    assert [one.value["state"] for one in new] == ["mitigated", "closed"]
    assert new[0].value["costs"] == [3, 4]
    assert [hit.item_id for hit in project.recall("bank accounts").hits] == [new[0].item_id]
    assert project.recall("bank accounts", filters=Filters(types=("risk",), with_ended=True)).matched == 2
    (tmp_path / "pay.py").write_text("def pay():\n    return 2\n")
    assert [one.entity.item_id for one in project.reviewing.due()] == [new[0].item_id]
    project.reviewing.confirm([new[0].item_id])
    assert not project.reviewing.due()
    other = project.remember(risk("The mint may close")).entity
    merged = project.work.merge([new[0].item_id, other.item_id], "All may close").entities
    project.work.link(merged[0].item_id, "references", entity.item_id)
    project.undo(seqs=[project.show(merged[0].item_id).seq])
    assert not [one for one in project.examine().problems if one.severity != "note"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda at, _: at.remember(Memory("risk", "x")), "'likelihood' is a required property"),
        (lambda at, _: at.remember(risk("x", likelihood="never")), "likelihood: 'never' is not one of"),
        (lambda at, _: at.remember(risk("x", owner="o" * 21)), "owner: .*too long"),
        (lambda at, _: at.remember(risk("x", costs=[1, -1])), r"costs\[1\]: -1 is less than the minimum"),
        (lambda at, _: at.remember(risk("x", code="X")), "code: 'X' does not match"),
        (lambda at, _: at.remember(risk("x", colour="red")), "a risk has no colour"),
        (lambda at, _: at.remember(risk("x", author="eve")), "a risk has no author"),
        (lambda at, _: at.remember(risk("x", state="gone")), "no state 'gone'"),
        (lambda at, _: at.remember(risk(" ")), "a risk needs a text"),
        (lambda at, _: at.remember(risk("x", owner=SECRET)), "risk's owner holds what looks like a secret"),
        (lambda at, _: at.remember(Memory("risque", "x")), "unknown type 'risque'"),
        (lambda at, _: at.recall("x", filters=Filters(types=("risque",))), "unknown type 'risque'"),
        (lambda at, it: at.work.change_state([it], "accepted"), "is open and cannot become accepted"),
        (lambda at, it: at.work.set_fields(it, {"costs": [1]}), "costs of a risk cannot be set"),
        (lambda at, it: at.work.set_fields(it, {"likelihood": "never"}), "likelihood: 'never'"),
        (lambda at, it: at.work.evolve(it, "y", {"likelihood": None}), "'likelihood' is a required"),
        (lambda at, it: at.reviewing.confirm([it], expires="2030-01-01T00:00:00Z"), "a risk does not expire"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_it_cannot_be_is_refused_and_nothing_is_written(project, call, said):
    held = project.remember(risk("It is there")).entity
    before = records(project)
    with pytest.raises((UsageError, SecretFoundError, ConflictError), match=said):
        call(project, held.item_id)
    assert records(project) == before


def test_what_is_not_recalled_is_kept_all_the_same_and_an_index_follows_the_declaration(root, clock):
    config = declare(root, HIDDEN)
    with Project(root, ADA, clock=clock) as project:
        item_id = project.remember(Memory("diary", "Rain and a strange sail")).entity.item_id
        assert not project.recall("strange sail").hits
        assert project.show(item_id).value["text"] == "Rain and a strange sail"
    with open(config, encoding="utf-8") as file:
        text = file.read()
    with open(config, "w", encoding="utf-8") as file:
        file.write(text.replace("recalled = false\n", ""))
    with Project(root, ADA, clock=clock) as project:
        assert [hit.item_id for hit in project.recall("strange sail").hits] == [item_id]


# ---- who does not know it


def test_who_lacks_the_declaration_reads_finds_and_keeps_it(root, clock, tmp_path):
    config = os.path.join(root, "config.toml")
    with open(config, encoding="utf-8") as file:
        plain = file.read()
    declare(root, RISK)
    with Project(root, ADA, clock=clock) as project:
        entity = project.remember(risk("The keel may break", owner="carpenter")).entity
    with open(config, "w", encoding="utf-8") as file:
        file.write(plain)
    other = tmp_path / "clone"
    folder = tmp_path / "box"
    folder.mkdir()
    with Project(root, ADA, clock=clock) as project:
        assert project.show(entity.item_id).value == entity.value
        assert [hit.item_id for hit in project.recall("keel carpenter").hits] == [entity.item_id]
        assert project.related(["keel.py"]) is not None
        before = records(project)
        for call in (
            lambda: project.work.change_state([entity.item_id], "closed"),
            lambda: project.work.set_fields(entity.item_id, {"text": "other"}),
            lambda: project.work.evolve(entity.item_id, "other"),
        ):
            with pytest.raises(NotFoundError, match="'risk' is an unknown type"):
                call()
        assert records(project) == before
        problems = project.examine().problems
        assert [one.severity for one in problems if "'risk'" in one.what] == ["note"]
        assert not [one for one in problems if one.severity == "error"]
        project.sync(os.fspath(folder), cwd=os.fspath(tmp_path), environment={})
        assert project.journal.get("risk", entity.item_id) == project.show(entity.item_id)
    shell = Shell(tmp_path, tmp_path)
    shell("export", os.fspath(tmp_path / "whole.zip"))
    other.mkdir()
    shell("import", os.fspath(tmp_path / "whole.zip"), cwd=other)
    assert shell.json("show", entity.item_id, cwd=other).entity.value["owner"] == "carpenter"
    with Journal(root, memory_types()) as journal:
        assert journal.find(entity.item_id).value["text"] == "The keel may break"


def test_without_the_library_all_is_read_and_only_writing_is_refused(project, monkeypatch):
    entity = project.remember(risk("The keel may break")).entity
    monkeypatch.setattr(sys, "meta_path", [_Blocked(), *sys.meta_path])
    for name in [name for name in sys.modules if name.split(".")[0] == "jsonschema"]:
        monkeypatch.delitem(sys.modules, name)
    assert not declared_schemas.is_installed()
    assert project.show(entity.item_id).value["likelihood"] == "high"
    assert project.recall("keel").hits
    assert project.remember(Memory("diary", "A day")).is_new, "what has no schema needs no library"
    before = records(project)
    with pytest.raises(UsageError, match="jsonschema is not installed") as caught:
        project.remember(risk("Another"))
    assert "periplus[schema]" in caught.value.mend
    assert records(project) == before
    assert not [one for one in project.examine().problems if one.severity != "note"]


class _Blocked:
    """An importer that knows no jsonschema."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "jsonschema":
            raise ModuleNotFoundError(name)


# ---- declarations that cannot be

BARE_RISK = '[types.risk]\nprefix = "rsk"\n'


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("[types.risk]\n", "types.risk is not valid: Object missing required field `prefix`", "A type has: prefix"),
        ('[types.risk]\nprefix = "R1"\n', "types.risk.prefix is 'R1'", "2 to 8 letters"),
        ('[types.risk]\nprefix = "dec"\n', "types.risk.prefix 'dec' is that of decision", "Choose another"),
        ('[types.risk]\nprefix = "lin"\n', "types.risk.prefix 'lin' is one of Periplus itself", "Choose another"),
        ('[types.trap]\nprefix = "tra"\n', "types.trap is a type of Periplus itself", "Choose another name"),
        ('[types."a/b"]\nprefix = "aab"\n', "types.a/b is not a valid type name", "a-z"),
        (BARE_RISK + "colour = 1\n", "types.risk is not valid: Object contains unknown field `colour`", "A type has"),
        (BARE_RISK + 'stale = "often"\n', "types.risk.stale is not valid", "anchors, expires or never"),
        (BARE_RISK + "weight = 1000\n", "types.risk.weight is 1000", "0 to 300"),
        (BARE_RISK + 'states = ["A b"]\n', "types.risk.states holds 'A b'", "a-z"),
        (BARE_RISK + 'states = ["a"]\nended = ["b"]\n', "types.risk.ended names the state 'b'", "The states are: a"),
        (BARE_RISK + 'states = ["a"]\nended = ["a"]\n', "types.risk.states begin with 'a'", "The first"),
        (
            BARE_RISK + 'states = ["a", "b"]\nreplaced = "b"\n',
            "types.risk.replaced is 'b', which is not an end state",
            "The end states are: ",
        ),
        (BARE_RISK + 'states = ["a"]\ntransitions = {a = ["c"]}\n', "types.risk.transitions names the state 'c'", "a."),
        (BARE_RISK + 'touchable = ["hull"]\n', "types.risk.touchable names hull", "There are: about"),
        (BARE_RISK + 'schema = "{"\n', "types.risk.schema is no JSON", "JSON Schema"),
        (
            BARE_RISK + "schema = {properties = {text = {}}}\n",
            "types.risk.schema.properties.text is not a valid field name",
            "none of: v, text",
        ),
        ("types = 3\n", "types is no table", "[types.NAME]"),
    ],
    ids=lambda value: value[:40],
)
def test_what_is_wrong_with_a_declaration_is_said_to_who_would_write_it_and_by_doctor(root, clock, text, key, allowed):
    config = os.path.join(root, "config.toml")
    if text.startswith("types ="):
        with open(config, encoding="utf-8") as file:
            text += file.read()
        os.truncate(config, 0)
    declare(root, text)
    name = "types" if text.startswith("types =") else text.partition("types.")[2].partition("]")[0].strip('"')
    with Project(root, ADA, clock=clock) as project:
        note = project.remember(Memory("note", "All else goes on")).entity
        assert project.recall("goes on").hits[0].item_id == note.item_id
        problems = [one for one in project.examine().problems if one.severity == "warning"]
        assert [(key in one.what, allowed in one.mend, one.path) for one in problems] == [(True, True, config)], (
            problems
        )
        assert ".periplus/config.toml: " in problems[0].what
        if name not in ("types", "trap"):
            with pytest.raises(UsageError, match=r"config\.toml"):
                project.remember(Memory(name, "x"))


def test_too_many_types_are_too_many(root):
    letters = "abcdefghijklmnopqrstuvwxyz"
    declare(
        root,
        "".join(f'[types.t{n}]\nprefix = "q{letters[n // 26]}{letters[n % 26]}"\n' for n in range(DECLARED_MAX + 2)),
    )
    found = read_declared(os.path.join(root, "config.toml"))
    assert (len(found.rows), len(found.problems)) == (DECLARED_MAX, 2)


# ---- schemas that mean harm


def deep(depth):
    schema = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def doubling(levels):
    names = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**names, f"d{levels}": {"type": "object"}}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "https://example.org/s.json"}, "leads to 'https://example.org/s.json'"),
        ({"$ref": "file:///etc/passwd"}, "leads to 'file:///etc/passwd'"),
        ({"$ref": "#"}, "leads to '#'"),
        ({"$ref": "#/$defs/none", "$defs": {}}, "leads to '#/\\$defs/none'"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "refers to itself"),
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            "refers to itself",
        ),
        (doubling(20), "too large with its references expanded"),
        (deep(DEPTH_MAX + 1), "nested too deeply"),
        ({"$dynamicRef": "#x"}, "\\$dynamicRef is not known here"),
        ({"$id": "https://example.org/"}, "\\$id is not known here"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties is not known"),
        ({"patternProperties": {"(a+)+$": {}}}, "patternProperties is not known"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "an unsupported dialect"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern is not a valid pattern"),
        ({"properties": {"a": {"pattern": "a" * 201}}}, "at most 200"),
        ({"properties": {"a": {"type": "strnig"}}}, "properties.a.type: 'strnig' is not"),
        ({"properties": {"a": 7}}, "properties.a is not a schema"),
        ({"anyOf": {"a": 1}}, "is not of type 'array'"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_schema_without_bounds_is_refused_with_its_place(schema, said):
    with pytest.raises(UsageError, match=said) as caught:
        prepared(schema, ".periplus/config.toml: types.risk.schema")
    assert str(caught.value).startswith(".periplus/config.toml: types.risk.schema")


@pytest.mark.slow
def test_a_catastrophic_expression_ends_and_a_huge_value_is_refused():
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}, "b": {"pattern": "^$"}, "c": {"pattern": "b$"}}}
    check_own("risk", schema, {"a": "aaaa", "b": "", "c": "ab"}, "config")
    with pytest.raises(UsageError, match=r"a: .*takes over 2 s"):
        check_own("risk", schema, {"a": "a" * 60 + "!"}, "config")
    for value in ([0] * 3_000, [[0] * 50] * 50):
        with pytest.raises(UsageError, match="over 2,000 parts"):
            check_own("risk", {"properties": {"a": {"uniqueItems": True}}}, {"a": value}, "config")


def test_the_page_is_real(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "guides" / "types.md").read_text()
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    declare(os.fspath(tmp_path / ".periplus"), page.partition("```toml\n")[2].partition("```")[0])
    console = page.partition("```console\n")[2].partition("```")[0]
    ids: dict[str, str] = {}
    for part in console.split("$ periplus ")[1:]:
        command, _, shown = part.partition("\n")
        said = shell(*[ids.get(word, word) for word in shlex.split(command)]).out
        told, wanted = (re.findall(r"rsk_[0-9a-z]{16}", text) for text in (said, shown))
        ids |= dict(zip(wanted, told, strict=True))
        plain = [
            re.sub(r"rsk_[0-9a-z]{16}|[0-9]{4}-[0-9]{2}-[0-9]{2}", "X", text).splitlines() for text in (said, shown)
        ]
        assert plain[0] == plain[1], command
    keys = set(re.findall(r"^\| `([a-z]+)` ", page, re.MULTILINE))
    assert keys == set(Declaration.__struct_fields__)


# ---- as a person types it, and stops in the middle


@pytest.mark.slow
def test_as_a_person_types_it(tmp_path):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    declare(os.fspath(tmp_path / ".periplus"), RISK)
    done = shell.json("remember", "The keel may break", "--type", "risk", "--set", "likelihood=high", "--set", "costs=3,4",
                      code=2)  # fmt: skip
    assert "costs[0]: '3' is not of type 'integer'" in done.wrong
    made = shell.json(
        "remember", "The keel may break", "--type", "risk", "--set", "likelihood=high", "--set", "costs=[3, 4]"
    )
    item_id = made.entity.id
    assert made.entity.value["costs"] == [3, 4]
    shell("set", item_id, "likelihood=low")
    shell("state", item_id, "closed")
    assert [hit.id for hit in shell.json("recall", "keel", "--type", "risk", "--all").hits] == [item_id]
    assert len(shell.json("log", "--type", "risk").records) == 3
    shell.fails("log", "--type", "risque", code=2, wrong="unknown type 'risque'")
    shell.fails("remember", "x", "--type", "risk", "--set", "likelihood", code=2, wrong="is not FIELD=VALUE")
    assert shell("doctor").code == 0


@pytest.mark.slow
def test_a_stop_at_every_call_leaves_it_written_or_not(tmp_path, clock):
    stops = 0
    for number in range(1, 100):
        folder = tmp_path / str(number)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=clock).root
        declare(root, RISK)
        stopped = True
        try:
            with Project(root, ADA, clock=clock, files=StoppingFiles(number)) as project:
                project.remember(risk("The keel may break"))
                stopped = False
        except Stop:
            stops += 1
        with Project(root, ADA, clock=clock) as project:
            assert len(list(project.journal.entities("risk"))) in (0, 1)
            project.remember(risk("The keel may break"))
            assert len(list(project.journal.entities("risk"))) == 1
        if not stopped:
            break
    assert 2 < stops < 99


def test_nothing_of_it_is_imported_where_nothing_of_it_is_written(tmp_path):
    import subprocess

    root = Project.init(os.fspath(tmp_path)).root
    declare(root, RISK)
    code = (
        "import sys\nfrom periplus.journal import Writer\nfrom periplus.memory import Memory\nfrom periplus.project import Project\n"
        f"with Project({root!r}, Writer('ada', 'who_0000000000000001', '', 1)) as project:\n"
        "    project.remember(Memory('note', 'x'))\n    project.recall('x')\n"
        "assert 'jsonschema' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    with pytest.raises(PeriplusError):
        memory_types()["note"].check({"v": 1})
