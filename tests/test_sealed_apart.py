"""Clones that import the same session and the same history, as these grow, redact, and sync, in any order.

Each seals what it imports with a secret of its own. Heads that tell of the same source are in no conflict, whatever was done to
them; what a clone knows to be redacted is not shown there again; when all have met, all show the same, byte by byte.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cli_support import claude_session, git, make_repository
from periplus.journal import Writer
from periplus.journal.projections.entity_file import render_entity
from periplus.project import Project
from periplus.trail import TextObject, open_parts
from stateful_support import stateful_settings

SECRET = "zanzibar-horse-battery"
NAMES = ("ada", "bob", "cleo")
CLONES = st.sampled_from(NAMES)


class Apart(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="apart"))
        self.session = self.folder / "session.jsonl"
        self.steps, self.commits = 1, 1
        self.knows: set[str] = set()  # clones that redacted, or synced since with one that knows
        origin = make_repository(self.folder / "origin", 1)
        Project.init(os.fspath(origin))
        for name in NAMES:
            git(self.folder, "clone", "-q", "origin", name)
            shutil.copytree(origin / ".periplus", self.folder / name / ".periplus")
            shutil.rmtree(self.folder / name / ".periplus" / "journal")
        self.grow_session()

    def teardown(self):
        try:
            self.meet()
        finally:
            shutil.rmtree(self.folder)

    def opened(self, name):
        return Project.open(os.fspath(self.folder / name), Writer.named(name))

    # -- what can happen -----------------------------------------------------------------------------------------------

    @rule(who=CLONES)
    def import_session(self, who):
        with self.opened(who) as project:
            project.import_transcripts(os.fspath(self.session))

    @rule(who=CLONES)
    def import_history(self, who):
        git(self.folder / who, "pull", "-q", "--ff-only")
        with self.opened(who) as project:
            project.import_git(os.fspath(self.folder / who))

    @precondition(lambda self: self.steps < 5)
    @rule()
    def grow_session(self):
        """The secret is in what it begins with, and in a call of its own."""
        self.steps += 1
        claude_session(self.session, prompt=f"log in with {SECRET}", steps=self.steps)
        self.session.write_text(self.session.read_text().replace("cog 1 made", f"cog 1 made, {SECRET}"))

    @precondition(lambda self: self.commits < 4)
    @rule()
    def grow_history(self):
        self.commits += 1
        (self.folder / "origin" / "engine.py").write_text(f"revision = {self.commits}\n")
        git(self.folder / "origin", "commit", "-q", "-a", "-m", f"Turn the crank {self.commits} times")

    @rule(who=CLONES)
    def redact(self, who):
        with self.opened(who) as project:
            if project.journal.lineage and project.redact(secret=SECRET, reason="it slipped").records:
                self.knows.add(who)

    @rule(one=CLONES, other=CLONES)
    def sync(self, one, other):
        if one == other:
            return
        with self.opened(one) as project:
            done = project.sync(
                os.fspath(self.folder / other), cwd=os.fspath(self.folder), environment=dict(os.environ)
            )
        assert done.report.refusals == []
        assert done.report.waiting == ()
        if self.knows & {one, other}:
            self.knows |= {one, other}

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def heads_of_one_source_are_in_no_conflict_and_nothing_comes_back(self):
        for name in NAMES:
            with self.opened(name) as project:
                for trail in project.trails():
                    heads = project.journal.heads_of("trail", trail.item_id)
                    told = {orjson.loads(head.payload)["source_sha256"] for head in heads}
                    assert len(told) > 1 or not trail.is_in_conflict, (name, trail.conflict_names)
                    shown = list(texts_of(project, trail))
                    assert shown
                    if name in self.knows:
                        assert not [text for text in shown if SECRET in text], name
                        assert SECRET.encode() not in trail.payload

    def meet(self):
        """Heads of several sources end with the next import of what has grown."""
        self.sync_all()
        self.steps, self.commits = 1, 1
        self.steps = 5
        self.grow_session()
        self.grow_history()
        for name in NAMES:
            self.import_session(name)
            self.import_history(name)
        self.heads_of_one_source_are_in_no_conflict_and_nothing_comes_back()
        self.sync_all()
        self.heads_of_one_source_are_in_no_conflict_and_nothing_comes_back()
        shown = []
        for name in NAMES:
            with self.opened(name) as project:
                assert project.journal.project(5.0)
                assert not [one.what for one in project.examine().problems if one.severity == "error"]
                entities = list(project.journal.entities())
                assert [one for one in entities if one.item_type == "trail"]
                assert not [one for one in entities if one.is_in_conflict]
                shown.append(sorted((one.item_id, render_entity(one)) for one in entities))
        assert shown[0] == shown[1] == shown[2]

    def sync_all(self):
        for one, other in [*itertools.combinations(NAMES, 2)] * 2:
            self.sync(one, other)


def texts_of(project, trail):
    """All texts of a trail as it is shown, objects among them that are held."""
    for reader in open_parts(project.trail_bytes(trail.item_id).data):
        for at in range(len(reader.strings)):
            value = reader.string(at)
            if isinstance(value, str):
                yield value
            elif isinstance(value, TextObject) and project.journal.objects.has(value.sha256):
                yield project.journal.objects.get(value.sha256).decode()


TestApart = pytest.mark.slow(Apart.TestCase)
TestApart.settings = stateful_settings(examples=10, steps=25)
