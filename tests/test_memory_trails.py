"""What recall finds in trails, and the index beside a rebuilt one."""

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.clock import FixedClock, format_ms
from periplus.base.ids import derived_id
from periplus.memory import Filters, Memory, MemoryIndexer, likely_files
from periplus.memory.fulltext.documents import Document, label_of
from periplus.memory.retrieval.recall import SURROUNDINGS
from periplus.project import Project
from periplus.trail import Digest, Header, TrailBuilder, TrailReader
from support import SHARED, WRITER

START_MS = 1_767_225_600_000
CONTENT = Digest("sha256", bytes(32))
TABLES = ("documents", "words", "session_words", "texts", "touched", "replaced", "search_faults")


@pytest.fixture
def project(tmp_path):
    clock = FixedClock(START_MS, step_ms=1)
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with Project(root, WRITER, clock=clock) as project:
        yield project


def put_trail(project, name, steps, *, cwd="/home/me/work", source_format="claude-code", title=""):
    """A trail of ``steps`` (opcode and operands), announced as an import announces one; gives its entity's id."""
    builder = TrailBuilder(hashlib.sha256(name.encode()).digest(), project.journal.objects.put)
    for at, (op, *operands) in enumerate(steps):
        builder.add(op, *operands, at_ms=START_MS + at * 1_000)
    trail = builder.finish(Header("agent", name))
    card = {
        "v": 1, "digest": TrailReader(trail).digest.hex(), "object": project.journal.objects.put(trail).hex(),
        "bytes": len(trail), "format": source_format, "agent": "agent", "session_id": name, "source_sha256": "0" * 64,
        "title": title, "cwd": cwd, "started": format_ms(START_MS),
    }  # fmt: skip
    item_id = derived_id("trl", source_format, name, "")
    project.journal.mutate(lambda transaction: transaction.put("trail", item_id, card, action="import"), WRITER)
    return item_id


SESSION = (
    ("PROMPT", "Please make the login page remember me"),
    ("FILE_READ", "/home/me/work/src/login/cookies.py"),
    ("SAY", "I will set a longer lifetime on the cookie"),
    ("FILE_EDIT", "/home/me/work/src/login/cookies.py", "old", "new"),
    ("COMMAND_RUN", "pytest tests/test_cookies.py"),
    ("GIT_COMMIT", "work", "Keep users signed in for thirty days"),
    ("PROMPT", "Now translate the footer"),
)


def test_steps_sessions_and_commits_are_found(project):
    trail = put_trail(project, "s1", SESSION, title="remember me")

    def ask(question, **fields):
        return [(hit.kind, hit.part) for hit in project.recall(question, filters=Filters(**fields)).hits]

    assert ask("lifetime of cookies")[0] == ("answer", 2)
    assert ask("keeping users signed in")[0] == ("commit", 5)
    assert ask("translate footer")[0] == ("prompt", 6)
    assert ask("run pytest")[0] == ("command", 4)
    assert ask("footer login pytest cookie", kinds=("session",)) == [("session", -1)]
    assert ("session", -1) in ask("remember me")
    hit = project.recall("translate footer").hits[0]
    assert hit.more == f"periplus trail show {trail} --at 6"
    assert hit.ts == format_ms(START_MS + 6_000)
    assert hit.evidence[-1].startswith("record ")


OWN_CALLS = [
    ("COMMAND_RUN", 'periplus recall "walrus tusks"'),
    ("COMMAND_RUN", 'cd /w && timeout 5 periplus brief "walrus tusks" | head -20'),
    ("COMMAND_RUN", 'uvx periplus recall "walrus tusks"'),
    ("COMMAND_RUN", "python3 -m periplus recall 'walrus tusks'"),
    ("COMMAND_RUN", "/home/me/.venv/bin/periplus recall walrus tusks 2>/dev/null || true"),
    ("COMMAND_RUN", "bash -lc 'periplus recall \"walrus tusks\"'"),
    ("COMMAND_RUN", 'found=$(periplus recall "walrus tusks"); echo "$found"'),
    ("COMMAND_RUN", "periplus remember \"$(cat <<'END'\nwalrus tusks\nEND\n)\" --type note"),
    ("COMMAND_RUN", 'periplus recall "walrus tusks'),
    ("TOOL_CALL", "periplus", "recall", '{"question": "walrus tusks"}'),
    ("TOOL_CALL", "plugin_periplus_periplus", "brief", '{"task": "walrus tusks"}'),
    ("TOOL_CALL", "", "periplus_recall", '{"question": "walrus tusks"}'),
    ("TOOL_CALL", "", "mcp_periplus_recall", '{"question": "walrus tusks"}'),
    (
        "TOOL_CALL",
        "",
        "use_mcp_tool",
        '{"server_name": "periplus", "tool_name": "recall", "arguments": "walrus tusks"}',
    ),
]


@pytest.mark.parametrize("call", OWN_CALLS, ids=lambda call: call[1] or call[2])
def test_a_call_of_periplus_is_a_step_and_is_not_found(project, call):
    trail = put_trail(project, "a", (("PROMPT", "Look at the sea"), call, ("SAY", "It is grey")))
    assert project.recall("walrus tusks").hits == ()
    (found, *_) = project.recall("look at the sea").hits
    assert found.item_id == trail
    assert "walrus" not in str(found)
    reader = TrailReader(project.trail_bytes(trail).data)
    assert reader.step_count == 3


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        (("COMMAND_RUN", 'periplus recall "walrus tusks" && ./measure --ivory'), "measure ivory"),
        (("TOOL_CALL", "docs", "search", '{"query": "periplus walrus tusks"}'), "walrus tusks"),
        (("COMMAND_RUN", "grep -rn 'walrus tusks' src/periplus"), "walrus tusks"),
        (("COMMAND_RUN", "pip install periplus walrus-tusks"), "walrus tusks"),
    ],
)
def test_what_is_done_beside_periplus_is_found(project, call, kept):
    put_trail(project, "a", (("PROMPT", "Look at the sea"), call))
    assert next(hit.kind for hit in project.recall(kept).hits) in ("command", "session")
    assert bool(project.recall("walrus tusks").hits) == ("walrus" in kept)


def lines_about(project, task, word):
    return [line for line in project.brief(task).text.splitlines() if line.startswith("- ") and word in line.casefold()]


def test_a_brief_says_a_request_of_several_sessions_once(project):
    for name, text in (
        ("a", "Count the walrus tusks"),
        ("b", "count  the walrus tusks."),
        ("c", "Count the walrus tusks!"),
    ):
        put_trail(project, name, (("PROMPT", text), ("SAY", "Counted.")), title=text)
    (line,) = lines_about(project, "count walrus tusks", "walrus")
    assert line.startswith("- asked before in 3 sessions, 2026-01-01: ")


def test_a_brief_says_when_a_request_came_and_how_often(project):
    long = "Count the walrus tusks " + "and weigh every single one of them " * 6
    title = long[:119] + "…"
    put_trail(project, "a", (("PROMPT", long), ("SAY", "No."), ("PROMPT", long)), title=title)
    put_trail(project, "b", (("PROMPT", long), ("COMMENT", "Hm.")), title=title)
    other = (("PROMPT", long + "and the seals"), ("SAY", "No."))
    put_trail(project, "c", other, title="Seals and walrus")
    found = lines_about(project, "count walrus tusks", "walrus")
    assert sum("asked before 3 times in 2 sessions" in line for line in found) == 1
    assert sum(line.startswith("- asked before, ") for line in found) == 1  # another request, though it begins alike
    put_trail(project, "d", (("PROMPT", "Feed the otter"), ("SAY", "No."), ("PROMPT", "feed the otter")), title="x")
    (line, *_) = lines_about(project, "feed otter", "otter")
    assert line.startswith("- asked before 2 times, ")


def test_a_request_that_came_once_is_told_as_before(project):
    put_trail(project, "a", (("PROMPT", "Count the walrus tusks"),), title="Count the walrus tusks")
    (line,) = lines_about(project, "count walrus tusks", "walrus")
    assert line.startswith("- asked before, 2026-01-01: Count the walrus tusks")


def test_a_step_is_found_by_its_neighbours_and_says_so(project):
    put_trail(project, "s1", [("PROMPT", "unicorn"), ("SAY", "here it is"), ("SAY", "more"), ("SAY", "far away")])
    found = {hit.part: hit.why for hit in project.recall("unicorn").hits if hit.part >= 0}
    assert found == {0: ("matched: unicorn",), 1: SURROUNDINGS, 2: SURROUNDINGS}


def test_a_long_session_does_not_fill_the_page(project):
    put_trail(project, "long", [("PROMPT", f"widget alignment {number}") for number in range(30)])
    other = put_trail(
        project, "short", [("PROMPT", "about something"), ("SAY", "the widget alignment is off by one pixel")]
    )
    assert other in [hit.item_id for hit in project.recall("widget alignment").hits]


def test_the_first_hits_of_a_trail_count_in_full_and_all_of_them_for_who_asks_for_steps(project):
    """A conversation about one thing lies in one session: what answers is not put behind what hardly does."""
    put_trail(project, "long", [("PROMPT", "widget alignment")] * 9)

    def scores(**fields):
        hits = project.recall("widget alignment", filters=Filters(**fields), limit=20).hits
        return [hit.score for hit in hits if hit.kind == "prompt"]

    for found in (scores(), scores(kinds=("prompt", "session"))):
        assert len(found) == 9
        assert found[2] > 0.95 * found[0]
        assert [later < 0.9 * found[0] for later in found[4:]] == [True] * 5
        assert found == sorted(found, reverse=True)
    for named in (scores(kinds=("prompt",)), scores(kinds=("prompt", "answer"))):
        assert len(named) == 9
        assert named[-1] > 0.95 * named[0]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Ann: the ferry leaves at nine", "ann"),
        ("Ann Lee: the ferry leaves at nine", "ann lee"),
        ("Zoë:\tyes", "zoë"),
        ("fix(parser): tabs count as one", "parser"),
        ("src/tide.py: rounds down", "src tide py"),
        ("fix: tabs count as one", ""),
        ("Ann:yes", ""),
        ("https://example.org: down", ""),
        ("this is what I did: nothing", ""),
        ("Done. Tide: out", ""),
        ("`tide`: out", ""),
        ("Ann\nBen: yes", ""),
        ("Ann:", ""),
        (": yes", ""),
        ("a" * 41 + ": yes", ""),
        ("", ""),
    ],
)
def test_a_text_is_of_what_it_begins_with_before_a_colon(text, label):
    document = Document("answer", 0, format_ms(START_MS), "", text, (), "")
    assert label_of(document) == label
    assert label_of(document._replace(kind="command")) == label_of(document._replace(kind="session")) == ""


def test_who_speaks_comes_before_who_is_spoken_of(project):
    put_trail(project, "talk", [
        ("PROMPT", "Ann: Ben told me of Ben and of the ferry"),
        ("SAY", "Ben: it was the ferry that left and came back late at night"),
        ("SAY", "Ann: so I heard"),
    ])  # fmt: skip
    for kinds in ((), ("prompt", "answer")):
        found = project.recall("What did Ben say of the ferry?", filters=Filters(kinds=kinds)).hits
        steps = [hit.part for hit in found if hit.part >= 0]
        assert steps[:2] == [1, 0]
    found = project.recall("What did Ann say of Ben and the ferry?", filters=Filters(kinds=("prompt", "answer"))).hits
    assert found[0].part == 0


def test_who_names_several_kinds_asks_for_them_alike(project):
    put_trail(project, "a", [("PROMPT", "the quay is closed"), ("FILE_READ", "x.py"), ("SAY", "the quay is closed")])

    def weights(*kinds):
        return {hit.kind: hit.score for hit in project.recall("quay", filters=Filters(kinds=kinds)).hits}

    apart, both = weights("prompt") | weights("answer"), weights("prompt", "answer")
    assert apart["answer"] < 0.95 * apart["prompt"]
    assert both["answer"] > 0.95 * both["prompt"]
    assert weights("prompt", "answer", "session")["session"] < both["prompt"]


def test_a_step_is_lifted_by_its_session_also_where_that_is_not_asked_for(project):
    steps = [("SAY", f"{word} of no account") for word in ("river", "meadow", "stone", "hill")]
    plain = put_trail(project, "plain", [("PROMPT", "lantern"), *steps])
    about = put_trail(project, "about", [("PROMPT", "lantern"), *steps, ("SAY", "harbour"), ("SAY", "ferry harbour")])
    found = project.recall("lantern harbour ferry", filters=Filters(kinds=("prompt",)), limit=2).hits
    assert [hit.item_id for hit in found] == [about, plain]
    assert found[0].score > found[1].score


def test_paths_are_told_from_the_folder_of_the_session(project):
    put_trail(project, "s1", SESSION)
    rows = project.journal.index.db.execute("SELECT DISTINCT path FROM touched").fetchall()
    assert rows == [("src/login/cookies.py",)]
    assert project.recall("footer", filters=Filters(path="src/login")).hits
    assert project.recall("footer", filters=Filters(path="cookies.py")).hits
    assert not project.recall("footer", filters=Filters(path="src/logout")).hits


def test_long_texts_outside_the_trail_are_read(project):
    put_trail(project, "s1", [("PROMPT", "needle " + "hay " * 3_000), ("SAY", "hay " * 3_000)])
    hits = project.recall("needle").hits
    assert hits[0].kind == "prompt"
    assert hits[0].text.startswith("needle hay")


def test_a_damaged_trail_is_a_fault_and_the_rest_is_found(project):
    before = project.remember(Memory("note", "cookies expire")).entity
    good = put_trail(project, "good", SESSION)

    def write(transaction):
        value = {**project.journal.get("trail", good).value, "object": "ab" * 32}
        transaction.put("trail", derived_id("trl", "lost", ""), value)

    project.journal.mutate(write, WRITER)
    rows = project.journal.index.db.execute("SELECT item_id, what FROM search_faults").fetchall()
    assert [row[0] for row in rows] == [derived_id("trl", "lost", "")]
    assert rows[0][1]
    assert {before.item_id, good} <= {hit.item_id for hit in project.recall("cookies expire lifetime").hits}


def test_what_a_trail_was_is_forgotten_when_it_is_imported_again(project):
    put_trail(project, "s1", SESSION)
    put_trail(project, "s1", [("PROMPT", "entirely different")])
    assert not project.recall("cookies").hits
    assert project.recall("different").hits
    assert not project.journal.index.db.execute("SELECT 1 FROM touched").fetchall()


def test_files_are_told_from_sessions_and_commits_like_the_task(project):
    put_trail(project, "s1", SESSION)
    put_trail(project, "s2", [("PROMPT", "speed up the parser"), ("FILE_EDIT", "/home/me/work/src/parse.py", "a", "b")])
    for number, path in enumerate(("docs/a.md", "docs/b.md", "docs/c.md")):
        put_trail(project, f"g{number}", [("FILE_WRITE", path, CONTENT), ("GIT_COMMIT", "r", f"Write chapter {number}")],
                  source_format="git")  # fmt: skip
    votes = likely_files(project.journal, "users stay signed in: cookie lifetime")
    assert votes[0].path == "src/login/cookies.py"
    assert likely_files(project.journal, "a quicker parser")[0].path == "src/parse.py"
    assert "src/parse.py" in project.brief("a quicker parser").text


# ---- the index


def table_rows(db):
    """All that the tables hold, by what is written in them and not by where."""
    rows = {}
    names = "item_type, item_id, kind, part, ts, state, confidence, anchored, label, text"
    rows["documents"] = sorted(db.execute(f"SELECT {names} FROM documents JOIN passages USING (id)").fetchall())
    for table in ("documents", "passages"):
        assert db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] == len(rows["documents"])
    for table in ("words", "session_words"):
        rows[table] = sorted(
            db.execute(
                "SELECT d.item_type, d.item_id, d.part, w.body, w.title, w.path, w.context, w.day, w.kind"
                f" FROM {table} w JOIN documents d ON d.id = w.rowid"
            ).fetchall()
        )
        assert db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] == len(rows[table])
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    for table in ("texts", "touched", "replaced", "search_faults"):
        rows[table] = sorted(db.execute(f"SELECT * FROM {table}").fetchall())
    return rows


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), st.integers(0, 5), st.text(min_size=1, max_size=30)),
        st.tuples(st.just("supersede"), st.integers(0, 5), st.integers(0, 20)),
        st.tuples(st.just("trail"), st.integers(0, 2), st.lists(st.text(max_size=20), max_size=4)),
        st.tuples(st.just("delete"), st.integers(0, 20), st.none()),
    ),
    max_size=10,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_the_index_kept_up_equals_the_one_made_anew(operations, tmp_path_factory):
    root = Project.init(os.fspath(tmp_path_factory.mktemp("p")), clock=FixedClock()).root
    kinds = ("note", "lesson", "trap", "decision", "constraint")
    made = []
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:
        for operation, first, second in operations:
            if operation == "remember" and second.strip():
                entity = project.remember(Memory(kinds[first % 5], second, about=(f"src/{first}.py",))).entity
                made.append((entity.item_type, entity.item_id))
            elif operation == "supersede" and made:
                old = made[second % len(made)]
                if project.journal.get(*old) is not None and old[0] != "trail":
                    memory = Memory(kinds[first % 5], f"instead {first} {second}", supersedes=(old[1],))
                    entity = project.remember(memory).entity
                    made.append((entity.item_type, entity.item_id))
            elif operation == "trail":
                steps = [("PROMPT", text) for text in second] + [("FILE_READ", f"a{first}"), ("SAY", "done")]
                made.append(("trail", put_trail(project, f"t{first}", steps)))
            elif operation == "delete" and made:
                key = made[first % len(made)]
                if project.journal.get(*key) is not None:
                    project.journal.mutate(lambda transaction, key=key: transaction.delete(*key), WRITER)
        project.journal.project()
        kept = table_rows(project.journal.index.db)
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(f"{root}/index.sqlite{suffix}"):
            os.unlink(f"{root}/index.sqlite{suffix}")
    with Project(root, WRITER) as project:
        project.recall("anything")
        assert table_rows(project.journal.index.db) == kept


@pytest.mark.slow
def test_tables_of_an_older_version_are_made_anew(project):
    project.remember(Memory("note", "kept in the journal"))
    assert MemoryIndexer.version == 12
    path = project.journal.index.path
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = 'older' WHERE name = 'identity'")
    with Project(project.root, WRITER) as again:
        assert again.recall("kept journal").hits
        names = {row[0] for row in again.journal.index.db.execute("SELECT name FROM sqlite_master").fetchall()}
        assert names.issuperset(TABLES)
        assert again.journal.index.path == path
        assert again.journal.index.meta("identity") != "older"


# ---- quality, on real records


def test_the_script_that_measures_conversations_counts_right(tmp_path, monkeypatch):
    """With a conversation of two sessions, in the form of the published ones."""
    monkeypatch.syspath_prepend(os.fspath(Path(__file__).resolve().parents[1]))
    from bench.recall_talk import any_of, ranks_of_plain_talk, ranks_of_talk, read_talks

    said = {
        1: [("D1:1", "Ann", "I adopted a grey cat"), ("D1:2", "Ben", "What is its name?"), ("D1:3", "Ann", "Pebble")],
        2: [("D2:1", "Ben", "We sailed to Malta"), ("D2:2", "Ann", "Lovely boat")],
    }
    sample = {
        "conversation": {f"session_{n}": [{"dia_id": i, "speaker": s, "text": t} for i, s, t in turns] for n, turns in said.items()}
        | {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_2_date_time": "9:05 am on 1 June, 2023", "session_3_date_time": "?"},
        "qa": [
            {"question": "What colour is the cat of Ann?", "category": 4, "evidence": ["D1:1"]},
            {"question": "Where did Ben sail?", "category": 1, "evidence": ["D2:1; D9:9"]},
            {"question": "Who swims?", "category": 5, "evidence": ["D1:2"]},
            {"question": "Who flies?", "category": 3, "evidence": []},
        ],
    }  # fmt: skip
    sample["conversation"]["session_2"][1]["blip_caption"] = "a boat"
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([sample]))
    talks = read_talks(os.fspath(path))
    assert [[turn.name for turn in session] for session in talks[0].sessions] == [
        ["D1:1", "D1:2", "D1:3"],
        ["D2:1", "D2:2"],
    ]
    assert talks[0].sessions[1][1].text == "Ann: Lovely boat [image: a boat]"
    assert [wanted for _, wanted in talks[0].asked] == [{"D1:1"}, {"D2:1"}]
    ours, plain = ranks_of_talk(talks), ranks_of_plain_talk(talks)
    assert [found[0] for found, _ in ours] == ["D1:1", "D2:1"]
    assert any_of(ours, 1) == 100
    assert (any_of(plain, 1), any_of(plain, 5)) == (0, 100)  # it is led by "what" and "is"


@pytest.mark.slow
def test_commits_lead_to_the_sessions_that_made_them(monkeypatch):
    folder = SHARED / "recall"
    if not (folder / "records.jsonl").is_file():
        pytest.skip("the records to measure with (../shared/recall) are not here")
    monkeypatch.syspath_prepend(os.fspath(Path(__file__).resolve().parents[1]))
    from bench.recall_quality import measure_sessions

    found = measure_sessions(os.fspath(folder))
    assert found.count > 200
    assert found.at[1] >= 75


def test_an_examination_reads_a_trail_once_and_misses_nothing_by_it(project):
    """What was got and verified is not read again; another file of it, and one that says what it should not, are found."""
    trail = put_trail(project, "s1", SESSION)
    other = put_trail(project, "s2", [("PROMPT", "the quay is closed")])
    assert project.examine().problems == []
    objects = project.journal.objects
    digest = bytes.fromhex(project.journal.get("trail", trail).value["object"])
    held = objects.path_of(digest)
    stem, form = os.path.splitext(held)
    another = stem if form else stem + ".z"
    with open(another, "wb") as file:
        file.write(b"not this")
    (problem,) = project.examine().problems
    assert (problem.severity, problem.path) == ("error", another)
    os.unlink(another)
    assert project.examine().problems == []
    value = {**project.journal.get("trail", other).value, "digest": "0" * 64}
    project.journal.mutate(lambda transaction: transaction.put("trail", other, value, action="import"), WRITER)
    assert [(one.severity, one.what) for one in project.examine().problems] == [
        ("error", f"trail {other} is not the one that the journal announced")
    ]
