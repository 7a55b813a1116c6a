"""``related`` and ``changed``: on real stores, with real trails, as a person or a hook asks."""

from __future__ import annotations

import os

import pytest

from periplus.base.clock import FixedClock
from periplus.base.errors import NotFoundError, UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep
from periplus.memory.coordination.sessions import NewSession
from periplus.memory.retrieval.file_votes import _subject
from periplus.project import Project
from periplus.project.knowledge.task_brief import names_in
from support import calls_made
from test_memory_trails import CONTENT, put_trail

ADA = Writer("ada", "who_0000000000000001", "monday", 1)
BOB = Writer("bob", "who_0000000000000002", "bobs", 2)
CWD = "/home/me/work"


@pytest.fixture
def clock():
    return FixedClock(1_767_225_600_000, step_ms=1_000)


@pytest.fixture
def ada(tmp_path, clock):
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with Project(root, ADA, clock=clock) as project:
        yield project


def again(project, writer, clock):
    return Project(project.root, writer, clock=clock)


def commit(project, name, subject, *paths):
    steps = [("FILE_WRITE", path, CONTENT) for path in paths]
    return put_trail(project, name, [*steps, ("GIT_COMMIT", "work", subject)], source_format="git", title=subject)


# -- related


def test_a_task_brings_the_files_that_work_like_it_changed(ada):
    login = commit(ada, "c1", "Keep users signed in for thirty days", "src/login/cookies.py", "tests/test_cookies.py")
    commit(ada, "c2", "Translate the footer into Danish", "src/footer.py", "locale/da.po")
    found = ada.related(task="users are not signed in any more after some days")
    assert {vote.path for vote in found.files[:2]} == {"src/login/cookies.py", "tests/test_cookies.py"}
    assert all(vote.source.startswith(login) and vote.why for vote in found.files[:2])
    assert found.work[0].item_id == login


def test_files_bring_what_changed_with_them_what_is_known_of_them_and_who_worked_there(ada):
    rule = ada.remember(
        Memory("constraint", "Cookies are never set without the secure flag", about=("src/login",))
    ).entity
    trap = ada.remember(Memory("trap", "Safari drops long cookies", about=("src/login/cookies.py",))).entity
    ada.remember(Memory("trap", "The footer has no tests", about=("src/footer.py",)))
    gone = ada.remember(Memory("lesson", "Cookies are signed by hand", about=("src/login/cookies.py",))).entity
    ada.remember(Memory("lesson", "Cookies are signed by the framework", supersedes=(gone.item_id,)))
    both = commit(ada, "c1", "Sign in", "src/login/cookies.py", "tests/test_cookies.py")
    commit(ada, "c2", "Footer", "src/footer.py")
    found = ada.related(["src/login/cookies.py"])
    assert [vote.path for vote in found.files] == ["tests/test_cookies.py"]
    assert found.files[0].why == ("changed together with these files", "it tests src/login/cookies.py")
    assert {hit.item_id for hit in found.memory} == {rule.item_id, trap.item_id}
    assert {hit.why for hit in found.memory} == {("about src/login/cookies.py",)}
    assert [(hit.item_id, hit.kind, hit.why) for hit in found.work] == [
        (both, "commit", ("touched src/login/cookies.py",))
    ]
    assert {hit.item_id for hit in ada.related(["src"]).work} == {both, *(h.item_id for h in ada.related(["src"]).work)}
    assert len(ada.related(["src"]).work) == 2


def test_files_that_are_gone_are_not_proposed_unless_all_are(ada, tmp_path):
    commit(ada, "c1", "Sign in", "src/login.py", "src/old.py")
    assert {vote.path for vote in ada.related(task="sign in").files} == {"src/login.py", "src/old.py"}
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "login.py").write_text("")
    assert [vote.path for vote in ada.related(task="sign in").files] == ["src/login.py"]


def test_related_is_cut_by_limit_and_budget_and_counts_what_it_left_out(ada):
    for number in range(6):
        commit(ada, f"c{number}", f"Sign in, part {number}", f"src/login{number}.py", "src/both.py")
        ada.remember(Memory("note", f"Signing in has part {number}", about=("src/both.py",)))
    whole = ada.related(["src/both.py"], "sign in", limit=100)
    few = ada.related(["src/both.py"], "sign in", limit=2)
    assert (few.files, few.memory, few.work) == (whole.files[:2], whole.memory[:2], whole.work[:2])
    total = len(whole.files) + len(whole.memory) + len(whole.work)
    assert few.left_out == total - 6
    assert whole.left_out == 0
    tight = ada.related(["src/both.py"], "sign in", limit=100, budget_tokens=150)
    spent = sum(estimate_tokens(" ".join((vote.path, *vote.why))) for vote in tight.files)
    spent += sum(estimate_tokens(" ".join((hit.text, *hit.why))) for hit in (*tight.memory, *tight.work))
    assert 0 < spent <= 150
    assert tight.left_out == total - len(tight.files) - len(tight.memory) - len(tight.work)
    assert ada.related(["src/both.py"], "sign in", limit=100) == whole


@pytest.mark.parametrize(
    ("paths", "task", "limit", "wrong"),
    [((), "", 10, "neither"), ((), "  ", 10, "neither"), (("x",), "", 0, "limit"), (("x",) * 201, "", 10, "201 paths")],
)
def test_what_makes_no_sense_is_refused(ada, paths, task, limit, wrong):
    with pytest.raises(UsageError, match=wrong):
        ada.related(paths, task, limit=limit)


# -- changed


def what(found):
    return {(item.item_type, item.what, item.text) for item in found.items}


def test_what_others_did_since_ones_last_session_is_told_once_as_it_is_now(ada, clock):
    ada.work.begin_session(NewSession("monday"))
    own = ada.remember(Memory("decision", "We use argon2id")).entity
    old = ada.remember(Memory("trap", "The build needs node 18")).entity
    ada.work.seal_session("monday")
    with again(ada, BOB, clock) as bob:
        bob.remember(Memory("note", "The staging server moved"))
        bob.remember(Memory("decision", "We use scrypt", supersedes=(own.item_id,)))
        bob.work.change_state([old.item_id], "resolved")
        commit(bob, "c1", "Move to node 20", "package.json")
    with again(ada, ADA._replace(session="tuesday"), clock) as later:
        later.remember(Memory("note", "I am back"))
        found = later.changed()
        assert found.origin.session == "monday"
        assert what(found) == {
            ("decision", "ended", "We use argon2id"),
            ("decision", "created", "We use scrypt"),
            ("trap", "ended", "The build needs node 18"),
            ("note", "created", "The staging server moved"),
            ("trail", "created", "Move to node 20"),
        }
        assert [item.item_type for item in found.items] == ["trap", "decision", "decision", "note", "trail"]
        assert {name for item in found.items for name in item.by} == {"bob"} | {
            name for item in found.items if item.item_type == "trail" for name in item.by
        }
        text = later.brief("node").text
        assert "## Changed since your last session" in text
        assert "We use scrypt" in text


def test_a_brief_says_once_what_several_sessions_were_asked(ada, clock):
    ada.work.begin_session(NewSession("monday"))
    ada.remember(Memory("note", "I was here"))
    with again(ada, BOB, clock) as bob:
        for name in ("s1", "s2", "s3"):
            put_trail(bob, name, [("PROMPT", "Count the walrus tusks")], title="Count the walrus tusks")
    with again(ada, ADA._replace(session="tuesday"), clock) as later:
        later.remember(Memory("note", "I am back"))
        _, _, changed = later.brief("").text.partition("## Changed since")
    (line,) = [one for one in changed.splitlines() if "walrus" in one]
    assert line.startswith("- 3 trails created")


def test_since_a_record_a_time_and_a_session(ada, clock):
    ada.work.begin_session(NewSession("monday"))
    first = ada.remember(Memory("note", "one")).entity
    second = ada.remember(Memory("note", "two")).entity
    with again(ada, BOB, clock) as bob:
        assert {item.text for item in bob.changed(first.seq).items} == {"two"}
        assert {item.text for item in bob.changed(str(first.seq)).items} == {"two"}
        assert {item.text for item in bob.changed(0).items} == {"one", "two"}
        assert {item.text for item in bob.changed(second.ts).items} == {"two"}
        assert {item.text for item in bob.changed("2020-01-01").items} == {"one", "two"}
        assert bob.changed("monday").items == ()
        third = bob.remember(Memory("note", "three")).entity
        assert bob.changed("monday").items == ()  # one's own
        assert [item.text for item in ada.changed("monday").items] == ["three"]
        assert bob.changed(third.seq).items == ()
        assert bob.changed(10**9).items == ()


def test_entities_are_looked_up_where_they_are_shown(ada, clock):
    """What there is no room for is counted by its records: a store may have a hundred thousand entities."""

    def write(transaction, first):
        for number in range(first, first + 400):
            made = {**entity.value, "text": f"note {number}"}
            transaction.put("note", f"not_{number:016d}", made)
            if number % 4 == 0:
                transaction.delete("note", f"not_{number:016d}")

    entity = ada.remember(Memory("note", "the first")).entity
    counts, costs = [], []
    for first in (0, 400, 800, 1200):
        ada.journal.mutate(lambda t, first=first: write(t, first), ADA)
        with again(ada, BOB, clock) as bob:
            found = []
            costs.append(calls_made(lambda bob=bob, found=found: found.append(bob.changed(0, limit=5))))
            assert len(found[0].items) == 5
            counts.append((found[0].matched, found[0].left_out))
    assert counts == [(301, 296), (601, 596), (901, 896), (1201, 1196)]
    assert costs[3] - costs[2] < 400 * 12  # of 400 entities, each of which takes some 30 to look up


def test_who_made_it_is_named_for_what_was_made_and_who_wrote_last_for_what_was_changed(ada, clock):
    made = ada.work.hand_off(NewHandoff("half of it"))
    old = ada.remember(Memory("trap", "The build needs node 18")).entity
    with again(ada, BOB, clock) as bob:
        bob.work.accept_handoff(made.item_id)
        bob.work.set_fields(old.item_id, {"tags": ["build"]})
    with again(ada, Writer.named("eve"), clock) as eve:
        assert {(item.what, item.by) for item in eve.changed(0).items} == {("created", ("ada",))}
        assert {(item.what, item.by) for item in eve.changed(old.seq).items} == {("changed", ("bob",))}
    with again(ada, BOB, clock) as bob:
        bob.work.change_state([old.item_id], "resolved")
    with again(ada, Writer.named("eve"), clock) as eve:
        told = {(item.item_type, item.what, item.by) for item in eve.changed(0).items}
        assert told == {("handoff", "created", ("ada",)), ("trap", "ended", ("bob",))}


def test_who_ended_it_is_named_whoever_wrote_of_it_later(ada, clock):
    trap, plan = (
        ada.remember(Memory("trap", "The cache is broken")).entity,
        ada.work.make_plan("Work", [NewStep("one")]),
    )
    ada.work.change_state([trap.item_id], "resolved", reason="fixed")
    ended = ada.journal.end().next_seq - 1
    with again(ada, BOB, clock) as bob:
        bob.work.set_fields(trap.item_id, {"tags": ["cache"]})
        step = bob.work.take().step
        bob.work.change_state([step.item_id], "done")
    ada.work.set_fields(plan.plan.item_id, {"tags": ["work"]})
    ada.work.set_fields(step.item_id, {"tags": ["work"]})
    with again(ada, Writer.named("eve"), clock) as eve:
        told = {item.item_type: (item.what, item.by) for item in eve.changed(0).items}
        assert told == {"trap": ("ended", ("ada",)), "plan": ("created", ("ada",)), "step": ("ended", ("bob",))}
        [since] = [item for item in eve.changed(ended).items if item.item_type == "trap"]
        assert (since.what, since.state, since.by) == ("changed", "resolved", ("bob",))  # it had ended before
    with again(ada, BOB, clock) as bob:
        told = {item.item_type: (item.what, item.by) for item in bob.changed(0).items}
        assert told == {
            "trap": ("ended", ("ada",)),
            "plan": ("created", ("ada",)),
            "step": ("created", ("ada",)),
        }  # he ended it


def test_who_was_never_here_sees_everything(ada, clock):
    ada.remember(Memory("note", "one"))
    with again(ada, BOB, clock) as bob:
        found = bob.changed()
        assert [item.text for item in found.items] == ["one"]
        assert "no earlier session" in found.origin.what
        assert "Changed since" not in bob.brief("one").text


def test_changes_are_cut_and_counted(ada, clock):
    for number in range(9):
        ada.remember(Memory("note", f"note number {number} about something"))
    with again(ada, BOB, clock) as bob:
        assert (len(bob.changed(0, limit=4).items), bob.changed(0, limit=4).left_out) == (4, 5)
        few = bob.changed(0, budget_tokens=60)
        assert 0 < len(few.items) < 9
        assert few.left_out == 9 - len(few.items)


def test_what_another_project_proposed_and_what_was_deleted_is_told(ada, tmp_path, clock):
    (tmp_path / "other").mkdir()
    Project.init(str(tmp_path / "other"))
    with Project.open(str(tmp_path / "other"), BOB, clock=clock) as other:
        other.remember(Memory("lesson", "The reef is near"))
    ada.sync(str(tmp_path / "other"), cwd=str(tmp_path), environment=dict(os.environ), candidates=True)
    gone = ada.remember(Memory("note", "Soon gone")).entity
    at = ada.journal.end().next_seq - 1
    ada.undo(seqs=[at])
    with again(ada, BOB, clock) as bob:
        (proposed,) = [one for one in bob.changed(0).items if one.item_type == "candidate"]
        assert proposed.text == "The reef is near"
        (deleted,) = [one for one in bob.changed(at).items if one.what == "deleted"]
        assert deleted.more == f"periplus log --id {gone.item_id}"


def test_files_that_changed_since_are_told_with_the_last_that_touched_them(ada, clock):
    put_trail(ada, "s1", [("PROMPT", "go"), ("FILE_EDIT", f"{CWD}/a.py", "x", "y")])
    last = commit(ada, "c1", "Change a and b", "a.py", "b.py")
    with again(ada, BOB, clock) as bob:
        files = {one.path: one for one in bob.changed("2020-01-01").files}
        assert set(files) == {"a.py", "b.py"}
        assert files["a.py"].times == 2
        assert files["b.py"].source.startswith(last)
        with pytest.raises(NotFoundError, match="nor a known session"):
            bob.changed("never heard of")


def test_a_file_that_no_work_touched_is_told_by_its_name_and_a_test_by_what_it_tests(ada, tmp_path):
    for path in (
        "src/footer.py",
        "src/header.py",
        "tests/test_footer.py",
        "node_modules/footer.js",
        ".hidden/footer.py",
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    found = {vote.path: vote for vote in ada.related(task="translate the footer").files}
    assert list(found) == ["src/footer.py", "tests/test_footer.py"]
    assert found["src/footer.py"].why == ("its path has words of the task", "tests/test_footer.py tests it")
    assert found["src/footer.py"].source == ""
    assert [vote.path for vote in ada.related(["src/header.py"]).files] == []
    assert [vote.path for vote in ada.related(["tests/test_footer.py"]).files] == ["src/footer.py"]


@pytest.mark.parametrize(
    ("path", "tested"),
    [
        ("src/a.py", "tests/test_a.py"),
        ("src/a_b.go", "src/a_b_test.go"),
        ("web/Login.tsx", "web/Login.test.tsx"),
        ("web/login.ts", "web/login.spec.ts"),
        ("java/Login.java", "test/LoginTest.java"),
    ],
)
def test_names_of_tests_are_known(path, tested):
    assert _subject(path) == (_subject(tested)[0], False)
    assert _subject(tested)[1]
    assert not _subject("src/latest.py")[1]
    assert not _subject("docs/testament.md")[1]


def test_names_are_taken_from_the_top_and_not_without_end(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "deep" / "er" / f"{number}.py").write_text("")
        (tmp_path / f"{number}.py").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert names_in(os.fspath(tmp_path)) == ["0.py", "1.py", "2.py", "deep/er/0.py", "deep/er/1.py", "deep/er/2.py"]
    assert names_in(os.fspath(tmp_path / "nowhere")) == []


def test_related_in_a_large_number_of_files_is_the_same_each_time(ada, tmp_path):
    for number in range(30):
        commit(ada, f"c{number}", f"Change number {number}", f"a{number % 7}.py", f"b{number % 5}.py")
    once = ada.related(["a1.py"], "change the number")
    with Project(ada.root, BOB) as other:
        assert other.related(["a1.py"], "change the number").files == once.files
