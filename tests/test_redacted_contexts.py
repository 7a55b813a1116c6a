"""Redaction beside others: clones that went on from a context, or said something else of an entity, lose nothing but the text that went."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from cli_support import Shell

SECRET = "HUNTERSECRET22"


class Team:
    """Clones of one project, each with a folder of its own."""

    def __init__(self, tmp_path):
        home = tmp_path / "home"
        home.mkdir()
        self.folder = tmp_path
        self.shell = Shell(tmp_path, home)

    def make(self, *names):
        for name in names:
            place = self.folder / name
            place.mkdir()
            if name != names[0]:
                (place / ".periplus").mkdir()
                shutil.copy(self.folder / names[0] / ".periplus/config.toml", place / ".periplus")
            self(name, "init", *(["--join"] if name != names[0] else []))

    def __call__(self, clone, *words, **how):
        return self.shell(*words, cwd=self.folder / clone, **how)

    def commit(self, clone, *contents, ref="main", code=0):
        lines = "".join(json.dumps({"content": one, "type": "Fact"}) + "\n" for one in contents)
        return self(clone, "context", "commit", "-", "--ref", ref, stdin=lines, code=code)

    def known(self, clone, ref="main"):
        lines = self(clone, "context", "expand", ref, "--json").lines
        found = [json.loads(line) for line in lines]
        return sorted(one["atom"]["content"] for one in found if one.get("atom"))

    def sync(self, clone, other, **how):
        return self(clone, "sync", "--with", f"../{other}", **how)

    def redact(self, clone, code=0):
        return self(clone, "redact", "--secret-file", "-", "--reason", "leak", stdin=SECRET, code=code)

    def check(self, *clones):
        """All sound, and the secret nowhere."""
        for clone in clones:
            assert "sound: every checksum" in self(clone, "doctor").out
            for path in (self.folder / clone).rglob("*"):
                assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.fixture
def team(tmp_path):
    return Team(tmp_path)


@pytest.mark.parametrize("who", ["the redactor syncs", "the other syncs", "through a folder"])
def test_what_another_clone_committed_over_it_stays(team, who):
    team.make("a", "b")
    team.commit("a", f"key {SECRET}", "plain")
    team.sync("a", "b")
    team.commit("b", "found in b")
    team("b", "context", "refs", "--set", "bees", "main")
    team.commit("b", "of bees", ref="bees")
    team.redact("a")
    if who == "the redactor syncs":
        team.sync("a", "b")
    elif who == "the other syncs":
        team.sync("b", "a")
    else:
        for clone in ("a", "b", "a", "b"):
            team(clone, "sync", "--with", "../shared/")
    for clone in ("a", "b"):
        assert team.known(clone) == ["found in b", "plain"]
        assert team.known(clone, "bees") == ["found in b", "of bees", "plain"]
    team.check("a", "b")
    team.commit("b", "later in b")
    team.sync("a", "b")
    assert team.known("a") == ["found in b", "later in b", "plain"]


@pytest.mark.slow
def test_both_went_on(team):
    team.make("a", "b", "c")
    team.commit("a", f"key {SECRET}", "plain")
    team.sync("a", "b")
    team.sync("a", "c")
    team.commit("b", "found in b")
    team.commit("c", "found in c")
    team.redact("a")
    team.commit("a", "found in a")
    for clone in ("b", "c", "b"):
        team.sync("a", clone)
    team.sync("b", "c")
    team("b", "context", "merge")
    for clone in ("a", "c"):
        team.sync("b", clone)
    for clone in ("a", "b", "c"):
        assert team.known(clone) == ["found in a", "found in b", "found in c", "plain"]
    team.check("a", "b", "c")


def test_redacted_twice_before_the_other_hears_of_it(team):
    team.make("a", "b")
    team.commit("a", f"key {SECRET}", "other HUNTER33 secret", "plain")
    team.sync("a", "b")
    team.commit("b", "found in b")
    team.redact("a")
    team("a", "redact", "--secret-file", "-", "--reason", "another", stdin="HUNTER33")
    team.sync("b", "a")
    assert team.known("a") == team.known("b") == ["found in b", "plain"]
    team.check("a", "b")


def test_two_clones_that_bring_a_third_s_work_over_write_the_same(team):
    team.make("a", "b", "c")
    team.commit("a", f"key {SECRET}", "plain")
    for clone in ("b", "c"):
        team.sync("a", clone)
    team.commit("c", "found in c")
    team.sync("c", "b")
    team.redact("a")
    team.sync("b", "a")  # here and there, apart
    team.sync("c", "a")
    team.sync("b", "c")
    places = [json.loads(team(clone, "context", "refs", "--json").out)["refs"] for clone in ("a", "b", "c")]
    assert len({one["context"] for refs in places for one in refs}) == 1
    assert all(len(one["apart"]) == 1 for refs in places for one in refs)
    for clone in ("a", "b", "c"):
        assert team.known(clone) == ["found in c", "plain"]
    team.check("a", "b", "c")


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_ref_that_was_moved_apart(team, side):
    team.make("a", "b")
    team.commit("a", "base")
    team.sync("a", "b")
    said = {"a": ["fine", "also a"], "b": ["fine too", "also b"]}
    said[side][0] = f"key {SECRET}"
    for clone, contents in said.items():
        team.commit(clone, *contents)
    team.sync("b", "a")
    team.redact(side)
    assert "diverged between two clones" in team(side, "context", "refs").out, (
        "what others said is theirs to bring together"
    )
    team(side, "context", "merge")
    team.sync("b", "a")
    kept = sorted(["base", said["a"][1], said["b"][1], *(said["b" if side == "a" else "a"][:1])])
    assert team.known("a") == team.known("b") == kept
    team.check("a", "b")


def lost_object(team, clone, aside):
    """Move the object of the newest context away."""
    line = team(clone, "context", "log", "--json").lines[0]
    digest = json.loads(line)["contexts"][0]["context"]
    folder = team.folder / clone / ".periplus/objects" / digest[:2]
    found = next(folder.glob(f"{digest[2:]}*"))
    found.rename(team.folder / aside)
    return found


def test_nothing_is_taken_out_below_a_hole(team):
    """What lies under a context that is not here may be what holds the text: it would be lost with it."""
    team.make("a")
    team.commit("a", f"key {SECRET}", "plain")
    team.commit("a", "two")
    hole = lost_object(team, "a", "aside")
    before = sorted(os.listdir(team.folder / "a/.periplus/objects"))
    failed = team.redact("a", code=5)
    assert "that context is incomplete here" in failed.err
    assert "Nothing was changed" in failed.err
    assert sorted(os.listdir(team.folder / "a/.periplus/objects")) == before
    (team.folder / "aside").rename(hole)
    team.redact("a")
    assert team.known("a") == ["plain", "two"]
    team.check("a")


def test_a_hole_in_a_ref_keeps_nothing_else_in_the_store(team):
    team.make("a")
    team.commit("a", "one")
    lost_object(team, "a", "aside")
    team("a", "remember", f"the key is {SECRET}", "--type", "note")
    assert "1 record redacted" in team.redact("a").out


@pytest.mark.parametrize("way", ["repair", "sync"])
def test_the_doctor_tells_of_a_ref_on_what_was_redacted_and_the_next_repair_or_sync_moves_it(team, monkeypatch, way):
    from periplus.journal import Writer
    from periplus.project import Project
    from periplus.project.context_store import renewal

    team.make("a", "b")
    team.commit("a", f"key {SECRET}", "plain")
    team.sync("a", "b")
    team.commit("b", "found in b")
    team.redact("a")
    with monkeypatch.context() as patch:  # as one that was killed in between
        patch.setattr(renewal, "renew_refs", lambda _project: [])
        with Project.open(os.fspath(team.folder / "b"), Writer("bob", "who_0000000000000000", "", 1)) as project:
            project.sync("../a", cwd=os.fspath(team.folder / "b"), environment={})
    broken = team("b", "doctor", code=3)
    assert "which was redacted" in broken.out
    if way == "repair":
        assert "was moved to contexts without the redacted content" in team("b", "doctor", "--repair").out
    else:
        team.sync("b", "a")
    assert team.known("b") == ["found in b", "plain"]
    team.check("b")


def test_a_record_that_says_that_a_context_took_its_own_place_moves_nothing(team):
    """In circles, and over itself: each sync would move the ref once more."""
    from periplus.context.deltas.ancestry import chain
    from periplus.journal import Writer
    from periplus.project import Project
    from periplus.project.context_store.renewal import renew_refs

    team.make("a")
    for content in ("one", "two", "three"):
        team.commit("a", content)
    with Project.open(os.fspath(team.folder / "a"), Writer("ada", "who_0000000000000000", "", 1)) as project:
        library = project.contexts.library
        places = [header.digest.hex() for header in chain(library, library.table.get("main"))]
        journal = project.journal
        for ways in ({places[1]: places[1]}, {places[1]: places[0]}, {places[0]: places[1], places[1]: places[0]}):
            said = {"lineage": journal.lineage, "records": [], "objects": [], "reason": "none", "renewed": ways}
            journal.mutate(lambda transaction, said=said: transaction.meta("redact", said), project.writer)
            held = journal.end().next_seq
            renew_refs(project)
            assert journal.end().next_seq <= held + 1
            renew_refs(project)
            renew_refs(project)
            assert journal.end().next_seq <= held + 1, "it comes to an end"
    assert set(team.known("a")) <= {"one", "two", "three"}


CONFLICT = "Base is decided"


@pytest.fixture
def conflict(team):
    """Two clones that set one field apart, one of them with the secret; the id."""
    team.make("a")
    team("a", "remember", CONFLICT, "--type", "decision")
    found = json.loads(team("a", "recall", "Base", "--json").out)["hits"][0]["id"]
    shutil.copytree(team.folder / "a", team.folder / "b")
    team("a", "set", found, "text=Alpha says port 80")
    team("b", "set", found, f"text=Beta says port 90 with {SECRET}")
    team.sync("a", "b")
    return found


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_an_entity_in_conflict_keeps_both_sides(team, conflict, order):
    team.redact("b")
    shown = team("b", "show", conflict)
    assert "in conflict: text" in shown.out
    for clone in order:
        team.sync(clone, "b" if clone == "a" else "a")
    for clone in ("a", "b"):
        shown = team(clone, "show", conflict).out
        assert "Alpha says port 80" in shown
        assert "Beta says port 90 with [redacted]" in shown
        assert "in conflict: text" in shown
    versions = [json.loads(team(clone, "show", conflict, "--json").out)["entity"]["version"] for clone in "ab"]
    assert versions[0] == versions[1]
    team.check("a", "b")
    team("a", "set", conflict, "text=Port 80, or 90")
    team.sync("a", "b")
    assert "in conflict" not in team("b", "show", conflict).out


def test_both_sides_of_a_conflict_hold_it(team):
    team.make("a")
    team("a", "remember", CONFLICT, "--type", "decision")
    found = json.loads(team("a", "recall", "Base", "--json").out)["hits"][0]["id"]
    shutil.copytree(team.folder / "a", team.folder / "b")
    team("a", "set", found, f"text=Alpha has {SECRET}")
    team("b", "set", found, f"text=Beta has {SECRET}")
    team.sync("a", "b")
    team.redact("a")
    team.redact("b")
    team.sync("a", "b")
    shown = team("a", "show", found).out
    assert "Alpha has [redacted]" in shown
    assert "Beta has [redacted]" in shown
    team.check("a", "b")


def test_seq_of_a_side_of_a_conflict_is_refused(team, conflict):
    failed = team("b", "redact", "--seq", "1", "--reason", "r", code=5)
    assert "is the present version of" in failed.err
