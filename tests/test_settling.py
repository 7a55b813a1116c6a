"""Conflicts of every type and field, and the command that ``show`` names for each: it settles it, whichever value was meant."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import types
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from cli_support import Shell, shared_project
from periplus.base.clock import FixedClock
from periplus.base.ids import new_id
from periplus.cli.main import main
from periplus.journal import ABSENT
from periplus.memory import TYPES
from periplus.memory.entities.types import MEMORY_TYPES, memory_types
from periplus.project import Project
from support import WRITER
from test_lifecycle import minimal

OTHER_COMMANDS = ("context_ref", "trail")  # what ends theirs is run by test_cli_context and test_redacted_stays_out
MERGED = {"updated", "seen", "confirmed"}


def pair(hint):
    """Two values of a type, as JSON has them."""
    if get_origin(hint) is Annotated:
        return pair(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return get_args(hint)[:2]
    if get_origin(hint) in (Union, types.UnionType):
        return pair(next(one for one in get_args(hint) if one is not type(None)))
    if get_origin(hint) is tuple:
        return [[one] for one in pair(get_args(hint)[0])]
    if get_origin(hint) is dict or hint is dict:
        return {"key": 1}, {"key": 2}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        said = get_type_hints(hint)
        return [{name: pair(part)[number] for name, part in said.items()} for number in (0, 1)]
    return {str: ("one", "two"), int: (11, 22), bool: (False, True), object: ("one", "two")}[hint]


def cases():
    """``(type, field, a value of each clone, which of the two was meant)``."""
    for row in TYPES:
        if row.name in OTHER_COMMANDS:
            continue
        for name, hint in get_type_hints(row.schema, include_extras=True).items():
            if name in {"v", *MERGED, *dict(row.ranks)} | row.sets | row.latest or (
                name == "state" and not row.transitions
            ):
                continue
            values = pair(hint)
            if name == "state":
                states = sorted(row.transitions)
                choices = [(one, other) for one in states for other in states if one < other]
                choices = [pair for pair in choices if row.default_state not in pair]
                yield from ((row.name, name, both, meant) for both in choices for meant in (0, 1))
                continue
            yield row.name, name, tuple(values), 1


@pytest.fixture
def clones(tmp_path, monkeypatch):
    folders = [tmp_path / "ada", tmp_path / "bob"]
    Project.init(os.fspath(folders[0]))
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    monkeypatch.setenv("PERIPLUS_AGENT", WRITER.name)
    return folders


@pytest.mark.slow
def test_the_command_that_is_named_settles_the_conflict_of_any_field(clones, monkeypatch, capsys):
    wanted, clock = list(cases()), FixedClock(step_ms=1)
    made = [new_id(MEMORY_TYPES[item_type].prefix) for item_type, *_ in wanted]

    def write(folder, values):
        with Project.open(os.fspath(folder), WRITER, allow_secrets=True) as project:

            def put(at):
                for item_id, (item_type, name, both, _) in zip(made, wanted, strict=True):
                    held = at.get(item_type, item_id)
                    value = held.value if held is not None else minimal(MEMORY_TYPES[item_type], clock)
                    if values is not None:
                        value = {**value, name: both[values]}
                    elif "text" in value:
                        value["text"] = f"{item_id} says so"
                    at.put(item_type, item_id, value, expect=held.version if held is not None else ABSENT)

            project.journal.mutate(put, WRITER)

    write(clones[0], None)
    shutil.copytree(*clones)
    for number, folder in enumerate(clones):
        write(folder, number)
    monkeypatch.chdir(clones[0])
    assert main(["sync", "--with", "../bob"]) == 0
    capsys.readouterr()
    left = []
    for item_id, (item_type, name, both, meant) in zip(made, wanted, strict=True):
        assert main(["show", item_id]) == 0
        said = capsys.readouterr().out
        named = re.search(rf"^in conflict: {name}(?:\..*)?; .*? settles it: periplus ([^,;\n]*)", said, re.MULTILINE)
        assert named is not None, (item_type, name, said)
        words = [word.replace(f"{name}=VALUE", f"{name}={both[meant]}") for word in shlex.split(named[1])]
        words = [word.replace("VALUE", f"{item_id} says that") for word in words]
        words = ["why" if word == "TEXT" else str(both[meant]) if word == "STATE" else word for word in words]
        code = main(words)
        told = capsys.readouterr()
        with Project.open(os.fspath(clones[0]), WRITER) as project:
            entity = project.show(item_id)
        if code or entity.conflicts or "Nothing changed" in told.out:
            left.append((item_type, name, words, told.err))
        elif words[-1].startswith(f"{name}=") or name == "state":
            assert entity.value[name] == both[meant], words
    assert left == []
    main(["sync", "--with", "../bob"])
    with Project.open(os.fspath(clones[1]), WRITER) as project:
        assert not any(one.is_in_conflict for one in project.journal.contested())


@pytest.fixture
def team(tmp_path):
    people = shared_project(tmp_path, "bob")
    return people["ada"], people["bob"]


def advised(shell, item_id):
    [words] = set(re.findall(r"the next write settles it: periplus ([^,;\n]*)", shell("show", item_id).out))
    return shlex.split(words)


def settled(*shells):
    return all(shell.json("status").conflicts == [] for shell in shells)


@pytest.mark.parametrize("action", ["block", "drop"])
def test_a_plan_that_two_gave_up_for_different_reasons_is_settled_with_its_steps(team, action):
    ada, bob = team
    made = ada.json("plan", "make", "Count the cogs", "--step", "Of the engine", "--step", "Of the mill")
    ids = [made.plan.id] if action == "drop" else [step.id for step in made.steps]
    ada("sync", "--with", bob.folder)
    ada("plan", action, *ids, "--reason", "the lid is shut")
    bob("plan", action, *ids, "--reason", "the key is lost")
    found = ada.json("sync", "--with", bob.folder).conflicts
    assert len(found) == (3 if action == "drop" else 2)
    for item_id in ids:
        words = advised(ada, item_id)
        state = "dropped" if action == "drop" else "blocked"
        assert words == ["state", item_id, state, "--reason", "TEXT"]
        ada(*words[:-1], "lid and key")
    assert settled(ada)
    ada("sync", "--with", bob.folder)
    assert settled(bob)
    steps = bob.json("plan", "show", made.plan.id).steps
    assert {(step.state, step.reason) for step in steps} == {(state, "lid and key")}


def test_what_is_said_once_more_without_a_reason_keeps_the_one_that_is_shown(team):
    ada, bob = team
    step = ada.json("plan", "make", "Count the cogs", "--step", "Of the engine").steps[0].id
    ada("sync", "--with", bob.folder)
    ada("plan", "block", step, "--reason", "the lid is shut")
    bob("plan", "block", step, "--reason", "the key is lost")
    ada("sync", "--with", bob.folder)
    shown = ada.json("show", step).entity.value["reason"]
    ada("state", step, "blocked")
    entity = ada.json("show", step).entity
    assert (entity.value["reason"], entity.conflicts) == (shown, [])


def test_the_state_that_one_clone_said_comes_with_its_own_reason(team):
    ada, bob = team
    step = ada.json("plan", "make", "Count the cogs", "--step", "Of the engine").steps[0].id
    ada("sync", "--with", bob.folder)
    ada("plan", "drop", step, "--reason", "nobody needs it")
    bob("plan", "done", step, "--reason", "there are nine")
    ada("sync", "--with", bob.folder)
    shown = ada.json("show", step).entity.value["state"]
    other, reason = ("done", "there are nine") if shown == "dropped" else ("dropped", "nobody needs it")
    ada("state", step, other)  # though neither leads to the other
    entity = ada.json("show", step).entity
    assert (entity.value["state"], entity.value["reason"], entity.conflicts) == (other, reason, [])


def test_what_is_in_no_conflict_follows_the_table_though_it_has_two_heads(team):
    ada, bob = team
    step = ada.json("plan", "make", "Count the cogs", "--step", "Of the engine").steps[0].id
    ada("sync", "--with", bob.folder)
    ada("plan", "done", step)
    bob("set", step, "text=Of the engine and the mill")
    ada("sync", "--with", bob.folder)
    ada.fails("state", step, "todo", code=2, wrong="is done and cannot become todo")


def test_a_session_that_two_ended_is_in_no_conflict(team):
    ada, bob = team
    session = ada.json("session", "begin", "s1").session.id
    ada("sync", "--with", bob.folder)
    ada("session", "end", "s1")
    bob("session", "end", "s1")
    ends = [shell.json("show", session).entity.value["ended"] for shell in (ada, bob)]
    assert ada.json("sync", "--with", bob.folder).conflicts == []
    for shell in (ada, bob):
        assert settled(shell)
        assert shell.json("show", session).entity.value["ended"] == max(ends)
    count = ada.json("status").records
    ada("session", "end", "s1")
    assert ada.json("status").records == count


@pytest.mark.parametrize("way", ["state", "ada", "bob"])
def test_a_handoff_that_two_accepted(team, way):
    ada, bob = team
    handoff = ada.json("handoff", "write", "The mill turns").handoff.id
    ada("sync", "--with", bob.folder)
    ada("handoff", "accept", handoff, "--as", "ada")
    bob("handoff", "accept", handoff, "--as", "bob")
    ada("sync", "--with", bob.folder)
    shown = ada.json("show", handoff).entity.value["accepted_by"]
    ada.fails("handoff", "accept", handoff, "--as", "eve", code=5, wrong="is accepted by")
    if way == "state":
        assert advised(ada, handoff) == ["state", handoff, "accepted"]
        ada(*advised(ada, handoff))
    else:
        assert f"or `periplus handoff accept {handoff}` by another of them" in ada("show", handoff).out
        ada("handoff", "accept", handoff, "--as", way)
    entity = ada.json("show", handoff).entity
    assert (entity.value["accepted_by"], entity.conflicts) == (shown if way == "state" else way, [])


def test_a_candidate_that_two_accepted(team, tmp_path):
    ada, bob = team
    eve = Shell(tmp_path / "eve", tmp_path / "home")
    eve.folder.mkdir()
    eve("init")
    eve("remember", "No releases on Fridays", "--type", "constraint")
    ada("sync", "--with", eve.folder, "--candidates")
    [candidate] = [one.id for one in ada.json("inbox", "list").candidates]
    ada("sync", "--with", bob.folder)
    ada("inbox", "accept", candidate)
    bob("inbox", "accept", candidate)
    ada("sync", "--with", bob.folder)
    assert advised(ada, candidate)[:3] == ["state", candidate, "accepted"]
    ada(*advised(ada, candidate)[:3])
    assert settled(ada)


@pytest.mark.parametrize("keeps", [True, False])
def test_what_one_deleted_and_another_changed_is_settled_either_way(team, keeps):
    ada, bob = team
    ada("remember", "Nothing else")
    decision = ada.json("remember", "Ports start at 8000", "--type", "decision").entity.id
    ada("sync", "--with", bob.folder)
    ada("undo", "--seq", "2")
    bob("set", decision, "confidence=50")
    ada("sync", "--with", bob.folder)
    lineage = ada.json("status").lineage
    assert "as deleted: periplus undo --seq 2\n" in ada("show", decision).out
    said = bob("show", decision).out
    assert f"as deleted: periplus undo --seq 2 --lineage {lineage}\n" in said
    if keeps:
        bob("set", decision, "text=Ports start at 9000")
        assert bob.json("show", decision).entity.value["confidence"] == 50
    else:
        assert "deleted" in bob("undo", "--seq", "2", "--lineage", lineage).out
        bob.fails("show", decision, code=1, wrong="was deleted")
    assert settled(bob)
    ada("sync", "--with", bob.folder)
    assert settled(ada)


def test_what_was_changed_is_not_un_created_where_nobody_deleted_it(team):
    ada, bob = team
    decision = ada.json("remember", "Ports start at 8000", "--type", "decision").entity.id
    ada("sync", "--with", bob.folder)
    bob("set", decision, "confidence=50")
    ada("sync", "--with", bob.folder)
    assert "changed since" in ada("undo", "--seq", "1", code=5).out


def test_a_field_that_a_session_does_not_have_is_not_written(team):
    ada, _ = team
    session = ada.json("session", "begin", "s1").session.id
    ada("set", session, "title=The mill")
    assert "updated" not in ada.json("show", session).entity.value


def test_no_type_is_left_out():
    assert {one[0] for one in cases()} | set(OTHER_COMMANDS) == set(memory_types())


def test_what_clones_gave_more_tags_than_one_may_give_is_settled_and_changed_as_is_said(team):
    ada, bob = team
    made = ada.json("remember", "Cogs are counted by hand", "--type", "decision").entity.id
    ada("sync", "--with", bob.folder)
    for shell, name in ((ada, "ada"), (bob, "bob")):
        tags = ",".join(f"{name}-{number}" for number in range(60))
        shell("set", made, f"text=Cogs are counted by {name}", f"tags={tags}")
    ada("sync", "--with", bob.folder)
    words = advised(ada, made)
    assert words == ["set", made, "text=VALUE"]
    ada("set", made, "text=Cogs are counted by both")
    ada("state", made, "deferred")
    entity = ada.json("show", made).entity
    assert (len(entity.value["tags"]), entity.value["state"], entity.conflicts) == (120, "deferred", [])

    more = json.dumps([*entity.value["tags"], "one-more"])
    told = ada.fails("set", made, f"tags={more}", code=2, wrong="121 tags: the limit is 100").err
    assert "`periplus set ID tags=…`" in told
    ada("set", made, "tags=a,b")
    ada("undo", "--seq", str(ada.json("show", made).entity.seq))
    assert len(ada.json("show", made).entity.value["tags"]) == 120


def with_many_tags(team, text):
    """The id of a decision that has 120 tags, sixty of each of two clones."""
    ada, bob = team
    made = ada.json("remember", text, "--type", "decision").entity.id
    ada("sync", "--with", bob.folder)
    for shell, name in ((ada, "ada"), (bob, "bob")):
        shell("set", made, "tags=" + ",".join(f"{name}-{made[4:10]}-{number}" for number in range(60)))
    ada("sync", "--with", bob.folder)
    return made


def test_what_has_more_tags_than_one_may_give_is_replaced_with_all_of_them(team):
    ada, _ = team
    first, second = with_many_tags(team, "Cogs are counted by hand"), with_many_tags(team, "Wheels are counted by hand")
    evolved = ada.json("evolve", first, "Cogs are counted by eye").entities[0]
    assert len(evolved.value["tags"]) == 120
    merged = ada.json("merge", evolved.id, second, "--text", "All is counted by eye").entities[0]
    assert len(merged.value["tags"]) == 240
    parts = ada.json("split", merged.id, "Cogs are seen", "Wheels are seen").entities[:2]
    assert [len(one.value["tags"]) for one in parts] == [240, 240]
    stands = ada.json("merge", *(one.id for one in parts), "--text", "Cogs are seen").entities[0]
    assert (stands.id, len(stands.value["tags"])) == (parts[0].id, 240)

    anew = ",".join(f"new-{number}" for number in range(101))
    ada.fails(
        "evolve", stands.id, "Cogs are heard", "--set", f"tags={anew}", code=2, wrong="101 tags: the limit is 100"
    )
    few = ada.json("evolve", stands.id, "Cogs are heard", "--set", "tags=a,b").entities[0]
    assert few.value["tags"] == ["a", "b"]


def test_a_clone_of_the_files_knows_what_has_more_tags_than_one_may_give(team, tmp_path):
    ada, _ = team
    made = with_many_tags(team, "Cogs are counted by hand")
    ada("set", made, "text=Cogs are counted by eye")
    eve = Shell(tmp_path / "eve", tmp_path)
    shutil.copytree(
        ada.folder / ".periplus",
        eve.folder / ".periplus",
        ignore=shutil.ignore_patterns("journal", "index*", "objects"),
    )
    for shell in (ada, eve):
        path = shell.folder / f".periplus/entities/decision/{made}.json"
        path.write_text(path.read_text().replace("by eye", "by ear")) if shell is ada else None
        assert "left alone" not in shell("status").out
        assert len(shell.json("show", made).entity.value["tags"]) == 120
    path = eve.folder / f".periplus/entities/decision/{made}.json"
    path.write_text(path.read_text().replace('"tags": [', '"tags": ["one-more", ', 1))
    assert "121 tags: the limit is 100" in eve("status").out
