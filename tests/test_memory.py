"""Remember, recall and brief through ``Project`` on real stores."""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.base.clock import FixedClock
from periplus.base.errors import LockTimeoutError, SecretFoundError, UsageError
from periplus.base.files import Files
from periplus.base.process.locks import Lock
from periplus.base.text.search_terms import query_terms
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.validation import TAG_BYTES_MAX
from periplus.journal.carriers import open_folder
from periplus.memory import Filters, Memory
from periplus.memory.entities import types as memory_types
from periplus.memory.retrieval.recall import SURROUNDINGS, bring_up_to_date
from periplus.memory.retrieval.search import STEPS, _Reach, _Search
from periplus.project import Project
from support import WRITER, Stop, StoppingFiles

DAY_MS = 86_400_000


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


@pytest.fixture
def project(tmp_path, clock):
    root = Project.init(os.fspath(tmp_path), clock=clock).root
    with Project(root, WRITER, clock=clock) as project:
        yield project


def keep(project, text, item_type="note", **fields):
    return project.remember(Memory(item_type, text, **fields)).entity


def ids(found):
    return [hit.item_id for hit in found.hits]


# ---- remember


def test_an_exact_duplicate_is_found_and_nothing_is_written(project):
    first = project.remember(Memory("note", "Deploys run on Fridays"))
    again = project.remember(Memory("note", "  Deploys  run on\nFridays "))
    assert first.is_new
    assert not again.is_new
    assert again.entity.item_id == first.entity.item_id
    assert again.receipt is None
    assert project.remember(Memory("lesson", "Deploys run on Fridays")).is_new


def test_a_duplicate_is_found_while_another_writes(project, monkeypatch):
    """Without the writers' lock a duplicate is still found, and a new memory is refused."""
    project.remember(Memory("note", "Deploys run on Fridays"))
    holding = Lock.holding
    with Project(project.root, WRITER) as other, other.journal.writing():
        monkeypatch.setattr(Lock, "holding", lambda self, _patience_s=0, *more: holding(self, 0.05, *more))
        assert not project.remember(Memory("note", "Deploys run on Fridays")).is_new
        with pytest.raises(LockTimeoutError):
            project.remember(Memory("note", "Deploys run on Mondays"))


@pytest.mark.slow
def test_a_duplicate_is_durable_before_it_is_named_whoever_was_stopped_at_it(tmp_path):
    root = Project.init(os.fspath(tmp_path)).root
    found = []
    for at in range(60):
        text = f"Deploys run on day {at}"
        try:
            with Project(root, WRITER, files=StoppingFiles(at)) as stopped:
                stopped.remember(Memory("note", text))
        except Stop:
            pass
        with Project(root, WRITER) as project:
            done = project.remember(Memory("note", text))
            assert open_folder(root, Files()).durable_seq(done.entity.lineage) >= done.entity.seq
            found.append(done.is_new)
    assert {*found} == {True, False}


def test_a_near_duplicate_is_pointed_out_and_a_distant_one_is_not(project):
    old = keep(project, "Use argon2 to hash passwords in the auth service", "decision")
    keep(project, "Use pytest for every test of the parser", "decision")
    near = project.remember(Memory("decision", "Passwords are hashed with argon2 in the auth service"))
    assert near.is_new
    assert near.near == (old.item_id,)
    replaced = Memory("decision", "Hash passwords of the auth service with argon2id", supersedes=(old.item_id,))
    assert old.item_id not in project.remember(replaced).near


def test_a_secret_is_refused_with_its_place(project):
    key = "AKIA" + "QXJ7DZ5RPLKW3VNT"
    with pytest.raises(SecretFoundError, match="rationale"):
        keep(project, "We use S3", "decision", extra={"rationale": f"the key is {key}"})
    assert not project.recall("S3").hits
    assert keep(project, "max_tokens=4096 and token = tokenizer.encode(x)").item_id


@pytest.mark.parametrize(
    "memory",
    [
        Memory("trail", "x"),
        Memory("poem", "x"),
        Memory("note", "   "),
        Memory("note", "x" * 8_001),
        Memory("note", "x", confidence=101),
        Memory("note", "x", extra={"severity": "high"}),
        Memory("note", "half a character \ud800"),
        Memory("decision", "x", supersedes=("dec_0000000000000000",)),
    ],
)
def test_what_no_memory_may_be_is_refused_and_nothing_is_written(project, memory):
    with pytest.raises(UsageError):
        project.remember(memory)
    assert project.journal.end().next_seq == 1


def test_evidence_and_provenance_are_kept_and_shown(project):
    entity = keep(project, "Retries need jitter", "lesson", evidence=(("record", "7"), ("commit", "3f2a91c")),
                  provenance=("agent", "scout"))  # fmt: skip
    assert entity.value["provenance"] == {"kind": "agent", "name": "scout"}
    hit = project.recall("retry jitter").hits[0]
    assert hit.evidence == ("record 7", "commit 3f2a91c", f"record {entity.seq}")
    assert hit.more == f"periplus show {entity.item_id}"
    assert hit.kind == "lesson"


def test_a_path_is_kept_as_the_project_names_it(project, tmp_path):
    (tmp_path / "a.py").write_text("x")
    entity = keep(project, "about a file", about=(os.fspath(tmp_path / "a.py"), "./b//c.py", "../outside.py"))
    refs = [(item["ref"], "sha256" in item) for item in entity.value["about"]]
    assert refs == [("a.py", True), ("b/c.py", False), ("../outside.py", False)]


# ---- recall


@pytest.mark.parametrize(
    "question",
    [
        "How do we hash passwords?",
        "hashing password",
        "hashPassword",
        "HASH_PASSWORD",
        "hash-passwords",
        "What happens in src/auth/passwords.py",
        "auth",
    ],
)
def test_a_memory_is_found_in_other_words(project, question):
    wanted = keep(project, "hash_password uses argon2", "decision", about=("src/auth/passwords.py",))
    keep(project, "The parser reads tokens")
    hits = project.recall(question).hits
    assert hits
    assert hits[0].item_id == wanted.item_id


def test_a_day_is_found_by_its_words(project, clock):
    keep(project, "first thing")
    clock.advance(45 * DAY_MS)
    later = keep(project, "second thing")
    assert ids(project.recall("what did we note in February?")) == [later.item_id]
    assert ids(project.recall("2026-02-15"))[0] == later.item_id


def test_scripts_without_spaces_are_found_by_any_part(project):
    wanted = keep(project, "認証サービスはパスワードを保存しない")
    other = keep(project, "สวัสดีชาวโลก")
    assert ids(project.recall("パスワード")) == [wanted.item_id]
    assert ids(project.recall("認")) == [wanted.item_id]
    assert ids(project.recall("ชาวโลก")) == [other.item_id]


def test_a_hit_says_why_it_is_there(project):
    entity = keep(project, "Migrations are locked", about=("db/schema.sql",), tags=("postgres",))
    assert project.recall("migrations").hits[0].why == ("matched: migrations",)
    assert project.recall("migration").hits[0].why == ("matched: migration (other word forms)",)
    assert project.recall("schema").hits[0].why == ("matched in the path: schema",)
    assert project.recall("postgres").hits[0].why == SURROUNDINGS
    assert project.recall(entity.item_id).hits[0].why == ("its id",)
    assert project.recall("what of db/schema.sql").hits[0].why == ("about db/schema.sql",)


def test_what_is_said_in_other_words_is_found_and_says_so_but_never_before_what_says_it(project):
    other = keep(project, "Credentials are rotated every month")
    said = keep(project, "The password of the build server is in the vault of the team, and nobody else has it but Ida")
    keep(project, "The footer is green")
    hits = project.recall("where is the password").hits
    assert [hit.item_id for hit in hits] == [said.item_id, other.item_id]
    assert hits[0].why == ("matched: password",)
    assert hits[1].why == ("matched: password (similar meaning)",)
    assert project.recall("where is the password", filters=Filters(kinds=("commit",))).hits == ()
    assert project.recall("password").terms == ("password",)


def test_ids_and_paths_come_before_all_others(project):
    for number in range(5):
        keep(project, f"schema schema schema migration {number}")
    about = keep(project, "Mind the lock", "trap", about=("db/schema.py",))
    named = keep(project, "Something else")
    assert ids(project.recall(f"schema migration db/schema.py {named.item_id}"))[:2] == [named.item_id, about.item_id]
    assert ids(project.recall(named.item_id[:10])) == [named.item_id]


def test_an_id_is_not_looked_for_by_what_its_letters_and_digits_spell(project):
    for number in range(10):
        keep(project, f"migration {number}")
    named = [keep(project, f"One of many, {word}") for word in "red green blue white black grey pink brown".split()]
    for entity in named:
        speaks = keep(project, f"It follows from ({entity.item_id}), see there")
        for question in (entity.item_id, f"{entity.item_id}?", entity.item_id[:14]):
            assert ids(project.recall(question)) == [entity.item_id, speaks.item_id]


def test_what_changed_since_is_stale_and_ranks_lower(project, tmp_path):
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("one")
    old = keep(project, "cache entries live an hour, alpha", about=("a.py",))
    new = keep(project, "cache entries live an hour, omega", about=("b.py",))
    (tmp_path / "b.py").write_text("two")
    hits = project.recall("cache entries").hits
    assert [(hit.item_id, hit.stale) for hit in hits] == [(old.item_id, ()), (new.item_id, ("b.py",))]
    (tmp_path / "b.py").write_text("one")
    assert ids(project.recall("cache entries")) == [new.item_id, old.item_id]
    (tmp_path / "b.py").unlink()
    assert project.recall("cache entries").hits[1].stale == ("b.py",)


@pytest.mark.parametrize("item_type", ["decision", "constraint", "trap", "lesson", "note"])
def test_what_was_replaced_never_outranks_what_replaced_it(project, item_type):
    first = keep(project, "Sessions live in redis redis redis", item_type)
    second = keep(project, "Session storage moved to postgres", item_type, supersedes=(first.item_id,))
    third = keep(project, "We store state in sqlite", item_type, supersedes=(second.item_id,))
    found = project.recall("redis sessions")
    assert ids(found) == [third.item_id]
    assert found.hits[0].why == (f"replaces {first.item_id}",)
    everything = ids(project.recall("redis sessions", filters=Filters(with_ended=True)))
    assert everything.index(third.item_id) < everything.index(first.item_id)
    everything = ids(project.recall("redis session storage state", filters=Filters(with_ended=True)))
    assert everything == [third.item_id, second.item_id, first.item_id]


def test_replacements_in_a_circle_end(project):
    first = keep(project, "blue theme", "decision")
    second = keep(project, "blue theme, darker", "decision", supersedes=(first.item_id,))

    def turn(transaction):
        value = {**first.value, "relations": [{"kind": "supersedes", "target": second.item_id}], "state": "superseded"}
        transaction.put("decision", first.item_id, value)
        transaction.put("decision", second.item_id, {**second.value, "state": "superseded"})

    project.journal.mutate(turn, WRITER)
    assert set(ids(project.recall("blue theme", filters=Filters(with_ended=True)))) == {first.item_id, second.item_id}
    assert ids(project.recall("blue theme")) == []


def test_filters_narrow_and_combine(project, clock):
    old = keep(project, "queue depth is bounded", "constraint", tags=("queue",), about=("src/queue.py",))
    clock.advance(10 * DAY_MS)
    new = keep(project, "queue depth is measured", "lesson", about=("src/api/queue.py",))
    ask = lambda **fields: set(ids(project.recall("queue depth", filters=Filters(**fields))))  # noqa: E731 - short
    both = {old.item_id, new.item_id}
    assert ask() == both
    assert ask(types=("lesson", "constraint")) == both
    assert ask(types=("lesson",)) == {new.item_id}
    assert ask(types=("lesson",), kinds=("constraint",)) == set()
    assert ask(kinds=("prompt",)) == set()
    assert ask(tag="queue") == {old.item_id}
    assert ask(tag="que") == set()
    assert ask(author=WRITER.name) == both
    assert ask(author="nobody") == set()
    assert ask(path="src/api") == {new.item_id}
    assert ask(path="src/") == both
    assert ask(path="queue.py") == both
    assert ask(path="s_c") == set()
    assert ask(since="2026-01-05") == {new.item_id}
    assert ask(since="2026-01-01T05:00:00+05:00") == both
    with pytest.raises(UsageError, match="no time"):
        ask(since="yesterday")


def test_pages_continue_each_other_and_count_what_is_left(project):
    for number in range(23):
        keep(project, f"worker number {number} restarts {'often ' * (number % 4)}")
    whole = ids(project.recall("worker restarts", limit=50))
    assert len(whole) == 23
    pages = []
    for offset in range(0, 25, 5):
        found = project.recall("worker restarts", limit=5, offset=offset)
        pages += ids(found)
        assert found.matched == 23
        assert found.left_out == max(0, 23 - offset - 5)
    assert pages == whole


@pytest.mark.parametrize("budget", [1, 20, 40, 100, 400])
def test_hits_keep_a_budget_and_the_next_page_begins_where_they_end(project, budget):
    for number in range(6):
        keep(project, f"worker {number} " + "restarts now " * 60)
    found = project.recall("worker restarts", budget_tokens=budget)
    spent = sum(estimate_tokens(hit.text) + estimate_tokens(" ".join(hit.why + hit.evidence)) for hit in found.hits)
    assert spent <= budget
    assert found.left_out == 6 - len(found.hits)
    assert bool(found.hits) == (budget >= 40)
    whole = ids(project.recall("worker restarts"))
    assert ids(found) == whole[: len(found.hits)]
    assert project.recall("worker restarts", limit=1, offset=len(found.hits)).hits[:1] != found.hits[:1]


def test_few_documents_are_weighed_although_all_have_the_word(project):
    keep(project, "worker pool")
    wanted = keep(project, "worker worker worker")
    hits = project.recall("worker").hits
    assert hits[0].item_id == wanted.item_id
    assert hits[0].score > 10_000


def test_kinds_weigh_and_confidence_counts(project):
    note = keep(project, "rotate the logs")
    rule = keep(project, "rotate the logs", "constraint")
    doubt = keep(project, "rotate the logs", "lesson", confidence=10)
    assert ids(project.recall("rotate logs")) == [rule.item_id, note.item_id, doubt.item_id]


@pytest.mark.parametrize(
    ("question", "asked", "meant"),
    [
        ("bcript", "bcript", "bcrypt"),  # substituted
        ("bcryt", "bcryt", "bcrypt"),  # missing
        ("bcryppt", "bcryppt", "bcrypt"),  # added
        ("bcyrpt", "bcyrpt", "bcrypt"),  # transposed
        ("what is hashign?", "hashign", "hashing"),  # the index has its stem
        ("slat", "slat", "salt"),
        ("why пороль", "пороль", "пароль"),
        ("strase", "strase", "strasse"),
    ],
)
def test_a_word_one_edit_away_is_found_and_said_so(project, question, asked, meant):
    kept = keep(project, "Hashing is done by bcrypt with a salt; пароль; die Straße")
    keep(project, "Logs go to standard error")
    found = project.recall(question)
    assert ids(found) == [kept.item_id]
    assert found.near == ((asked, (meant,)),)
    assert meant in found.hits[0].why[0]


@pytest.mark.parametrize("question", ["bcrypts", "cost of bcryt", "2025", "bcryyyt", "on", "它"])
def test_near_words_are_looked_for_only_where_nothing_better_is_found(project, question):
    keep(project, "The cost is 12 since 2024")
    keep(project, "Passwords go through bcrypt")
    assert project.recall(question).near == ()


def test_what_has_the_word_itself_is_better_though_it_has_ended(project):
    old = keep(project, "We use bcryt")
    keep(project, "We use scrypt", supersedes=(old.item_id,))
    keep(project, "Nobody knows bcrypt")
    found = project.recall("bcryt")
    assert "bcrypt" not in " ".join(hit.text for hit in found.hits)
    assert found.near == ()


def test_filters_hold_for_near_words_too(project):
    keep(project, "bcrypt", tags=("auth",))
    trap = keep(project, "bcrypt cuts at 72 bytes", "trap")
    keep(project, "a trap about bcryt", tags=("other",))
    assert ids(project.recall("bcryt", filters=Filters(types=("trap",)))) == [trap.item_id]
    assert project.recall("bcryt", filters=Filters(tag="auth")).near == (("bcryt", ("bcrypt",)),)
    assert project.recall("bcryt", filters=Filters(types=("decision",))).near == ()


@pytest.mark.parametrize(
    "pair", [("Größe", "Groesse"), ("Übergröße", "UEBERGROESSE"), ("zählt", "zaehlt"), ("Maß", "Mass")]
)
def test_umlauts_and_what_is_typed_for_them_are_alike(project, pair):
    kept = {keep(project, f"{word} {number}").item_id for number, word in enumerate(pair)}
    for word in pair:
        found = project.recall(word)
        assert {*ids(found)} == kept
        assert found.near == ()


def test_the_longest_question_of_misspelled_words_is_given_up_in_time(project):
    keep(project, "bcrypt")
    words = [f"q{chr(97 + at % 26) * 20}x{chr(97 + at // 26) * 9}" for at in range(48)]
    assert project.recall(" ".join(["bcryt", *words])).near == (("bcryt", ("bcrypt",)),)


def test_what_is_asked_by_nobody_has_no_near_words(project):
    keep(project, "Hashing is done by bcrypt")
    assert "bcrypt" not in project.brief("change bcryt hashign").text
    assert not project.related(task="bcryt hashign").memory


@pytest.mark.parametrize(
    "text",
    ['"', "' OR 1=1 --", "NEAR(a b)", "a* AND (b", "col:x ^y", "-", "\x00", "😀", "\ud800", "{body}:", "%_\\", "",
     " ".join(["word"] * 10_000), " ".join(f"w{number}" for number in range(10_000)), "what is it"],
)  # fmt: skip
def test_hostile_questions_raise_nothing(project, text):
    keep(project, "body word w1 what is it col x")
    project.recall(text)
    project.recall(text, filters=Filters(path=text.replace("\ud800", "?")[:100], tag=text[:9], author=text[:9]))
    project.brief(text, budget_tokens=200)


def test_a_hostile_path_names_no_file(project):
    keep(project, "about odd paths", about=("a\x00b", "../../etc/passwd", "/etc/passwd", "x" * 5_000))
    hit = project.recall("odd paths").hits[0]
    assert hit.stale == ()


def test_what_another_process_wrote_is_found_at_once(project):
    with Project(project.root, WRITER) as other:
        wanted = keep(other, "written elsewhere")
        assert ids(project.recall("written elsewhere")) == [wanted.item_id]
        other.journal.mutate(lambda transaction: transaction.delete("note", wanted.item_id), WRITER)
    assert ids(project.recall("written elsewhere")) == []


def test_the_same_store_and_question_give_the_same_answer(project):
    for number in range(40):
        keep(project, f"alpha beta {'gamma ' * (number % 3)} {number}", ("note", "lesson", "trap")[number % 3])
    first = project.recall("alpha gamma", limit=40)
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(f"{project.root}/index.sqlite{suffix}"):
            os.unlink(f"{project.root}/index.sqlite{suffix}")
    with Project(project.root, WRITER, clock=FixedClock(project.journal.clock.now_ms())) as again:
        second = again.recall("alpha gamma", limit=40)
    assert ids(first) == ids(second)


# ---- a large table


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A store too large to be scored as a whole: every memory says "common", few say more."""
    root = Project.init(os.fspath(tmp_path_factory.mktemp("crowd"))).root
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:

        def write(transaction):
            for number in range(2_000):
                words = [
                    "common",
                    *(["often"] if number % 4 == 3 else []),
                    *(["rarely"] if number in (3, 900, 1_998) else []),
                ]
                kind = "trap" if number == 1_000 else "note"
                item_id = f"{'trp' if kind == 'trap' else 'not'}_{number:016d}"
                transaction.put(kind, item_id, {"v": 1, "text": f"{' '.join(words)} n{number}"})

        project.journal.mutate(write, WRITER)
        yield project


def numbers(found):
    return [int(hit.item_id[4:]) for hit in found.hits]


@pytest.mark.slow
def test_rare_terms_bring_in_and_common_ones_decide(crowd):
    found = numbers(crowd.recall("common rarely often"))
    assert found[0] == 3
    assert set(found[:3]) == {3, 900, 1_998}


@pytest.mark.slow
def test_common_terms_alone_find_what_has_them(crowd):
    hits = crowd.recall("common often").hits
    assert len(hits) == 10
    assert all("often" in hit.text for hit in hits)
    assert len(crowd.recall("common").hits) == 10


def test_a_filter_by_type_finds_the_one_among_thousands(crowd):
    found = crowd.recall("common", filters=Filters(types=("trap",)))
    assert numbers(found) == [1_000]
    assert found.matched == 1


@pytest.mark.parametrize(
    "question", ["common rarely often", "rarely", "common often", "n5 n900 rarely", "nowhere rarely"]
)
def test_a_narrow_reach_ranks_as_the_whole_table_where_a_rare_term_is_asked_for(crowd, question):
    words = query_terms(question)
    table = STEPS._replace(small_max=0, wide=_Reach(700, 50))
    narrow = _Search(crowd.journal.index.db, table, (), Filters()).run(words, 50)
    whole = _Search(crowd.journal.index.db, STEPS._replace(small_max=10_000), (), Filters()).run(words, 50)
    assert narrow
    if "rarely" in words:
        assert narrow[0].item_id == whole[0].item_id
    assert all(one.bm25 > 0 for one in narrow)


@pytest.mark.parametrize("is_other", [False, True])
def test_what_was_too_common_is_not_when_documents_go(project, is_other):
    table = STEPS._replace(small_max=0, wide=_Reach(20, 10))
    kept = [keep(project, f"common n{number}" + " rarely" * (number == 3)) for number in range(30)]

    def found():
        bring_up_to_date(project.journal)
        return [
            one.item_id for one in _Search(project.journal.index.db, table, (), Filters()).run(["common", "rarely"], 50)
        ]

    def forget(other):
        def delete(transaction):
            for receipt in kept[10:]:
                transaction.delete("note", receipt.item_id)

        other.journal.mutate(delete, WRITER)

    assert found() == found() == [kept[3].item_id]  # by the rare word alone
    if is_other:
        with Project(project.root, WRITER) as other:
            forget(other)
    else:
        forget(project)
    assert found()[0] == kept[3].item_id
    assert {*found()} == {receipt.item_id for receipt in kept[:10]}


def test_what_comes_in_at_once_is_merged_now_and_then_and_a_single_memory_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("periplus.memory.fulltext.indexer._MERGED_FROM", 20)
    merged = []
    with Project(Project.init(os.fspath(tmp_path)).root, WRITER) as project:
        project.journal.index.db.set_trace_callback(lambda said: merged.append(said) if "'optimize'" in said else None)
        counts = []
        for number in range(200):
            keep(project, f"the tide of day {number}")
            project.journal.project()
            counts.append(len(merged) // 2)  # two tables
        assert counts[18] == 0
        assert counts[19] == 1
        assert 4 < counts[-1] < 10
        db = project.journal.index.db
        db.set_trace_callback(None)
        db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        assert project.recall("day 7 tide").hits[0].text == "the tide of day 7"
    with Project(tmp_path / ".periplus", WRITER) as project:
        project.journal.index.db.set_trace_callback(lambda said: merged.append(said) if "'optimize'" in said else None)
        keep(project, "one more")
        assert len(merged) // 2 == counts[-1]


@pytest.mark.parametrize("count", [3, 40])
def test_few_or_many_that_were_replaced_stay_away(project, count):
    new = []
    for number in range(count):
        old = keep(project, f"Boats leave at hour {number}", "decision")
        new.append(keep(project, f"Ships leave at hour {number}", "decision", supersedes=(old.item_id,)).item_id)
    found = project.recall("boats leave hour", limit=100)
    assert sorted(ids(found)) == sorted(new)


# ---- brief


def test_a_brief_puts_rules_first_and_says_what_it_left_out(project, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "limits.py").write_text("x")
    rule = keep(project, "Never block the event loop", "constraint", about=("src/",))
    trap = keep(project, "The limiter forgets its state on restart", "trap")
    keep(project, "Rate limits are per tenant", "decision", extra={"state": "proposed"})
    gone = keep(project, "Rate limits are global", "decision")
    keep(project, "Rate limits are per user now", "decision", supersedes=(gone.item_id,))
    found = project.brief("add a rate limiter to src/limits.py")
    assert [section.title for section in found.sections] == ["Rules to obey", "Traps", "Decisions"]
    assert rule.item_id in found.text
    assert trap.item_id in found.text
    assert gone.item_id not in found.text
    assert "(proposed)" in found.text
    assert found.tokens == estimate_tokens(found.text) <= found.budget
    assert found == project.brief("add a rate limiter to src/limits.py")


def test_a_brief_counts_what_does_not_fit(project):
    for number in range(12):
        keep(project, f"Rule {number} of the limiter: " + "be careful with it " * 8, "constraint")
    found = project.brief("limiter rule", budget_tokens=300)
    shown = len(re.findall(r"\[con_", found.text))
    assert 0 < shown < 12
    assert found.left_out == 12 - shown
    assert f"{found.left_out} more" in found.text


def test_a_brief_of_an_empty_store_says_so_and_a_tiny_budget_is_refused(project):
    assert "Nothing is known" in project.brief("anything").text
    with pytest.raises(UsageError, match="at least 100"):
        project.brief("anything", budget_tokens=99)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Memories of every script and size, for briefs of every budget."""
    root = Project.init(os.fspath(tmp_path_factory.mktemp("odd"))).root
    texts = ["task " + unit * 90 for unit in ("x ", "日本", "😀", "\n\t ", "0", "_-_", "é", "a\n\nb ", "<|>", "\u200b")]
    with Project(root, WRITER, clock=FixedClock(step_ms=1)) as project:
        for number, text in enumerate(texts * 3):
            kind = ("constraint", "trap", "decision", "lesson", "note")[number % 5]
            keep(project, f"{text} {number}", kind, tags=("task",))
        yield project


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(budget=st.integers(100, 3_000), task=st.text(max_size=120))
def test_no_brief_is_over_its_budget(odd, budget, task):
    found = odd.brief(f"task {task}", budget_tokens=budget)
    assert found.tokens == estimate_tokens(found.text) <= budget


def test_a_folder_that_may_only_be_read_answers_with_what_its_index_lacks(tmp_path, monkeypatch):
    """The index is behind and nobody may write: recall still finds the newest record."""
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), WRITER) as project:
        project.remember(Memory("note", "the first thing"))
        row = {"v": 1, "text": "a zebra was seen later"}
        project.journal.mutate(lambda t: t.put("note", "not_0000000000000009", row), WRITER, project=False)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with Project.open(str(tmp_path), WRITER) as project:
        assert [hit.item_id for hit in project.recall("zebra").hits] == ["not_0000000000000009"]
        assert project.recall("first thing").hits
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_a_task_names_by_its_id_is_told_as_what_it_is(project):
    decision = keep(project, "Passwords are hashed with argon2id", "decision")
    trap = keep(project, "The proxy calls login twice", "trap")
    mail = project.work.send("bob", "Which colour?")
    text = project.brief(f"look at {decision.item_id}, {trap.item_id} and {mail.item_id}").text
    told = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    assert [decision.item_id in told[name] for name in told] == [name == "Decisions" for name in told]
    assert [f"calls login twice [{trap.item_id}]" in told[name] for name in told] == [name == "Traps" for name in told]
    assert "Which colour?" not in text
    assert ids(project.recall(decision.item_id, filters=Filters(types=("decision", "trap")))) == [decision.item_id]
    assert ids(project.recall(decision.item_id, filters=Filters(types=("trap",)))) == []
    assert ids(project.recall(decision.item_id, filters=Filters(kinds=("prompt",)))) == []

    new = project.work.evolve(decision.item_id, "Passwords are hashed with scrypt").entities[0]
    project.work.change_state([trap.item_id], "resolved")
    text = project.brief(f"look at {decision.item_id} and {trap.item_id}").text
    said = f"- Passwords are hashed with argon2id (superseded) (stale: replaced by {new.item_id}) [{decision.item_id}]"
    assert said in text
    assert f"calls login twice (resolved) [{trap.item_id}]" in text


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("", "a tag is empty"),
        (" \t", "a tag is empty"),
        ("a\nb", r"the tag 'a\nb' has control characters"),
        ("red \x1b[31m", r"the tag 'red \x1b[31m' has control characters"),
        ("é" * 129, f"the tag '{'é' * 40}'… has 258 bytes; the limit is 256"),
    ],
)
def test_what_nobody_could_look_for_is_no_tag(project, tag, why):
    """It was kept: no list tells an empty one, and a long one stayed out of every context without a word."""
    held = keep(project, "Ports start at 8000", tags=("ports", "é" * 128))
    before = project.status().records
    for write in (
        lambda: keep(project, "Ports end at 9000", tags=("ports", tag)),
        lambda: project.work.set_fields(held.item_id, {"tags": [tag]}),
        lambda: project.work.evolve(held.item_id, "Ports start at 8080", {"tags": [tag]}),
        lambda: project.work.make_plan("Move the ports", tags=(tag,)),
    ):
        with pytest.raises(UsageError) as refused:
            write()
        assert refused.value.wrong == why
    assert project.status().records == before


def test_a_tag_that_stands_keeps_nobody_from_writing_what_it_stands_on(project):
    """An earlier version took any."""
    held = keep(project, "Ports start at 8000")
    value = {**project.journal.get(held.item_type, held.item_id).value, "tags": ["", "a\nb"]}
    project.journal.mutate(lambda t: t.put(held.item_type, held.item_id, value), project.writer)
    project.work.set_fields(held.item_id, {"text": "Ports start at 8080"})
    assert project.show(held.item_id).value["tags"] == ["", "a\nb"]


def test_a_tag_is_as_long_as_an_atom_of_a_context_may_have_it():
    assert memory_types.TAG_BYTES_MAX == TAG_BYTES_MAX
