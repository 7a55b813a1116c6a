"""Questions as people paste and type them: traces, logs and diffs, paths in all spellings, languages of one letter."""

import os
import random

import pytest

from periplus.base.clock import FixedClock
from periplus.base.text.search_terms import QUERY_TERMS_MAX, query_terms
from periplus.interop.hooks.events import HookEvent
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.text.named_paths import NamedPath, named_paths
from periplus.project import Project
from periplus.project.agent_hooks.hook_answers import answer_to
from support import WRITER

ERROR = "billing.errors.LedgerMismatch: posting 4711 does not balance against the settlement window"
TRAP = "LedgerMismatch: posting does not balance against the settlement window when the clock of the till is wrong"
CSHARP = "The C# client is generated from the schema"
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in "aeiou"]


def words(seed, count):
    found = random.Random(seed)
    return ["".join(found.choices(SYLLABLES, k=found.randint(2, 3))) for _ in range(count)]


FOLDERS, NAMES = words("folders", 12), words("names", 300)


def path_of(number):
    return f"src/{FOLDERS[number % len(FOLDERS)]}/{NAMES[number % len(NAMES)]}.py"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """1,500 memories that speak of the files, the functions and the errors of one project, and the few that are looked for."""
    folder = tmp_path_factory.mktemp("full")
    root = Project.init(os.fspath(folder), clock=FixedClock()).root
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:

        def write(transaction):
            for number in range(1_500):
                kind, prefix = (("trap", "trp"), ("note", "not"), ("decision", "dec"))[number % 3]
                name = NAMES[number % len(NAMES)]
                text = f"{name} in the client calls {' '.join(words(number, 9))} and raises an error on line {number}"
                about = [{"kind": "path", "ref": path_of(number)}] if number % 2 else []
                payload = {"v": 1, "text": text, "author": "bob", "about": about}
                transaction.put(kind, f"{prefix}_{number:016d}", payload, summary=kind)

        project.journal.mutate(write, Writer("bob", "who_bob"))
        for kind, text in (("trap", TRAP), ("note", CSHARP), ("note", "The C runtime is linked statically")):
            project.remember(Memory(kind, text))
        yield project


def frames(count, root="/home/ada/shop"):
    lines = ["Traceback (most recent call last):"]
    for number in range(count):
        lines.append(f'  File "{root}/{path_of(number * 7)}", line {number + 10}, in {NAMES[number * 3 % len(NAMES)]}')
        lines.append(f"    return {NAMES[number * 5 % len(NAMES)]}({', '.join(words(f'frame {number}', 3))})")
    return "\n".join(lines)


def stack(count):
    lines = [f"    at {NAMES[at * 3 % 300]} ({path_of(at * 7)}:{at}:{at + 5})" for at in range(count)]
    return "\n".join([ERROR, *lines])


def log_with(error, count):
    lines = [
        f"2026-01-05 10:{at % 60:02d}:00 INFO {NAMES[at % 300]}: {' '.join(words(f'log {at}', 6))}"
        for at in range(count)
    ]
    lines.insert(count // 2, f"2026-01-05 10:30:00 ERROR {error}")
    return "\n".join(lines)


@pytest.mark.parametrize("count", [10, 30, 100])
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda count: f"{frames(count)}\n{ERROR}", id="trace"),
        pytest.param(
            lambda count: f"{frames(count)}\n{ERROR}\n\nwhat is that, and how do I get rid of it?", id="asked below"
        ),
        pytest.param(lambda count: f"this happens since yesterday, why?\n\n{frames(count)}\n{ERROR}", id="asked above"),
        pytest.param(lambda count: f"look at this\n{stack(count)}", id="error first"),
        pytest.param(lambda count: f"{stack(count)}\n\nplease mend it", id="error first, asked below"),
        pytest.param(lambda count: f"why is that?\n{log_with(ERROR, count)}", id="log"),
    ],
)
def test_what_is_pasted_finds_what_its_error_is_about(full, ask, count):
    question = ask(count)
    assert full.recall(question).hits[0].text == TRAP
    told = answer_to(full, HookEvent("prompt", "claude-code", "s", 0, cwd=full.folder, prompt=question)).facts
    assert TRAP in told.splitlines()[1]


def test_a_question_below_what_is_pasted_is_asked(full):
    question = f"{frames(60)}\nValueError: no\n\nwhere is the settlement window of the ledger of the till set?"
    assert full.recall(question).hits[0].text == TRAP
    note = full.recall("the C# client").hits[0]
    assert full.recall(f"{frames(200)}\n\nsee {note.item_id}").hits[0].item_id == note.item_id


def test_of_many_terms_both_ends_are_kept():
    many = list(dict.fromkeys(words("many", 1_000)))
    kept = query_terms(" ".join([*many, many[3], many[500]]))
    assert kept[:32] == many[:32]
    assert kept[32:] == [*many[-15:], many[500]]
    assert len(kept) == QUERY_TERMS_MAX
    assert query_terms(" ".join(many), of_end=0) == many[:QUERY_TERMS_MAX]
    assert "last" in query_terms("x" * 30_000 + " last")


# ---- languages of one letter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C# client", ["csharp", "client"]),
        ("c# and F#, or C++?", ["csharp", "fsharp", "cpp"]),
        ("the C client in R", ["c", "client", "r"]),
        ("a client, I said: A or I", ["client", "said"]),
        ("it's Ada's client, DON'T", ["ada", "client"]),
        ("return n[j] to y", ["return"]),
    ],
)
def test_a_letter_counts_where_it_is_a_name(text, expected):
    assert query_terms(text) == expected


def test_a_language_of_one_letter_is_found_among_many(full):
    assert full.recall("C# client").hits[0].text == CSHARP
    assert full.recall("csharp client").hits[0].text == CSHARP
    assert full.recall("how is the C# client made").hits[0].text == CSHARP
    assert full.recall("C runtime").hits[0].text == "The C runtime is linked statically"


# ---- paths


@pytest.fixture
def shop(tmp_path):
    root = Project.init(os.fspath(tmp_path), clock=FixedClock()).root
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:
        yield project


@pytest.mark.parametrize(
    "said",
    [
        "src/db/pool.py", "src/db/pool.py.", "(src/db/pool.py)", "`src/db/pool.py`,", "./src/db/pool.py", "{root}/src/db/pool.py",
        "{root}/src/db/pool.py.", "--- a/src/db/pool.py\n+++ b/src/db/pool.py", "src/db/pool.py:41", "src/db/pool.py:41:7", "src/db/pool.py#L41",
        'File "{root}/src/db/pool.py", line 41, in get', "/app/src/db/pool.py:41",
    ],
)  # fmt: skip
def test_a_path_counts_however_it_is_written(shop, said):
    trap = shop.remember(Memory("trap", "Connections leak on timeout", about=("src/db/pool.py",))).entity
    symbol = shop.remember(Memory("trap", "Never called twice", about=("src/db/pool.py:get",))).entity
    folder = shop.remember(Memory("constraint", "Everything here is in transactions", about=("src/db",))).entity
    other = shop.remember(Memory("trap", "Elsewhere", about=("src/db/pools.py", "lib/src/db/pool.py", "src/d"))).entity
    question = f"there is something in {said.format(root=shop.folder)}"
    found = {hit.item_id: hit.why for hit in shop.recall(question).hits}
    about = {item_id: why[0] for item_id, why in found.items() if why[0].startswith("about ")}
    is_sure = "/app/" not in said
    named = {trap.item_id: "about src/db/pool.py", symbol.item_id: "about src/db/pool.py"}
    assert about == named | ({folder.item_id: "about src/db"} if is_sure else {})
    assert [*found][:2] == [symbol.item_id, trap.item_id]
    told = answer_to(shop, HookEvent("prompt", "claude-code", "s", 0, cwd=shop.folder, prompt=question)).facts
    brief = shop.brief(question).text
    assert {one for one in (trap.item_id, symbol.item_id, folder.item_id, other.item_id) if one in told} == {*about}
    assert all(one in brief for one in about)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("see https://example.org/src/db/pool.py", []),
        ("nothing... at/all/.", [NamedPath("at/all")]),
        ("/work/shop/src/a.py and /work/shopping/src/a.py", [
            NamedPath("src/a.py"), NamedPath("/work/shopping/src/a.py", ("shopping/src/a.py", "src/a.py"))]),
        ("~/src/a.py", [NamedPath("~/src/a.py", ("src/a.py",))]),
        ("a/b.py or b.py", [NamedPath("a/b.py", ("b.py",)), NamedPath("b.py")]),
        ("../../src/a.py ./src/a.py src//a.py", [NamedPath("src/a.py")]),
        ("src/../../etc/passwd", []),
    ],
)  # fmt: skip
def test_paths_are_named_as_the_project_names_them(text, named):
    found = named_paths(text, "/work/shop")
    assert [one for one in found if "example" not in one.path] == named
