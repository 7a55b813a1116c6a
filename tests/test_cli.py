"""Every command as a person types it: what it prints, in text and as JSON, and its exit code."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import periplus
from cli_support import PERIPLUS, SECRET, Shell, claude_session, codex_session, decoded, fill, git, make_repository
from periplus.base.speed import FORM, IS_NATIVE
from periplus.cli.main import COMMANDS


@pytest.fixture
def sh(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Shell(tmp_path / "project", tmp_path / "home")


@pytest.fixture
def store(sh):
    fill(sh)
    return sh


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A store that tests only read: three decisions, a superseded one, a trap, a trail, a stale file."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "home").mkdir()
    (folder / "project").mkdir()
    shell = Shell(folder / "project", folder / "home")
    shell("init")
    (shell.folder / "auth.py").write_text("argon2\n")
    old = shell.json("remember", "Passwords are hashed with bcrypt", "--type", "decision").entity.id
    shell("remember", "Passwords are hashed with argon2", "--type", "decision", "--about", "auth.py", "--tag", "security",
          "--supersedes", old, "--rationale", "memory-hard")  # fmt: skip
    shell("remember", "The port of the test server is 8099", "--type", "decision", "--as", "grace")
    shell("remember", "Never log passwords, not even masked", "--type", "constraint")
    (shell.folder / "auth.py").write_text("scrypt\n")
    shell("trail", "import", claude_session(folder / "session.jsonl", steps=12))
    return shell


# -- the command line itself ---------------------------------------------------------------------------------------


def test_the_help_lists_the_commands(sh):
    done = sh("--help")
    assert done.err == ""
    for command in COMMANDS:
        assert f"\n    {command.name} " in done.out
        assert command.help in " ".join(done.out.split())


def test_version(sh):
    assert sh("--version").out == f"periplus {periplus.__version__} ({FORM})\n"


@pytest.mark.parametrize(
    ("words", "wrong", "advice"),
    [
        (["stauts"], "unknown command 'stauts'", "Did you mean `periplus status`?"),
        (["frobnicate"], "unknown command 'frobnicate'", "See `periplus --help`."),
        (["status", "--bogus"], "unrecognized arguments: --bogus", "See `periplus status --help`."),
        (["log", "--lim", "3"], "unrecognized arguments: --lim 3", "See `periplus log --help`."),
        (["remember"], "required: TEXT", "See `periplus remember --help`."),
        (["context"], "required: ACTION", "See `periplus context --help`."),
        (["trail", "burn"], "invalid choice: 'burn'", "See `periplus trail --help`."),
        (["--store", "x", "status"], "--store comes before the command", "periplus COMMAND --store"),
        (["log", "--limit", "0"], "0 is too small", "See `periplus log --help`."),
        (["log", "--limit", "x"], "'x' is not a whole number", "See `periplus log --help`."),
        (["log", "--limit", "9" * 30], "is not between 1 and", "See `periplus log --help`."),
        (["remember", "x", "--confidence", "101"], "101 is not between 0 and 100", "See `periplus remember --help`."),
        (["remember", "x", "--evidence", "hearsay"], "'hearsay' is not evidence", "Write record:SEQ"),
    ],
)
def test_wrong_usage(sh, words, wrong, advice):
    assert advice in sh.fails(*words, code=2, wrong=wrong).err


def test_wrong_usage_as_json(sh):
    error = sh.json("stauts", code=2)
    assert (error.error, error.exit_code) == ("usage", 2)
    assert error.next.startswith("Did you mean")
    error = sh.json("log", "--limit", "-", code=2)
    assert "whole number" in error.wrong


def test_a_folder_that_is_gone_is_no_place_to_work_in(sh, tmp_path):
    # By its interpreter: in a folder with a blank in its name pip's command is a script of the shell, which has something to say first.
    program = f"{shlex.quote(sys.executable)} {shlex.quote(PERIPLUS)}"
    script = f"mkdir gone && cd gone && rmdir ../gone && exec {program} status"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=sh.environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("periplus: the working folder cannot be determined")


# -- init ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_remembered_about_a_place_that_is_none_is_told(sh, tmp_path):
    (sh.folder / "auth.py").write_text("argon\n")
    (tmp_path / "other.txt").write_text("x\n")
    sh("init")
    assert "(did you mean auth.py?)" in sh("remember", "one", "--about", "auht.py").err
    assert "is outside the project" in sh("remember", "two", "--about", tmp_path / "other.txt").err
    assert "is outside the project" in sh("remember", "three", "--about", "/").err
    for path in ("auth.py", sh.folder, "./auth.py", sh.folder / "auth.py"):
        assert sh("remember", f"about {path}", "--about", path).err == ""
    link = tmp_path / "link"
    link.symlink_to(sh.folder)
    assert sh("remember", "over a link", "--about", link / "auth.py", cwd=link).err == ""


def test_init_makes_a_store_once(sh):
    done = sh("init")
    assert done.lines[0] == f"Made the store {sh.folder}/.periplus"
    assert sorted(os.listdir(sh.folder / ".periplus")) == [".gitignore", "config.toml", "entities", "journal"]
    before = (sh.folder / ".periplus/config.toml").read_bytes()
    assert sh("init").lines[0] == f"Found the store {sh.folder}/.periplus"
    again = sh.json("init")
    assert not again.created
    assert (sh.folder / ".periplus/config.toml").read_bytes() == before
    assert again.store in before.decode()


@pytest.mark.slow
def test_init_says_which_agents_have_sessions_of_this_project(sh):
    (sh.home / ".claude" / "projects" / "p").mkdir(parents=True)
    (sh.home / ".codex").mkdir()
    assert sh.json("init").agents == []
    claude_session(sh.home / ".claude" / "projects" / "p" / "other.jsonl", cwd="/elsewhere")
    assert "periplus trail import" not in sh("init").out
    claude_session(sh.home / ".claude" / "projects" / "p" / "s.jsonl", cwd=str(sh.folder))
    assert sh.json("init").agents == ["Claude Code"]
    assert "  1 session of Claude Code in this project: periplus trail import --all" in sh("init").lines
    assert sh("trail", "import", "--found").code == 0


def test_init_in_a_subfolder_and_in_a_linked_worktree_is_the_main_worktrees_store(sh, tmp_path):
    repository = make_repository(tmp_path / "repository")
    (repository / "deep/er").mkdir(parents=True)
    made = sh.json("init", cwd=repository / "deep/er")
    assert made.root == f"{repository}/.periplus"
    git(repository, "worktree", "add", "-q", tmp_path / "linked")
    again = sh.json("init", cwd=tmp_path / "linked")
    assert (again.root, again.created, again.store) == (made.root, False, made.store)
    sh("remember", "From the linked worktree", cwd=tmp_path / "linked")
    assert sh.json("status", cwd=repository / "deep").records == 1
    assert not (tmp_path / "linked/.periplus").exists()
    assert git(repository, "status", "--porcelain", "--untracked-files=all").split() == [
        "??", ".periplus/.gitignore", "??", ".periplus/config.toml",
    ]  # fmt: skip


@pytest.mark.slow
def test_init_of_a_named_folder(sh):
    (sh.folder / "Zahnräder & Öl").mkdir()
    done = sh("init", "Zahnräder & Öl")
    assert done.lines[0] == f"Made the store {sh.folder}/Zahnräder & Öl/.periplus"
    inside = sh.folder / "Zahnräder & Öl"
    sh("remember", "Öl für die Zahnräder — 3 l", cwd=inside)
    assert "Öl für die Zahnräder — 3 l" in sh("recall", "Zahnräder", cwd=inside).out
    assert sh.json("status", "--store", inside).records == 1
    assert sh.json("status", env={"PERIPLUS_STORE": f"{inside}/.periplus"}).records == 1
    sh.fails("init", "nowhere", code=2, wrong="nowhere is not a folder")


def test_init_makes_the_store_that_is_named_even_within_a_repository(sh, tmp_path):
    repository = make_repository(tmp_path / "repository", commits=1)
    (repository / "part").mkdir()
    made = sh.json("init", "--store", "part", cwd=repository)
    assert made.root == f"{repository}/part/.periplus"
    assert not (repository / ".periplus").exists()
    sh.fails("init", "part", "--store", "part", code=2, wrong="either a FOLDER or --store", cwd=repository)


# -- status, remember ------------------------------------------------------------------------------------------------


def test_status_of_an_empty_store_and_of_none(sh):
    done = sh.fails("status", code=2, wrong=f"no store in {sh.folder} or any folder above it")
    assert "Make one with `periplus init`" in done.err
    error = sh.json("status", code=2)
    assert (error.error, error.safe) == ("not_a_store", "Nothing was changed.")
    sh("init")
    assert sh("status").lines == [
        f"store    {sh.folder}/.periplus", "journal  0 records", "holds    nothing yet", "state    sound",
    ]  # fmt: skip


def test_status_counts(known):
    found = known.json("status")
    assert found.entities == {"constraint": 1, "decision": 3, "trail": 1}
    assert (found.records, found.sound, found.damage, found.index_current) == (6, True, "", True)
    assert "holds    1 constraint, 3 decisions, 1 trail" in known("status").lines


@pytest.mark.slow
def test_status_says_what_waits_for_who_asks(sh):
    sh("init")
    passed_on = sh.json("handoff", "write", "Two cogs are cast").handoff.id
    for text in ("Look at the cogs", "And at the crank"):
        sh("inbox", "send", "ada", text)
    sh("inbox", "send", "bob", "Not for Ada")
    found = sh.json("status")
    assert (found.mail, found.handoffs, found.candidates) == (2, 1, 0)
    assert sh("status").lines[-2:] == [
        "mail     2 messages for you: periplus inbox mail", "handoff  1 handoff to take over: periplus handoff list",
    ]  # fmt: skip
    sh("handoff", "accept", passed_on)
    for message in sh.json("inbox", "mail").messages:
        sh("inbox", "read", message.id)
    found = sh.json("status")
    assert (found.mail, found.handoffs) == (0, 0)
    assert sh("status").lines[-1] == "state    sound"


@pytest.mark.parametrize(
    ("kind", "prefix", "fields"),
    [
        ("decision", "dec", {"rationale": "it is fast", "alternative": "slowly"}),
        ("constraint", "con", {"check": "make check"}),
        ("trap", "trp", {"severity": "high", "remedy": "turn back", "check": "make trap"}),
        ("lesson", "les", {}),
        ("note", "not", {"expires": "2030-01-01"}),
    ],
)
def test_remember_every_type(store, kind, prefix, fields):
    options = [word for name, value in fields.items() for word in (f"--{name}", value)]
    done = store.json("remember", f"About a {kind}", "--type", kind, "--tag", "t", "--confidence", "80", "--evidence",
                      "commit:abc", *options)  # fmt: skip
    value = done.entity.value
    assert done.new
    assert done.entity.id.startswith(f"{prefix}_")
    assert (value["text"], value["tags"], value["confidence"], value["author"]) == (f"About a {kind}", ["t"], 80, "ada")
    assert value["evidence"] == [{"kind": "commit", "ref": "abc"}]
    expected = {"alternatives": ["slowly"]} if kind == "decision" else {}
    expected |= {name: text for name, text in fields.items() if name not in ("alternative", "expires")}
    expected |= {"expires": "2030-01-01T00:00:00.000Z"} if kind == "note" else {}
    assert {name: value[name] for name in expected} == expected
    shown = store("show", done.entity.id).out
    assert f"{kind} {done.entity.id}  rev 1" in shown
    assert f"About a {kind}" in shown


def test_remember_a_duplicate_and_what_says_almost_the_same(store):
    first = store("remember", "Build with make all", "--type", "lesson")
    item_id = first.lines[0].split()[3]
    assert first.lines == [f"Remembered the lesson {item_id} as record 1."]
    again = store("remember", "  Build with make all ", "--type", "lesson")
    assert again.lines[0].startswith(f"Already known as {item_id} (rev 1, ")
    assert again.lines[0].endswith("nothing was written.")
    assert again.lines[1:] == []
    more = ("--about", "nowhere.py", "--tag", "make", "--rationale", "It is quicker")
    told = store("remember", "Build with make all", "--type", "decision", "--rationale", "It is whole").lines
    decision = told[0].split()[3]
    told = store("remember", "Build with make all", "--type", "decision", *more).lines
    assert told[1] == "  The existing memory lacks tags make, about nowhere.py, rationale: nothing was added."
    assert told[2].startswith(f"  To add it: periplus set {decision} FIELD=VALUE")
    near = store.json("remember", "Build with make all, always", "--type", "lesson")
    assert (near.new, near.near) == (True, [item_id])
    done = store("remember", "Build with make all, never otherwise", "--type", "lesson")
    assert f"  Similar entity: {item_id}. To replace it: --supersedes {item_id}" in done.lines


def test_remember_refuses_a_secret_until_somebody_insists(store):
    done = store.fails("remember", f"the key is {SECRET}", code=5, wrong="looks like a secret")
    assert "Nothing was written." in done.err
    assert SECRET not in done.err
    assert store.json("remember", f"the key is {SECRET}", code=5).error == "secret"
    assert store.json("status").records == 0
    assert store.json("remember", f"the key is {SECRET}", "--allow-secret").new


def test_a_secret_beside_what_is_written_is_refused(store):
    store("claim", "take", "src")
    trap = store.json("remember", "Mind the proxy", "--type", "trap").entity.id
    refused = [
        (("state", trap, "resolved", "--reason", SECRET), {}),
        (("state", trap, "resolved", "--reason", f"{'so ' * 61}{SECRET}"), {}),  # a line of the log ends within it
        (("state", trap, "resolved", "--key", SECRET), {}),
        (("claim", "release", "--reason", f"it is {SECRET}"), {}),
        (("state", trap, "resolved", "--as", SECRET), {}),
        (("remember", "n", "--key", SECRET), {}),
        (("remember", "n"), {"PERIPLUS_AGENT": SECRET}),
        (("remember", "n"), {"PERIPLUS_SESSION": SECRET}),
        (("redact", "--seq", "1", "--reason", f"it is {SECRET}"), {}),
    ]
    for words, env in refused:
        done = store.fails(*words, code=5, wrong="looks like a secret", env=env)
        assert SECRET not in done.err
    kept = [path for path in (store.folder / ".periplus").rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]
    store("state", trap, "resolved", "--reason", f"it was {SECRET}", "--insist")
    assert SECRET in store("log").out


def test_remember_with_a_key_is_written_once(store):
    first = store.json("remember", "Once", "--key", "k1")
    again = store.json("remember", "Once", "--key", "k1")
    store.fails(
        "remember", "Once more", "--key", "k1", code=5, wrong="the key 'k1' was used for something else (record"
    )
    assert (first.new, first.key) == (True, "k1")
    assert (again.new, again.entity.id) == (False, first.entity.id)
    assert store.json("status").records == 1


@pytest.mark.parametrize("typed", ["…", "...", "TEXT", " … "])
def test_what_only_stands_for_a_text_is_not_remembered(store, typed):
    store.fails(
        "remember",
        typed,
        "--type",
        "decision",
        code=2,
        wrong=f"'{typed.strip()}' is a placeholder, not the text to save",
    )
    assert store.json("status").records == 0
    assert store.json("remember", f"{typed} stands for more", "--type", "decision").new


def test_remember_from_standard_input(store):
    done = store.json("remember", "-", stdin="Zeile eins\nZeile zwei – ü\n")
    assert done.entity.value["text"] == "Zeile eins\nZeile zwei – ü"
    store.fails("remember", "-", stdin="", code=2, wrong="a note needs a text")
    store.fails("remember", "-", stdin=b"\xff\xfe", code=2, wrong="standard input is not UTF-8 text (byte 0)")
    store.fails("remember", "-", stdin=b"x" * 1_100_000, code=2, wrong="standard input has over 1,048,576 bytes")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("severity", "a decision has no severity"), ("confidence", "confidence of a decision is given separately, not among the fields of its type")],
)  # fmt: skip
def test_a_field_that_is_none_of_the_type_is_told_with_those_that_are(store, field, wrong):
    done = store.fails("remember", "x", "--type", "decision", "--set", f"{field}=7", code=2, wrong=wrong)
    assert "Its own fields are: alternatives, rationale, state." in done.err


def test_show_names_what_it_is_about_as_a_person_does(store):
    (store.folder / "auth.py").write_text("def login():\n    return 1\n")
    about = ("--about", "auth.py", "--about", "auth.py:login")
    done = store.json("remember", "Logins are counted", *about)
    assert "\n  about       auth.py\n              auth.py:login\n" in store("show", done.entity.id).out
    assert {one["kind"] for one in store.json("show", done.entity.id).entity.value["about"]} == {"path", "symbol"}


@pytest.mark.slow
def test_remember_what_no_entity_can_hold(store):
    store.fails("remember", "x" * 8_001, code=2, wrong="the text has 8,001 characters; the limit is 8,000")
    store.fails("remember", "x", "--rationale", "y", code=2, wrong="a note has no rationale")
    store.fails("remember", "x", "--expires", "soon", code=2, wrong="--expires 'soon' is not a time")
    store.fails("remember", "x", "--supersedes", "dec_nothing", code=1, wrong="begins with 'dec_nothing'")
    store.fails("remember", b"\xff", code=2, wrong="TEXT is not UTF-8 text")
    store.fails("check", "src", b"src/\xff.py", code=2, wrong="'src/\\udcff.py' is not UTF-8 text (character 4)")
    assert store.json("status").records == 0


@pytest.mark.slow
def test_remember_names_who_wrote_it(store):
    assert store.json("remember", "one", "--as", "grace").entity.writer == "grace"
    value = store.json("remember", "two", env={"PERIPLUS_AGENT": "bot", "PERIPLUS_SESSION": "s1"}).entity.value
    assert (value["author"], value["session"], value["provenance"]["kind"]) == ("bot", "s1", "agent")
    assert store.json("remember", "three").entity.value["provenance"] == {"kind": "person", "name": "ada"}


# -- recall, brief, show, log ----------------------------------------------------------------------------------------


def test_recall_ranks_and_says_why_and_how_fresh(known):
    done = known("recall", "how are passwords hashed")
    assert done.lines[0].startswith("decision dec_")
    assert done.lines[1] == "  Passwords are hashed with argon2"
    assert done.lines[2] == "  stale: auth.py changed since this was written"
    assert done.lines[3].endswith("; record 2")
    found = known.json("recall", "how are passwords hashed")
    assert found.hits[0].stale == ["auth.py"]
    assert [hit.text for hit in found.hits[:2]] == [
        "Passwords are hashed with argon2",
        "Never log passwords, not even masked",
    ]


def test_recall_finds_nothing(known):
    assert known("recall", "zebra", code=1).out == "No results.\n"
    assert known.json("recall", "zebra", code=1).hits == []
    assert known.json("recall", "", code=2).wrong == "the question is empty"


@pytest.mark.slow
def test_recall_filters(known):
    def texts(*words, code=0):
        return [hit.text for hit in known.json("recall", *words, code=code).hits]

    new, old = "Passwords are hashed with argon2", "Passwords are hashed with bcrypt"
    assert texts("passwords hashed", "--all", "--tag", "security") == [new]
    assert old in texts("passwords hashed", "--all")
    assert old not in texts("passwords hashed")
    assert texts("passwords", "--type", "constraint") == ["Never log passwords, not even masked"]
    assert texts("port", "--author", "grace") == ["The port of the test server is 8099"]
    assert texts("port", "--author", "nobody", code=1) == []
    assert texts("passwords", "--path", "auth.py") == [new]
    assert texts("cogs", "--kind", "prompt") == ["Count the cogs of the engine"]
    assert texts("passwords", "--since", "2999-01-01", code=1) == []
    known.fails("recall", "passwords", "--since", "yesterday", code=2, wrong="--since 'yesterday' is not a time")


@pytest.mark.slow
def test_recall_pages_and_keeps_to_a_budget(known):
    whole = known.json("recall", "passwords", "--all")
    assert whole.matched == 3
    first = known("recall", "passwords", "--all", "--limit", "2")
    assert first.lines[-1] == "1 more: --offset 2"
    rest = known.json("recall", "passwords", "--all", "--limit", "2", "--offset", "2")
    assert [hit.id for hit in rest.hits] == [whole.hits[2].id]
    assert known("recall", "passwords", "--all", "--offset", "9", code=1).out == "There are only 3 results.\n"
    one = known.json("recall", "passwords", "--all", "--budget", "40")
    assert (len(one.hits), one.left_out) == (1, 2)
    none = known("recall", "passwords", "--all", "--budget", "1", code=1)
    assert none.out == "3 results, but none fits the budget: use a larger --budget.\n"


def test_recall_by_id(known):
    item_id = known.json("log", "--type", "constraint").records[0].id
    hit = known.json("recall", item_id).hits[0]
    assert (hit.id, hit.why) == (item_id, ["its id"])


@pytest.mark.parametrize("budget", [100, 130, 4000])
def test_brief_never_exceeds_its_budget(known, budget):
    found = known.json("brief", "change how passwords are hashed in auth.py", "--budget", str(budget))
    assert found.tokens <= budget
    assert known("brief", "change how passwords are hashed in auth.py", "--budget", str(budget)).out == found.text
    if budget == 4000:
        assert [section.title for section in found.sections][:2] == ["Constraints", "Decisions"] or found.sections
        assert "Passwords are hashed with argon2 (stale: auth.py changed since this was written)" in found.text
        assert "bcrypt" not in found.text


def test_brief_of_too_small_a_budget_or_of_nothing_known(known, store):
    known.fails("brief", "x", "--budget", "99", code=2, wrong="at least 100 tokens")
    known.fails("brief", "x", "--budget", "0", code=2, wrong="0 is too small")
    assert store("brief", "fly to the moon").out == "# Brief: fly to the moon\n\nNothing is known about this yet.\n"


def test_show(known):
    item_id = known.json("log", "--type", "decision").records[-1].id
    by_prefix = known.json("show", item_id[:9])
    assert (by_prefix.entity.id, by_prefix.stale) == (item_id, [])
    assert [record.action for record in by_prefix.history] == ["transition", "create"]
    out = known("show", item_id).out
    assert "  state       superseded\n" in out
    assert "  text        Passwords are hashed with bcrypt\n" in out
    known.fails("show", "dec_", code=2, wrong="'dec_' is the beginning of several ids: dec_")
    known.fails("show", "dec_zzzz", code=1, wrong="nothing has an id that begins with 'dec_zzzz'")
    assert known.json("show", "dec_zzzz", code=1).error == "not_found"


@pytest.mark.slow
def test_log_pages_through_everything(known):
    whole = known.json("log")
    assert [record.seq for record in whole.records] == [6, 5, 4, 3, 2, 1]
    assert whole.next_before is None
    page = known.json("log", "--limit", "4")
    assert page.next_before == 3
    rest = known.json("log", "--limit", "4", "--before", "3")
    assert [record.seq for record in rest.records] == [2, 1]
    assert rest.next_before is None
    assert known("log", "--limit", "4").lines[-1] == "older: periplus log --before 3"
    assert (
        known("log", "--limit", "1", "--type", "decision").lines[-1] == "older: periplus log --before 4 --type decision"
    )
    assert known("log", "--before", "1").out == "No matching records.\n"


def test_log_of_an_empty_journal(store):
    assert store("log").out == "The journal is empty.\n"
    assert store.json("log").records == []


# -- trails ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trail_import_of_git(sh, tmp_path):
    repository = make_repository(tmp_path / "repository", commits=3)
    sh("init", cwd=repository)
    done = sh("trail", "import", "--git", cwd=repository)
    assert "  imported  history of repository" in done.lines[0]
    assert "3 commits" in done.lines[1]
    again = sh.json("trail", "import", "--git", ".", cwd=repository)
    assert [trail.changed for trail in again.trails] == [False]
    newest = sh.json("trail", "import", "--git", "--max-commits", "1", cwd=repository)
    assert (newest.trails[0].changed, newest.trails[0].value["counts"]["commits"]) == (False, 3), "a part is no news"
    assert "Turn the crank 2 times" in sh("recall", "crank", cwd=repository).out
    sh.fails("trail", "import", "--git", tmp_path / "home", code=2, wrong="not a git repository", cwd=repository)
    sh.fails("trail", "import", "--git", "nowhere", code=1, wrong="no folder", cwd=repository)


def test_an_import_of_git_counts_what_it_leaves_out(sh, tmp_path):
    repository = make_repository(tmp_path / "repository", commits=4)
    sh("init", cwd=repository)
    done = sh("trail", "import", "--git", "--max-commits", "1", cwd=repository)
    assert done.lines[2] == "  3 older commits left out; --max-commits 4 takes all"
    (again,) = sh.json("trail", "import", "--git", "--max-commits", "1", cwd=repository).trails
    assert (again.changed, again.left_out) == (False, 3)
    (whole,) = sh.json("trail", "import", "--git", "--max-commits", "4", cwd=repository).trails
    assert (whole.value["counts"]["commits"], whole.left_out) == (4, 0)
    assert "left out" not in sh("trail", "import", "--git", cwd=repository).out


def test_trail_import_of_files(store, tmp_path):
    session = claude_session(tmp_path / "one.jsonl")
    done = store("trail", "import", session)
    assert "  imported  Count the cogs of the engine" in done.lines[0]
    assert done.lines[1].startswith("  claude-code: ")
    assert "already imported, nothing changed" in store("trail", "import", session).out
    other = codex_session(tmp_path / "two.jsonl")
    assert store.json("trail", "import", other, "--format", "codex").trails[0].value["format"] == "codex"
    store.fails(
        "trail", "import", other, "--format", "claude-code", code=2, wrong="a transcript of codex, not of claude-code"
    )
    listed = store("trail", "list").lines
    assert [line.split()[2] for line in listed] == ["codex", "claude-code"]
    assert listed[1].endswith("steps  Count the cogs of the engine")
    assert [trail.value["title"] for trail in store.json("trail", "list").trails] == [
        "Oil the wheels", "Count the cogs of the engine",
    ]  # fmt: skip


def test_trail_import_goes_on_behind_a_file_that_is_none(store, tmp_path):
    good, bad = claude_session(tmp_path / "good.jsonl"), tmp_path / "bad.txt"
    bad.write_text("not a session\n")
    done = store("trail", "import", bad, good, code=2)
    assert "imported  Count the cogs" in done.out
    assert f"{bad}: not an importable transcript" in done.err
    assert f"Give the session instead: periplus trail import {good}" in done.err
    result = store.json("trail", "import", bad, good, code=2)
    assert [failure.path for failure in result.failed] == [str(bad)]
    assert len(result.trails) == 1


def test_trail_import_says_which_lines_are_no_records(store, tmp_path):
    path = claude_session(tmp_path / "mixed.jsonl")
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, "{broken", *rest, rest[-1] * 2, rest[-1]]) + "\n")
    torn = [2, len(rest) + 3]
    done = store("trail", "import", path)
    assert "skipped: unreadable line 2" in done.out
    assert f"skipped, not records: line {torn[0]}, {torn[1]}" in done.out
    again = store.json("trail", "import", path)
    assert again.trails[0].changed is False
    assert again.trails[0].value["unreadable_lines"] == torn


def test_trail_import_of_what_is_found(store):
    sessions = store.home / ".claude/projects/-project"
    claude_session(sessions / "a.jsonl", cwd=str(store.folder / "part"), session="one", prompt="Mine, in a part")
    claude_session(sessions / "b.jsonl", cwd="/elsewhere", session="two", prompt="Of another project")
    codex_session(store.home / ".codex/sessions/2026/02/04/rollout-1.jsonl", cwd=str(store.folder), prompt="Mine too")
    found = store.json("trail", "import", "--found")
    assert sorted(trail.value["title"] for trail in found.trails) == ["Mine too", "Mine, in a part"]
    assert (found.failed, found.left_out) == ([], 0)
    shutil.rmtree(store.home / ".claude")
    shutil.rmtree(store.home / ".codex")
    store.fails("trail", "import", "--found", code=1, wrong=f"no session of {store.folder} was found")


def test_trail_import_of_nothing(store):
    store.fails("trail", "import", code=2, wrong="nothing to import")
    assert "No trails yet." in store("trail", "list").out


@pytest.mark.slow
def test_trail_show_in_all_forms(known):
    text = known("trail", "show", "trl_")
    assert text.lines[0] == "; trail     5e551011"
    steps = [line for line in text.lines if not line.startswith(";")]
    assert "make cog3" in text.out
    compact = known("trail", "show", "trl_", "--form", "compact").lines
    assert len(compact) == len(steps)
    verbose = known("trail", "show", "trl_", "--form", "verbose").out
    assert "    outcome    ok" in verbose
    as_json = known("trail", "show", "trl_", "--form", "json").lines
    rows = [json.loads(line) for line in as_json]
    assert [row["kind"] for row in rows] == ["trail", *["step"] * len(steps), "end"]
    assert known("trail", "show", "trl_", "--json").lines == as_json
    assert known("trail", "show", rows[0]["digest"][:12]).lines == text.lines
    assert known("trail", "show", "trl_", "--limit", "2").lines == text.lines[:2]


@pytest.mark.slow
def test_trail_show_around_a_step(known):
    whole = [line for line in known("trail", "show", "trl_").lines if not line.startswith(";")]
    assert known("trail", "show", "trl_", "--at", "6").lines == whole[3:10]
    assert known("trail", "show", "trl_", "--at", "0").lines == whole[:4]
    compact = known("trail", "show", "trl_", "--form", "compact").lines
    assert known("trail", "show", "trl_", "--form", "compact", "--at", "6").lines == compact[3:10]
    rows = [json.loads(line) for line in known("trail", "show", "trl_", "--json", "--at", "6").lines]
    assert [row["index"] for row in rows] == [3, 4, 5, 6, 7, 8, 9]
    verbose = known("trail", "show", "trl_", "--form", "verbose", "--at", "6").out
    assert [line.split()[0] for line in verbose.splitlines() if line[:1].isdigit()] == list("3456789")
    assert verbose.count("    outcome") == 7
    last = len(whole) - 1
    assert known("trail", "show", "trl_", "--form", "verbose", "--at", str(last)).out.count("    outcome") == 4
    known.fails("trail", "show", "trl_", "--at", "999", code=1, wrong=f"it has steps 0 to {last}")


def test_trail_files_need_no_store(known, tmp_path):
    card = known.json("trail", "list").trails[0].value
    data = _object(known, card["object"])
    (tmp_path / "run.trail").write_bytes(data)
    alone = Shell(tmp_path, tmp_path)
    assert "make cog3" in alone("trail", "show", "run.trail").out
    done = alone("trail", "verify", "run.trail")
    assert done.lines[0].startswith("verified  run.trail  ")
    result = alone.json("trail", "verify", "run.trail")
    assert (result.ok, result.trails[0].digest, result.trails[0].first_bad_offset) == (True, card["digest"], None)
    torn = bytearray(data)
    torn[len(torn) // 2] ^= 1
    (tmp_path / "torn.trail").write_bytes(torn)
    wrong = alone("trail", "verify", "torn.trail", "run.trail", code=3)
    assert wrong.lines[0].startswith("WRONG  torn.trail  ")
    assert wrong.lines[-1].startswith("verified  run.trail  ")
    result = alone.json("trail", "verify", "torn.trail", code=3)
    offset = result.trails[0].first_bad_offset
    assert not result.ok
    assert offset is not None
    assert 0 <= offset < len(data)
    assert f"byte {offset:,}" in wrong.out
    alone.fails("trail", "verify", "run.trail", "--key", "zz", code=2, wrong="not a public key: 'zz'")
    unsigned = alone("trail", "verify", "run.trail", "--key", "00" * 32, code=3)
    assert "signature" in unsigned.out
    alone.fails("trail", "show", "none.trail", code=2, wrong="no store in")


def test_trail_verify_of_a_store(known):
    done = known("trail", "verify")
    assert done.lines[0].startswith("verified  trl_")
    assert known.json("trail", "verify", "trl_").ok
    known.fails("trail", "verify", "trl_zzzz", code=1, wrong="begins with 'trl_zzzz'")
    known.fails("trail", "show", "zzzz", code=1, wrong="no trail or file is called 'zzzz'")


@pytest.mark.slow
def test_trail_verify_goes_on_behind_an_object_that_is_lost(store, tmp_path):
    for name in ("one", "two"):
        store("trail", "import", claude_session(tmp_path / f"{name}.jsonl", session=name, prompt=f"Run {name}"))
    lost = store.json("trail", "list").trails[0]
    digest = lost.value["object"]
    (path,) = [path for path in (store.folder / ".periplus/objects" / digest[:2]).iterdir() if digest[2:] in path.name]
    path.unlink()
    result = store.json("trail", "verify", code=3)
    assert sorted((file.name == lost.id, file.ok) for file in result.trails) == [(False, True), (True, False)]
    assert "no object" in next(file.summary for file in result.trails if not file.ok)


def _object(shell, digest):
    from periplus.base.files import Files
    from periplus.memory.entities.trail_packing import TRAILS_AT_REST
    from periplus.objects.store import ObjectStore

    store = ObjectStore(os.fspath(shell.folder / ".periplus/objects"), Files(), packing=TRAILS_AT_REST)
    return store.get(bytes.fromhex(digest))


# -- proofs ----------------------------------------------------------------------------------------------------------


def test_a_proof_is_checked_by_a_stranger_without_the_store(known, tmp_path):
    made = known.json("prove", "2", "--out", tmp_path / "two.proof")
    assert (made.kind, made.size, made.path) == ("inclusion", 6, str(tmp_path / "two.proof"))
    assert made.bytes == (tmp_path / "two.proof").stat().st_size
    (tmp_path / "far").mkdir()
    shutil.copy(tmp_path / "two.proof", tmp_path / "far/other name.proof")
    stranger = Shell(tmp_path / "far", tmp_path)
    done = stranger("verify", "other name.proof", "--key", made.key)
    assert done.lines[0].startswith("holds: signed by key ")
    assert done.lines[1].startswith("Record 2 of the 6 of lineage lin_")
    assert "Passwords are hashed with argon2" in done.lines[2]
    assert stranger("verify", "other name.proof").lines[0].startswith("holds: consistent, but its origin is unknown")
    result = stranger.json("verify", "other name.proof", "--head", f"{made.size}:{made.root}")
    assert (result.holds, result.kind, result.seq, result.size, result.root) == (True, "inclusion", 2, 6, made.root)
    assert json.loads(result.record)["summary"] == "decision: Passwords are hashed with argon2"


@pytest.mark.slow
def test_a_proof_of_another_key_or_head_does_not_hold(known, tmp_path):
    made = known.json("prove", "1", "--out", tmp_path / "one.proof")
    wrong = known("verify", tmp_path / "one.proof", "--key", "11" * 32, code=3)
    assert wrong.lines[0].startswith("does not hold: ")
    assert not known.json("verify", tmp_path / "one.proof", "--head", f"{made.size}:{'0' * 64}", code=3).holds
    known.fails("verify", tmp_path / "one.proof", "--head", "six", code=2, wrong="'six' is not a tree head")
    known.fails("verify", tmp_path / "one.proof", "--key", "nonsense", code=2, wrong="not a public key: 'nonsense'")
    (tmp_path / "key").write_text(made.key + "\n")
    assert known.json("verify", tmp_path / "one.proof", "--key", tmp_path / "key").holds
    data = bytearray((tmp_path / "one.proof").read_bytes())
    data[data.index(b'"summary"') + 12] ^= 1
    (tmp_path / "forged.proof").write_bytes(data)
    assert not known.json("verify", tmp_path / "forged.proof", code=3).holds
    (tmp_path / "text.proof").write_text("I promise")
    assert known("verify", tmp_path / "text.proof", code=3).out.startswith("does not hold: ")


@pytest.mark.slow
def test_a_proof_that_the_journal_only_grew(store):
    fill(store, *(f"Thing number {number}" for number in range(3)))
    done = store("prove", "--from", "1")
    assert done.lines[0].startswith(f"Wrote {store.folder}/growth-1-now.proof (")
    command = done.lines[-1].partition(": ")[2].split()
    assert command[:2] == ["periplus", "verify"]
    assert "begin with the earlier ones" in store(*command[1:]).out
    assert store.json("prove", "--from", "1", "--to", "2").size == 2
    store.fails("prove", "--from", "3", "--to", "2", code=2, wrong="--to 2 comes before --from 3")
    store.fails("prove", code=2, wrong="either SEQ, or --from A")
    store.fails("prove", "1", "--to", "2", code=2, wrong="either SEQ, or --from A")
    store.fails("prove", "4", code=1, wrong="there is no record 4")
    store.fails("prove", "0", code=2, wrong="0 is too small")


# -- doctor ----------------------------------------------------------------------------------------------------------


def test_doctor_of_a_sound_store(known):
    done = known("doctor")
    assert done.lines[0].endswith("1 segment, 6 records, 6 versions, 5 entities, 1 object")
    assert done.lines[1] == f"checked by periplus {periplus.__version__} ({FORM})"
    assert done.lines[2] == "sound: every checksum, version, object, trail and projection was checked"
    found = known.json("doctor")
    assert (found.sound, found.problems) == (True, [])
    assert found.native == IS_NATIVE


def test_doctor_warns_of_a_file_edited_by_hand_and_status_takes_it_in(store):
    item_id = store.json("remember", "Keep calm", "--type", "lesson").entity.id
    path = store.folder / f".periplus/entities/lesson/{item_id}.json"
    path.write_text(path.read_text().replace("Keep calm", "Panic"))
    done = store("doctor", code=1)
    assert "warning  the file has an edit that is not in the journal yet" in done.lines
    found = store.json("doctor", code=1)
    assert not found.sound
    assert [(problem.severity, problem.path) for problem in found.problems] == [("warning", str(path))]
    assert f"files    lesson {item_id} was edited in its file; see: periplus show {item_id}" in store("status").lines
    assert store.json("status").edited == []
    assert store.json("doctor").sound
    assert "Panic" in store("recall", "panic").out


def test_status_says_which_files_it_left_alone_and_why(store):
    item_id = store.json("remember", "Keep calm", "--type", "lesson").entity.id
    path = store.folder / f".periplus/entities/lesson/{item_id}.json"
    path.write_text(path.read_text().replace("Keep calm", ""))
    done = store("status")
    at = done.lines.index(f"files    left alone: .periplus/entities/lesson/{item_id}.json: a lesson needs a text")
    assert "periplus status" in done.lines[at + 1]
    (left,) = store.json("status").left
    assert (left.path, left.what) == (str(path), "a lesson needs a text")
    assert "Keep calm" in store("recall", "calm").out


def test_doctor_finds_damage_and_says_where(store):
    fill(store, *(f"Thing number {number}" for number in range(3)))
    (path,) = (store.folder / ".periplus/journal").glob("lin_*/0*")
    data = bytearray(path.read_bytes())
    at = data.index(b"Thing number 1")
    data[at] ^= 1
    path.write_bytes(data)
    found = store.json("doctor", code=3)
    (problem,) = [problem for problem in found.problems if problem.severity == "error"]
    assert problem.path == str(path)
    assert problem.seq == 2
    line = data.rindex(b"\n", 0, at) + 1
    assert problem.offset == line
    done = store("doctor", code=3)
    assert any(line.startswith("error    damage to acknowledged data") for line in done.lines)
    assert path.read_bytes() == bytes(data)


def test_errors_as_json_carry_what_is_safe_and_what_is_next(store):
    done = store("verify", "nothing.proof", "--json", code=1)
    error = decoded(done.out)
    assert error.wrong == f"there is no file {store.folder}/nothing.proof"
    assert (error.error, error.safe, error.next, error.exit_code) == (
        "not_found",
        "Nothing was changed.",
        "Check the name.",
        1,
    )
    assert done.err.startswith("periplus: there is no file")


def test_doctor_makes_a_checkpoint_and_tells_of_it(known):
    assert known("doctor", "--compact").lines[1].startswith("checkpoint at seq 6, ")
    found = known.json("doctor", "--compact")
    assert found.checkpoint is None, "nothing came since"
    assert found.sound
    (made,) = Path(found.root, "journal", "checkpoints").iterdir()
    made.write_bytes(made.read_bytes()[:-1])
    found = known.json("doctor", code=1)
    assert [problem.what for problem in found.problems if "checkpoint" in problem.what]


@pytest.mark.slow
def test_paths_lead_from_the_folder_in_which_they_are_typed(store):
    inner = store.folder / "inner"
    inner.mkdir()
    for folder in (store.folder, inner):
        (folder / "a.py").write_text(f"NAME = {folder.name!r}\n")

    def refs(item_id):
        return [one["ref"] for one in store.json("show", item_id).entity.value["about"]]

    done = store("remember", "In the inner one", "--type", "lesson", "--about", "new.py", "--about", "gone/", cwd=inner)
    assert f"{inner / 'new.py'} does not exist" in done.err
    item = store.json("log", "--limit", "1").records[0].id
    assert refs(item) == ["inner/new.py", "inner/gone"]
    store("set", item, "about=a.py", cwd=inner)
    assert refs(item) == ["inner/a.py"]
    store("set", item, 'about=["a.py:1", "../a.py"]', cwd=inner)
    assert refs(item) == ["inner/a.py:1", "a.py"]
    assert f"{inner / 'nowhere.py'} does not exist" in store("set", item, "about=nowhere.py", cwd=inner).err
    store("evolve", item, "In the inner one, still", "--set", "about=a.py", cwd=inner)
    assert refs(store.json("log", "--type", "lesson", "--action", "create").records[0].id) == ["inner/a.py"]
    store("remember", "See there", "--about", "https://example.org/a", cwd=inner)
    assert refs(store.json("log", "--limit", "1").records[0].id) == ["https://example.org/a"]
    step = store.json("plan", "make", "Tidy", "--step", "Sweep").steps[0].id
    store("set", step, "about=a.py", cwd=inner)
    assert refs(step) == ["inner/a.py"]


def test_a_path_that_leads_from_somewhere_is_found_as_the_project_names_it(store):
    inner = store.folder / "inner"
    inner.mkdir()
    (inner / "a.py").write_text("NAME = 1\n")
    store("remember", "The harbour is deep", "--about", "inner/a.py")
    asked = [("./inner", store.folder), ("./inner/a.py", store.folder), (".", store.folder), ("./a.py", inner), (inner, inner),
             ("../inner/a.py", inner), ("a.py", inner)]  # fmt: skip
    for path, cwd in asked:
        assert "The harbour is deep" in store("recall", "harbour", "--path", path, cwd=cwd).out
    store.fails("recall", "harbour", "--path", "../../a.py", code=2, wrong="lies outside of the project")


def test_ids_and_digests_are_found_as_they_are_pasted(sh):
    sh("init")
    made = sh.json("remember", "Cogs are counted by hand", "--type", "decision").entity.id
    claude_session(sh.folder / "run.jsonl", steps=1)
    trail = sh.json("trail", "import", "run.jsonl").trails[0].id
    sh("context", "commit", "--from", "memory")
    digest = sh.json("context", "log").contexts[0].context
    for word in (made.upper(), f" {made}\n", f"\ufeff{made}", made[:8].upper()):
        assert sh.json("show", word).entity.id == made
        assert sh.json("blame", word).entity.id == made
    assert sh("trail", "show", trail.upper()).out == sh("trail", "show", trail).out
    assert sh.json("context", "show", digest[:12].upper()).context.context == digest
    sh.fails("show", "", code=2)
    sh.fails("show", " ", code=1, wrong="nothing has an id that begins with ' '")


def test_a_byte_order_mark_before_what_is_read_is_no_part_of_it(sh):
    sh("init")
    made = sh.json("remember", "-", stdin="\ufeffCogs are counted by hand").entity
    assert made.value["text"] == "Cogs are counted by hand"
    (sh.folder / "atoms.jsonl").write_text('\ufeff{"content": "nine cogs"}\n{"content": "ten"}\n')
    assert sh.json("context", "commit", "atoms.jsonl").added == 2


def test_recall_says_what_it_found_one_edit_away(known):
    told = known("recall", "hashng").out.splitlines()
    assert told[0] == "Nothing is found for hashng; one edit away: hashing."
    answer = json.loads(known("recall", "hashng", "--json").out)
    assert answer["terms"] == ["hashng"]
    assert answer["near"] == [{"asked": "hashng", "found": ["hashing"]}]
    assert json.loads(known("recall", "hashing", "--json").out)["near"] == []
