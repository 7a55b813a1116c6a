"""``reflect`` and ``candidates``: what is proposed, once; what becomes of it; what a crash leaves; the page about them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from periplus.base.clock import FixedClock
from periplus.base.errors import ConflictError, DamageError, SecretFoundError, UsageError
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.entities.types import MEMORY_TYPES
from periplus.memory.reflection.proposal import Proposal, Seen
from periplus.project import Project
from reflect_support import session
from support import Stop, StoppingFiles
from test_readme import PROGRAM, ROOT, commands_of

PAGE = ROOT / "docs" / "guides" / "reflection.md"
FAILED = "ConnectionError: redis refused"
RULE = "Never write to the global cache in tests."
FIRST = (
    ("prompt", "Make the tests pass"), ("run", "make test", FAILED), ("run", "docker compose up -d"), ("run", "make test"),
    ("edit", "src/cache.py"), ("say", "They pass."), ("prompt", f"Good. {RULE}"), ("say", "I will not."),
)  # fmt: skip
SECOND = (("prompt", "Add a cog"), ("run", "make test", FAILED), ("say", "The tests do not run here."))


def opened(tmp_path, **how):
    folder = tmp_path / "engine"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src/cache.py").write_text("CACHE = {}\n")
    Project.init(os.fspath(folder))
    root = os.fspath(folder / ".periplus")
    return Project(root, Writer("ada", "who_0000000000000000", "", 1), **how)


@pytest.fixture
def project(tmp_path):
    with opened(tmp_path) as project:
        project.import_transcripts(os.fspath(session(tmp_path / "one.jsonl", *FIRST)))
        yield project


def texts(done):
    return [one.proposal.text for one in done.written]


def test_what_a_trail_teaches_is_proposed_once(project):
    dry = project.reflection.reflect(dry_run=True)
    assert project.reflection.candidates() == []
    done = project.reflection.reflect()
    assert (
        texts(done)
        == texts(dry)
        == [RULE, f'`make test` fails with "{FAILED}"; it passes after `docker compose up -d`.']
    )
    assert [one.item_id for one in done.written] == [one.item_id for one in dry.written]
    before = [(one.item_id, one.version) for one in project.reflection.candidates()]
    again = project.reflection.reflect(every=True)
    assert (again.written, again.known, again.near) == ((), 2, ())
    assert [(one.item_id, one.version) for one in project.reflection.candidates()] == before
    assert {hit.item_type for hit in project.recall("never write to the global cache").hits} == {"trail"}


def test_accepting_makes_memory_that_names_its_steps(project):
    rule, lesson = project.reflection.reflect().written
    done = project.reflection.accept(rule.item_id)
    value = done.entity.value
    assert (done.is_new, done.entity.item_type, value["text"], value["author"]) == (True, "constraint", RULE, "ada")
    assert value["provenance"] == {"kind": "reflection", "name": "correction", "source": rule.item_id}
    assert value["confidence"] == 75
    trail = next(iter(project.trails())).item_id
    assert value["evidence"][0]["kind"] == "step"
    assert value["evidence"][0]["ref"].startswith(f"{trail}#")
    assert value["evidence"][0]["quote"] == RULE
    assert value["about"][0]["ref"] == "src/cache.py"
    assert len(value["about"][0]["sha256"]) == 64  # as the file is now
    held = project.reflection.candidate(rule.item_id).value
    assert (held["state"], held["accepted_as"]) == ("accepted", done.entity.item_id)
    with pytest.raises(ConflictError, match="accepted already"):
        project.reflection.accept(rule.item_id)
    other = project.reflection.accept(lesson.item_id, text="Start redis before the tests.", item_type="trap").entity
    assert (other.item_type, other.value["text"], other.value["state"]) == (
        "trap",
        "Start redis before the tests.",
        "active",
    )
    assert project.reflection.reflect().known == 2
    assert any(hit.item_id == other.item_id for hit in project.recall("redis tests").hits)


def test_accepting_holds_to_what_holds_for_memory(project):
    rule, lesson = project.reflection.reflect().written
    for how, error in (
        ({"text": "Use AKIA" + "IOSFODNN7ABCDEFG"}, SecretFoundError), ({"text": "x" * 9000}, UsageError), ({"item_type": "plan"}, UsageError),
    ):  # fmt: skip
        with pytest.raises(error):
            project.reflection.accept(rule.item_id, **how)
    assert len(project.reflection.candidates()) == 2
    known = project.remember(Memory("constraint", RULE)).entity
    done = project.reflection.accept(rule.item_id)
    assert (done.is_new, done.entity.item_id) == (False, known.item_id)
    assert project.reflection.accept(lesson.item_id, item_type="note").entity.item_type == "note"


def test_what_was_refused_or_is_known_is_not_proposed_again(project, tmp_path):
    rule, _ = project.reflection.reflect().written
    project.reflection.refuse(rule.item_id, reason="it was for that test only")
    assert project.reflection.candidate(rule.item_id).value["reason"] == "it was for that test only"
    project.remember(
        Memory(
            "trap", "Run docker compose up before make test: redis is refused with a ConnectionError else, and fails"
        )
    )
    nearly = session(tmp_path / "two.jsonl", ("prompt", "Go on"), ("say", "Done."), ("prompt", "never write to a global cache in our tests!"),
                     name="5e551013")  # fmt: skip
    project.import_transcripts(os.fspath(nearly))
    done = project.reflection.reflect(every=True)
    assert done.written == ()
    assert [one.item_id for one in done.near] == [rule.item_id]


def test_a_lesson_that_waits_becomes_the_trap_when_it_comes_again(project, tmp_path):
    lesson = project.reflection.reflect().written[1]
    project.import_transcripts(os.fspath(session(tmp_path / "two.jsonl", *SECOND, name="5e551013")))
    (more,) = project.reflection.reflect(every=True).written
    assert (more.item_id, more.is_new) == (lesson.item_id, False)
    held = project.reflection.candidate(lesson.item_id).value
    assert (held["item_type"], held["payload"]["remedy"]) == ("trap", "It passes after `docker compose up -d`.")
    assert len(project.reflection.candidates()) == 2
    entity = project.reflection.accept(lesson.item_id).entity
    assert entity.item_type == "trap"


def test_which_trails_are_meant(project, tmp_path):
    project.import_transcripts(os.fspath(session(tmp_path / "two.jsonl", *SECOND, name="5e551013")))
    ids = [one.item_id for one in project.trails()]
    look = project.reflection.reflect
    assert look([ids[0][:12]], dry_run=True).trails == (ids[0],)
    assert set(look(every=True, dry_run=True).trails) == set(ids)
    assert look(since="2030-01-01T00:00:00.000Z", dry_run=True).trails == ()
    assert set(look(since="2026-01-01T00:00:00.000Z", dry_run=True).trails) == set(ids)
    assert len(look(dry_run=True).trails) == 1


def test_a_store_may_accept_what_is_sure_enough(project):
    with open(os.path.join(project.root, "config.toml"), "a") as file:
        file.write("\n[reflect]\naccept_from = 70\n")
    done = project.reflection.reflect()
    ((candidate, accepted),) = done.accepted
    assert (candidate, accepted.entity.value["text"]) == (done.written[0].item_id, RULE)
    assert [one.value["state"] for one in project.reflection.candidates(with_decided=True)].count("pending") == 1
    with open(os.path.join(project.root, "config.toml"), "a") as file:
        file.write("accept_at = 3\n")
    with pytest.raises(UsageError, match="accept_at"):
        opened(Path(project.root).parents[1]).journal.refresh()


class Model:
    """Stands for a model: it says of each session what it was made to say."""

    def __init__(self, **change):
        self.change = change

    def propose(self, sessions, found):
        assert all(one.rule for one in found)
        for one in sessions:
            made = Proposal(
                "model",
                "lesson",
                ("model", "cogs"),
                "Cogs have teeth",
                "it was said",
                (Seen(one.trail, 0, "cogs"),),
                70,
            )
            yield made._replace(**self.change)


def test_a_model_is_a_value_and_held_to_the_same_bounds(project):
    key = "AKIA" + "IOSFODNN7ABCDEFG"
    done = project.reflection.reflect(proposers=[Model(text=f"Cogs are opened by {key}")])
    assert "Cogs are opened by [masked:" in " ".join(texts(done))
    assert key not in " ".join(texts(done))
    assert (
        project.reflection.reflect(proposers=[Model(subject=("x",), text="Wheels turn", confidence=10)]).written == ()
    )
    for change, wrong in (({"seen": (Seen("trl_x", 0),)}, "no step"), ({"item_type": "plan"}, "plan")):
        with pytest.raises(UsageError, match=wrong):
            project.reflection.reflect(proposers=[Model(**change)])


def test_a_trail_that_cannot_be_read_is_told_and_others_are_reflected_on(project, tmp_path):
    project.import_transcripts(os.fspath(session(tmp_path / "two.jsonl", *SECOND, name="5e551013")))
    bad = next(one for one in project.trails() if one.value["session_id"] == "5e551013")
    digest = str(bad.value["object"])
    (path,) = Path(project.root, "objects").rglob(f"*{digest[4:]}*")
    os.chmod(path, 0o644)
    path.write_bytes(b"not what it was")
    done = project.reflection.reflect(every=True)
    ((trail, error),) = done.damaged
    assert trail == bad.item_id
    assert isinstance(error, DamageError)
    assert len(done.written) == 2


def test_candidates_of_before_are_read_and_what_is_none_is_refused():
    from periplus.memory import memory_types

    check = memory_types()["candidate"].check
    before = {"v": 1, "state": "open", "source_store": "str_1", "source_lineage": "lin_1", "item_type": "note", "item_id": "nte_1",
              "version": "a", "rev": 1, "payload": {"text": "x"}, "provenance": {"kind": "other_project", "name": "str_1"}}  # fmt: skip
    check(before)
    ours = {
        "item_type": "note",
        "payload": {"text": "x"},
        "why": "because",
        "subject": ["a"],
        "provenance": {"kind": "reflection"},
    }
    check(ours)
    for bad, wrong in (
        ({**before, "version": ""}, "version"),
        ({**ours, "why": ""}, "why"),
        ({**ours, "provenance": {"kind": "import"}}, "source"),
    ):
        with pytest.raises(UsageError, match=wrong):
            check(bad)
    assert "candidate" in MEMORY_TYPES


def test_a_crash_anywhere_leaves_candidates_whole_and_the_next_run_ends_the_work(tmp_path):
    """Stop at each call that changes the disk, through reflecting, accepting and refusing; then do it again."""
    at, stops = 1, 0
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        clock = FixedClock(1_770_000_000_000)
        with opened(folder, clock=clock) as project:
            project.import_transcripts(os.fspath(session(folder / "one.jsonl", *FIRST)))
        files = StoppingFiles(at)
        try:
            with opened(folder, clock=clock, files=files) as project:
                rule, lesson = project.reflection.reflect().written
                project.reflection.accept(rule.item_id)
                project.reflection.refuse(lesson.item_id)
            break
        except Stop:
            stops += 1
        with opened(folder, clock=clock) as project:
            project.reflection.reflect()
            held = {one.item_id: one for one in project.reflection.candidates(with_decided=True)}
            assert len(held) == 2
            known = list(project.journal.entities("constraint"))
            accepted = [one for one in held.values() if one.value["state"] == "accepted"]
            assert [one.value["accepted_as"] for one in accepted] == [one.item_id for one in known]  # both or none
            for one in held.values():
                if one.value["state"] == "pending":
                    project.reflection.accept(one.item_id)
            assert project.reflection.candidates() == []
            assert [one for one in project.examine().problems if one.severity == "error"] == []
        at += 1 if os.environ.get("PERIPLUS_EXHAUSTIVE") else 4
    assert stops > 3


@pytest.mark.slow
def test_the_page_is_real(tmp_path):
    """Each command of docs/guides/reflection.md, in its order, with what it shows."""
    folder = tmp_path / "engine"
    session(tmp_path / "one.jsonl", *FIRST)
    session(tmp_path / "two.jsonl", *SECOND, name="5e551013")
    folder.mkdir()
    environment = {**os.environ, "HOME": os.fspath(tmp_path), "LOGNAME": "ada", "COLUMNS": "200"}
    subprocess.run([PROGRAM, "init"], cwd=folder, env=environment, check=True, capture_output=True)
    ids: dict[str, str] = {}
    count = 0
    for command, shown in commands_of(PAGE.read_text()):
        for shown_id, real_id in ids.items():
            command = command.replace(shown_id, real_id)  # noqa: PLW2901 - the page's command, in this store
        words = shlex.split(command)
        done = subprocess.run(
            [PROGRAM, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        said = "".join(f"{one}\n" for one in shown)
        ids |= dict(
            zip(re.findall(r"cnd_[0-9a-z]{16}", said), re.findall(r"cnd_[0-9a-z]{16}", done.stdout), strict=True)
        )
        assert plain(done.stdout) == plain(said), command
        count += 1
    assert count > 5


def plain(text):
    return re.sub(r"\b(trl|cnd|con|trp|les)_[0-9a-z]{16}\b", r"\1_ID", re.sub(r"[0-9a-f]{12,64}", "HEX", text))
