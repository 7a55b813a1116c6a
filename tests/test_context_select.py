"""The selector: the budget is kept, the best come first, molecules stay whole, near-duplicates wait, and each atom's fate is told."""

import itertools
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import UsageError
from periplus.base.text.token_estimate import estimate_tokens
from periplus.context.model import Atom, Chunk, Entry, Molecule, atom_digest, molecule_digest, order_key
from periplus.context.selection.filters import Filters, Query
from periplus.context.selection.ranking import Weights
from periplus.context.selection.reasons import CAUSES, REASONS_MAX, describe
from periplus.context.selection.search import LOOK_AHEAD, RepeatableEntries, entries_of, query, select
from periplus.context.selection.text_similarity import ALIKE, LikenessTable, similarity, sketch
from periplus.context.selection.token_counters import ESTIMATE

pytestmark = pytest.mark.quick

NOW = 1_790_000_000_000
DAY = 24 * 3_600_000
ORIGIN = b"o" * 32


class Characters:
    name = "characters"

    def __init__(self, request_tokens=0):
        self.request_tokens = request_tokens

    def count(self, text, /):
        return len(text)


class Uneven:
    """A counter without rhyme: a text's checksum decides."""

    name = "uneven"
    request_tokens = 3

    def count(self, text, /):
        return sum(text.encode()) % 17


def entry(content, relevance=500_000, time_ms=NOW, **more):
    atom = Atom(content, relevance=relevance, time_ms=time_ms, **more)
    return Entry(atom_digest(atom), atom, ORIGIN)


def ordered(entries):
    return sorted(entries, key=lambda item: order_key(item.digest, item.atom))


def contents(result):
    return [item.atom.content for item in result.entries]


WORDS = "hash password token cache auth login store salt key bcrypt 日本 語の 🎉🎉 naïve hashPassword".split()
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
ENTRIES = st.lists(
    st.builds(entry, TEXTS, st.integers(0, 10).map(lambda tenth: tenth * 100_000), st.integers(NOW - 90 * DAY, NOW)),
    max_size=30,
    unique_by=lambda item: item.digest,
).map(ordered)
COUNTERS = st.sampled_from([ESTIMATE, Characters(), Characters(7), Uneven()])
QUERIES = st.sampled_from(["", "how are passwords hashed", "日本", "token 🎉", "nothing here", "???"])


@st.composite
def with_molecules(draw):
    entries = draw(ENTRIES)
    digests = [item.digest for item in entries] + [b"x" * 32]
    groups = draw(st.lists(st.lists(st.sampled_from(digests), min_size=1, max_size=5, unique=True), max_size=5))
    return entries, [Molecule(tuple(group)) for group in groups]


@pytest.mark.slow
@given(with_molecules(), COUNTERS, QUERIES, st.integers(0, 200), st.integers(0, 3), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=150, deadline=None)
def test_no_budget_is_exceeded_and_every_atom_is_accounted_for(
    given_pieces, counter, text, budget, overhead, diversity
):
    entries, molecules = given_pieces
    result = select(
        entries, budget_tokens=budget, now_ms=NOW, query=text, counter=counter, overhead_tokens=overhead,
        molecules=molecules, diversity=diversity, explain=True,
    )  # fmt: skip
    spent = sum(counter.count(item.atom.content) + overhead for item in result.entries)
    assert result.tokens == (spent + counter.request_tokens if result.entries else 0)
    assert result.tokens <= budget
    assert len(set(result.entries)) == len(result.entries)
    assert set(result.entries) <= set(entries)
    if result.is_read_whole:
        assert sum(result.counts.values()) == len(entries)
        assert sorted(reason.digest for reason in result.reasons) == sorted(item.digest for item in entries)
    assert [reason.digest for reason in result.reasons if reason.is_in] == [item.digest for item in result.entries]
    assert all(describe(reason) for reason in result.reasons)


@given(ENTRIES, COUNTERS, QUERIES, st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_whatever_is_out_would_not_fit_any_more(entries, counter, text, budget):
    result = select(entries, budget_tokens=budget, now_ms=NOW, query=text, counter=counter)
    left = max(budget - counter.request_tokens, 0) - sum(counter.count(item.atom.content) for item in result.entries)
    for item in set(entries) - set(result.entries):
        assert left == 0 or counter.count(item.atom.content) > left


@pytest.mark.slow
@given(with_molecules(), QUERIES, st.integers(0, 200), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_in_which_atoms_are_given_changes_nothing(given_pieces, text, budget, chance):
    entries, molecules = given_pieces
    shuffled = list(entries)
    chance.shuffle(shuffled)
    arguments = {"budget_tokens": budget, "now_ms": NOW, "query": text, "molecules": molecules, "explain": True}
    assert select(shuffled, is_ordered=False, **arguments) == select(entries, **arguments)
    asked = Query(text, limit=7)
    assert query(shuffled, asked, now_ms=NOW, is_ordered=False) == query(entries, asked, now_ms=NOW)


@pytest.mark.slow
@given(with_molecules(), COUNTERS, QUERIES, st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_a_molecule_that_shares_no_atom_is_in_whole_or_not_at_all(given_pieces, counter, text, budget):
    entries, molecules = given_pieces
    result = select(entries, budget_tokens=budget, now_ms=NOW, query=text, counter=counter, molecules=molecules)
    chosen = {item.digest for item in result.entries}
    here = {item.digest: item for item in entries}
    told = {placed.digest: placed.missing for placed in result.molecules}
    for number, molecule in enumerate(molecules):
        missing = tuple(digest for digest in molecule.atoms if digest not in chosen)
        if len(missing) < len(molecule.atoms):
            assert told[molecule_digest(molecule)] == missing
        else:
            assert molecule_digest(molecule) not in told
        others = {digest for at, other in enumerate(molecules) if at != number for digest in other.atoms}
        if others.isdisjoint(molecule.atoms) and here.keys() >= set(molecule.atoms):
            tokens = sum(counter.count(here[digest].atom.content) for digest in molecule.atoms)
            if tokens <= budget - counter.request_tokens:
                assert len(missing) in {0, len(molecule.atoms)}


def plain_choice(entries, budget, diversity):
    """The definition, step by step: of all that are left the greatest value, taken where it fits."""
    sketches = {item.digest: sketch(item.atom.content) for item in entries}
    left, taken, todo = budget, [], list(entries)

    def rank(item):
        alike = max((similarity(sketches[item.digest], sketches[other.digest]) for other in taken), default=0)
        lost = diversity * (alike if alike >= ALIKE else 0) // 1_000_000
        return (lost - item.atom.relevance, order_key(item.digest, item.atom))

    while todo:
        best = min(todo, key=rank)
        todo.remove(best)
        tokens = estimate_tokens(best.atom.content)
        if tokens <= left and left:
            taken.append(best)
            left -= tokens
    return taken


@pytest.mark.slow
@given(ENTRIES, st.integers(0, 300), st.sampled_from([0.0, 0.25, 1.0]))
@settings(max_examples=100, deadline=None)
def test_the_choice_is_the_one_of_the_definition(entries, budget, diversity):
    result = select(entries, budget_tokens=budget, now_ms=NOW, diversity=diversity)
    assert list(result.entries) == plain_choice(entries, budget, round(diversity * 1_000_000))


@given(st.lists(TEXTS, max_size=40), TEXTS)
def test_the_table_of_likenesses_finds_what_comparing_with_all_finds(texts, asked):
    table = LikenessTable()
    for text in texts:
        table.add(sketch(text))
    best = max((similarity(sketch(asked), sketch(text)) for text in texts), default=0)
    found = table.most_alike(sketch(asked))
    assert (found[1] if found else 0) == (best if best >= ALIKE else 0)


# what a stream pays


def endless(count_read, texts=None):
    for number in range(1_000_000):
        count_read[0] += 1
        text = (
            texts(number)
            if texts
            else f"fact {number} says {number * 7919 % 1000} of {number * 31 % 977} and {number * 17 % 89}"
        )
        yield entry(text, time_ms=NOW - number)


def test_a_small_budget_reads_little_of_a_million_atoms():
    read = [0]
    result = select(endless(read), budget_tokens=4_000, now_ms=NOW)
    assert result.tokens > 3_950
    assert read[0] == result.considered <= len(result.entries) + LOOK_AHEAD + 1
    assert not result.is_read_whole


def test_a_stream_of_near_duplicates_is_not_read_to_its_end_either():
    read = [0]
    result = select(
        endless(read, lambda number: f"the nightly build of the main branch did pass all of its tests in run {number}"),
        budget_tokens=2_000, now_ms=NOW, look_ahead=100,
    )  # fmt: skip
    assert result.tokens > 1_950
    assert read[0] <= len(result.entries) + 200
    assert len(result.near_duplicates) >= len(result.entries) - 1


def test_a_stream_in_which_nothing_fits_is_left_after_the_look_ahead():
    read = [0]
    result = select(
        endless(read, lambda number: "word " * 100 + str(number)), budget_tokens=50, now_ms=NOW, look_ahead=40
    )
    assert (result.entries, result.tokens, result.counts) == ((), 0, {"too_large": 40})
    assert read[0] <= 41


def test_a_least_relevance_ends_the_reading():
    read = [0]

    def falling():
        for number in range(1_000_000):
            read[0] += 1
            yield entry(f"fact {number}", relevance=1_000_000 - number)

    result = select(falling(), budget_tokens=10_000_000, now_ms=NOW, filters=Filters(relevance_min=999_900))
    assert len(result.entries) == 101
    assert read[0] == 102


def test_entries_out_of_order_are_refused_where_order_counts():
    entries = [entry("a", relevance=1), entry("b", relevance=2)]
    with pytest.raises(UsageError, match=r"entries: atom .* at place 1 does not come after"):
        select(entries, budget_tokens=100, now_ms=NOW)
    with pytest.raises(UsageError, match="entries"):
        query(entries, Query(), now_ms=NOW)
    assert contents(select(entries, budget_tokens=100, now_ms=NOW, is_ordered=False)) == ["b", "a"]


def test_the_entries_of_a_stream_are_read_chunk_by_chunk():
    asked = []

    def chunks():
        for number in range(1000):
            asked.append(number)
            yield Chunk(number, number, (entry(f"number {number}", time_ms=NOW - number),), 0, 0, is_final=False)

    result = select(entries_of(chunks()), budget_tokens=20, now_ms=NOW, look_ahead=5)
    assert result.entries
    assert len(asked) < 30


# budgets


def test_a_budget_smaller_than_the_best_atom_takes_the_next_that_fits():
    best = entry("word " * 50, relevance=1_000_000)
    second = entry("short and useful", relevance=900_000)
    result = select(ordered([best, second]), budget_tokens=10, now_ms=NOW, explain=True)
    assert result.entries == (second,)
    assert [(reason.cause, reason.digest) for reason in result.reasons] == [
        ("fits", second.digest),
        ("too_large", best.digest),
    ]
    assert select([best], budget_tokens=10, now_ms=NOW).entries == ()


@pytest.mark.parametrize(
    "text", ["日本語の知識を符号化する" * 5, "🎉🚀👩‍👩‍👧‍👦🇯🇵" * 8, "نص عربي طويل " * 8, "e\u0301" * 40]
)
@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_budgets_of_cjk_and_emoji_are_kept_to_the_token(text, spare):
    item = entry(text)
    tokens = estimate_tokens(text)
    assert tokens >= len(text) // 3
    result = select([item], budget_tokens=tokens + spare, now_ms=NOW)
    assert result.entries == (() if spare < 0 else (item,))
    assert result.tokens == (0 if spare < 0 else tokens)


def test_what_a_request_takes_by_itself_is_taken_off_once():
    entries = ordered([entry("aaaa"), entry("bbbb"), entry("cccc")])
    assert len(select(entries, budget_tokens=15, now_ms=NOW, counter=Characters(7)).entries) == 2
    assert select(entries, budget_tokens=10, now_ms=NOW, counter=Characters(7)).entries == ()
    assert len(select(entries, budget_tokens=15, now_ms=NOW, counter=Characters(), overhead_tokens=3).entries) == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"budget_tokens": -1}, "budget_tokens"),
        ({"overhead_tokens": -1}, "overhead_tokens"),
        ({"diversity": 1.5}, "diversity"),
        ({"diversity": float("nan")}, "diversity"),
        ({"look_ahead": 0}, "look_ahead"),
        ({"candidates_min": 0}, "candidates_min"),
        ({"filters": Filters(relevance_min=-1)}, "filters.relevance_min"),
        ({"filters": Filters(type="List[")}, "filters.type"),
        ({"query": "x", "weights": Weights(words=float("nan"))}, "weights.words"),
        ({"query": "x", "weights": Weights(relevance=-1)}, "weights.relevance"),
        ({"query": "x", "weights": Weights(0, 0, 0)}, "weights"),
        ({"query": "x", "half_life_ms": 0}, "half_life_ms"),
        ({"query": "x", "likeness": lambda _, texts: [0.5]}, "likeness"),
        ({"query": "x", "likeness": lambda _, texts: [float("inf")] * len(texts)}, "likeness"),
    ],
)
def test_what_is_wrong_is_named(arguments, named):
    entries = ordered([entry("a"), entry("b")])
    with pytest.raises(UsageError) as caught:
        select(entries, **{"budget_tokens": 10, "now_ms": NOW} | arguments)
    assert str(caught.value).startswith(named + ":")


def test_a_counter_that_counts_less_than_nothing_is_refused():
    class Wrong(Characters):
        def count(self, text, /):
            return -1

    with pytest.raises(UsageError, match="counter"):
        select([entry("a")], budget_tokens=10, now_ms=NOW, counter=Wrong())


# filters


FILTERED = [
    (Filters(type="Int"), "type"),
    (Filters(relevance_min=600_000), "relevance"),
    (Filters(since_ms=NOW - DAY), "age"),
    (Filters(age_ms_max=DAY), "age"),
    (Filters(source="src/b.py"), "source"),
    (Filters(tags=("b", "c")), "tag"),
]


@pytest.mark.parametrize(("filters", "cause"), FILTERED)
@pytest.mark.parametrize("text", ["", "kept or not"])
def test_each_filter_keeps_out_what_it_says(filters, cause, text):
    kept = entry("it is kept 1", 600_000, NOW - DAY, type="Int", source="src/b.py#L1-L2", tags=("a", "b", "c"))
    other = entry("it is not", 599_999, NOW - DAY - 1, source="src/b.pyc", tags=("b",))
    result = select([kept, other], budget_tokens=100, now_ms=NOW, filters=filters, query=text, explain=True)
    assert result.entries == (kept,)
    assert result.counts == {"fits": 1, cause: 1}
    assert [reason.cause for reason in result.reasons] == ["fits", cause]
    found = query([kept, other], Query(text, filters), now_ms=NOW)
    assert (found.entries, found.total, found.next_page) == ((kept,), 1, None)


def test_any_unifies_with_every_type_and_a_constructor_with_its_own():
    entries = ordered([entry("1", type="List[Int]"), entry("2", type="List[String]"), entry("3", type="Any")])
    for asked, numbers in (("Any", "123"), ("List[Any]", "123"), ("List[Int]", "13"), ("Int", "3")):
        found = query(entries, Query(filters=Filters(type=asked)), now_ms=NOW)
        assert "".join(sorted(contents(found))) == numbers


@pytest.mark.parametrize(
    ("source", "wanted", "is_in"),
    [("src/a.py", "src/a.py", True), ("src/a.py#L3", "src/a.py", True), ("src/a.py", "src", True), ("src/a.py", "src/", True),
     ("src/a.pyc", "src/a.py", False), ("lib/src/a.py", "src", False), ("", "src", False), ("src/a.py", "", True)],
)  # fmt: skip
def test_a_source_is_found_by_its_beginning(source, wanted, is_in):
    found = query([entry("x", source=source)], Query(filters=Filters(source=wanted)), now_ms=NOW)
    assert (found.total == 1) is is_in


# questions


def test_what_answers_comes_before_what_is_merely_relevant():
    answer = entry("def hash_password(text): return bcrypt(text)", 400_000)
    loud = entry("never push to main on a friday", 1_000_000)
    entries = ordered([answer, loud])
    result = select(entries, budget_tokens=100, now_ms=NOW, query="hashPassword", explain=True)
    assert result.entries == (answer, loud)
    assert "words 1.000" in describe(result.reasons[0])
    only = select(entries, budget_tokens=100, now_ms=NOW, query="hashPassword", is_matching_only=True, explain=True)
    assert only.entries == (answer,)
    assert only.counts == {"fits": 1, "no_match": 1}


def test_relevance_and_recency_decide_between_equal_answers():
    texts = [entry(f"the cache of {name} is kept", relevance, time_ms) for name, relevance, time_ms in
             (("a", 500_000, NOW - 300 * DAY), ("b", 900_000, NOW - 300 * DAY), ("c", 500_000, NOW))]  # fmt: skip
    found = query(ordered(texts), Query("caches"), now_ms=NOW)
    assert [item.atom.content[13] for item in found.entries] == ["b", "c", "a"]
    assert list(found.scores) == sorted(found.scores, reverse=True)


def test_a_hook_for_meaning_adds_and_takes_nothing_away():
    entries = ordered([entry("the automobile is blue", 100_000), entry("a car", 200_000), entry("bread", 300_000)])
    arguments = {"budget_tokens": 100, "now_ms": NOW, "query": "car"}
    plain = select(entries, **arguments)
    asked = []

    def likeness(question, texts):
        asked.append((question, list(texts)))
        return [1.0 if "automobile" in text else -5.0 for text in texts]

    hooked = select(entries, likeness=likeness, **arguments)
    assert asked == [("car", [item.atom.content for item in entries])]
    before, after = (dict(zip(result.entries, result.scores, strict=True)) for result in (plain, hooked))
    assert all(after[item] >= before[item] for item in entries)
    assert contents(plain) == ["a car", "bread", "the automobile is blue"]
    assert contents(hooked) == ["a car", "the automobile is blue", "bread"]


@given(ENTRIES, QUERIES, st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_pages_put_together_are_the_whole_answer(entries, text, limit):
    whole = query(entries, Query(text, limit=1_000), now_ms=NOW)
    found, page = [], 0
    while page is not None:
        result = query(iter(entries), Query(text, limit=limit, page=page, at_ms=NOW), now_ms=NOW + DAY)
        assert (result.total, result.at_ms) == (whole.total, NOW)
        assert len(result.entries) <= limit
        found += result.entries
        page = result.next_page
    assert tuple(found) == whole.entries
    assert len(found) == whole.total
    if not text:
        assert found == entries


def test_entries_read_again_are_the_same_or_refused():
    entries = ordered([entry(f"the cache of {number}") for number in range(20)])
    asked = Query("cache", limit=5, page=1)
    assert query(RepeatableEntries(lambda: iter(entries)), asked, now_ms=NOW) == query(entries, asked, now_ms=NOW)
    readings = iter([entries, entries[1:], entries, entries[:3]])
    for _ in range(2):
        with pytest.raises(UsageError, match="entries: the second reading"):
            query(RepeatableEntries(lambda: iter(next(readings))), asked, now_ms=NOW)


@pytest.mark.slow
def test_a_search_in_a_stream_that_can_be_read_again_holds_what_it_gives():
    import tracemalloc

    def stream():
        for number in range(5_000):
            yield entry(f"the cache of {number} " + "x" * 2_000, time_ms=NOW - number)

    tracemalloc.start()
    try:
        found = query(RepeatableEntries(stream), Query("cache", limit=10), now_ms=NOW)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.total, len(found.entries)) == (5_000, 10)
    assert peak < 5_000 * 600  # their contents alone are over 10 MB


def test_an_atom_does_not_age_out_between_two_pages():
    entries = [entry(f"fact {number}", time_ms=NOW - number) for number in range(4)]
    asked = Query(filters=Filters(age_ms_max=3), limit=2)
    first = query(entries, asked, now_ms=NOW)
    assert (first.total, first.next_page) == (4, 1)
    second = query(entries, Query(filters=asked.filters, limit=2, page=1, at_ms=first.at_ms), now_ms=NOW + 1)
    assert first.entries + second.entries == tuple(entries)


def test_one_clients_relevance_never_changes_anothers_answer():
    entries = ordered([entry(f"fact {number} of the cache", number * 10_000) for number in range(100)])
    asks = [Query(text, Filters(relevance_min=least), limit=1_000)
            for text, least in itertools.product(("", "cache"), (0, 250_000, 500_000, 990_000))]  # fmt: skip
    alone = [query(entries, asked, now_ms=NOW) for asked in asks]
    assert [result.total for result in alone] == [100, 75, 50, 1] * 2
    barrier = threading.Barrier(len(asks))
    wrong = []

    def client(asked, expected):
        barrier.wait()
        wrong.extend(asked for _ in range(5) if query(entries, asked, now_ms=NOW) != expected)

    threads = [threading.Thread(target=client, args=pair) for pair in zip(asks, alone, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_more_candidates_than_are_ranked_are_counted_and_their_molecules_still_found():
    chance = random.Random(1)
    entries = ordered([entry(f"fact {number}", chance.randrange(1_000_001)) for number in range(900)])
    answers = ordered([entry(f"the salt of {number}", chance.randrange(1_000_001)) for number in range(500)])
    best = query(answers, Query("salt", limit=1), now_ms=NOW).entries[0]
    worst = min(answers, key=lambda item: item.atom.relevance)
    molecules = [Molecule((best.digest, worst.digest)), Molecule((answers[1].digest, entries[-1].digest))]
    arguments = {"budget_tokens": 400, "now_ms": NOW, "query": "salt", "molecules": molecules, "candidates_min": 100}
    result = select(ordered(entries + answers), **arguments)
    assert {best, worst} <= set(result.entries)
    assert all(not placed.missing for placed in result.molecules)
    assert sum(result.counts.values()) == 1_400
    assert result.counts["outranked"] > 900
    assert select(RepeatableEntries(lambda: iter(ordered(entries + answers))), **arguments) == result
    told = select(iter(ordered(entries + answers)), explain=True, **arguments)
    assert (told.entries, told.counts) == (result.entries, result.counts)
    assert len(told.reasons) <= len(told.entries) + REASONS_MAX * len(CAUSES)
    assert len({reason.digest for reason in told.reasons}) == len(told.reasons)


# molecules


def test_a_molecule_comes_whole_at_the_turn_of_its_best_atom():
    a, b, c = entry("alpha fact", 900_000), entry("beta fact", 500_000), entry("gamma thing", 100_000)
    result = select([a, b, c], budget_tokens=100, now_ms=NOW, molecules=[Molecule((c.digest, a.digest))], explain=True)
    assert result.entries == (a, c, b)
    assert [reason.cause for reason in result.reasons] == ["fits", "molecule", "fits"]
    assert result.molecules[0].missing == ()


def test_a_molecule_that_fits_the_budget_and_not_the_rest_stays_out_whole():
    first = entry("x" * 50, 1_000_000)
    a, b, small = entry("a" * 30, 900_000), entry("b" * 30, 800_000), entry("c" * 20, 100_000)
    result = select(
        [first, a, b, small],
        budget_tokens=100,
        now_ms=NOW,
        counter=Characters(),
        molecules=[Molecule((a.digest, b.digest))],
    )
    assert result.entries == (first, small)
    assert result.counts == {"fits": 2, "molecule_no_room": 2}
    assert result.molecules == ()


def test_a_molecule_over_the_whole_budget_goes_in_part_and_says_so():
    a, b = entry("a" * 60, 900_000), entry("b" * 60, 800_000)
    result = select(
        [a, b], budget_tokens=100, now_ms=NOW, counter=Characters(), molecules=[Molecule((a.digest, b.digest))]
    )
    assert result.entries == (a,)
    assert result.molecules[0].missing == (b.digest,)


def test_a_molecule_of_which_a_filter_keeps_an_atom_out_says_what_it_lacks():
    a, b = entry("alpha", tags=("t",)), entry("beta")
    for text in ("", "alpha"):
        result = select(ordered([a, b]), budget_tokens=100, now_ms=NOW, query=text, filters=Filters(tags=("t",)),
                        molecules=[Molecule((a.digest, b.digest))])  # fmt: skip
        assert result.entries == (a,)
        assert result.molecules[0].missing == (b.digest,)


def test_an_atom_far_down_the_stream_is_looked_up_where_it_can_be():
    far = entry("far down", 1)
    near = entry("near", 1_000_000)
    middle = [entry(f"fact {number}") for number in range(500)]
    stream = ordered([near, *middle, far])
    molecules = [Molecule((near.digest, far.digest))]
    apart = select(stream, budget_tokens=30, now_ms=NOW, molecules=molecules, look_ahead=50)
    assert apart.entries[0] == near
    assert far not in apart.entries
    assert apart.molecules[0].missing == (far.digest,)
    assert apart.considered <= 110
    by_digest = {item.digest: item for item in stream}
    whole = select(stream, budget_tokens=30, now_ms=NOW, molecules=molecules, look_ahead=50, find=by_digest.get)
    assert whole.entries[:2] == (near, far)
    assert whole.molecules[0].missing == ()
    filtered = select(stream, budget_tokens=30, now_ms=NOW, molecules=molecules, find=by_digest.get,
                      filters=Filters(relevance_min=2))  # fmt: skip
    assert far not in filtered.entries
    read_on = select(stream, budget_tokens=10_000, now_ms=NOW, molecules=molecules, find=by_digest.get)
    assert len(read_on.entries) == len(set(read_on.entries)) == 502


@pytest.mark.slow
def test_a_long_chain_of_molecules_is_too_much_to_keep_together_and_costs_no_more_than_its_length():
    entries = [entry(f"fact {number}", time_ms=NOW - number) for number in range(6_000)]
    molecules = [Molecule((a.digest, b.digest)) for a, b in itertools.pairwise(entries)]
    result = select(entries, budget_tokens=1_000, now_ms=NOW, molecules=molecules)
    assert len(result.entries) > 100
    assert result.tokens <= 1_000
    whole = [placed for placed in result.molecules if not placed.missing]
    assert len(whole) >= len(result.entries) - 2


# near-duplicates


def test_near_duplicates_wait_for_others_and_are_reported():
    base = "passwords are hashed with bcrypt and a salt of sixteen bytes in the auth service"
    first, second = entry(base, 900_000), entry(base + " now", 899_999)
    other = entry("the build runs on every push to the main branch", 700_000)
    result = select([first, second, other], budget_tokens=200, now_ms=NOW, explain=True)
    assert result.entries == (first, other, second)
    (duplicate,) = result.near_duplicates
    assert (duplicate.digest, duplicate.of, duplicate.is_in) == (second.digest, first.digest, True)
    assert 800_000 < duplicate.similarity < 1_000_000
    assert "waited" in describe(result.reasons[2])
    tight = select([first, second, other], budget_tokens=35, now_ms=NOW, explain=True)
    assert tight.entries == (first, other)
    assert [item.is_in for item in tight.near_duplicates] == [False]
    assert select([first, second, other], budget_tokens=200, now_ms=NOW, diversity=0).entries == (first, second, other)


def test_atoms_equal_in_their_beginning_alone_are_no_duplicates():
    beginning = "x" * 150
    one = entry(beginning + " the cache lives in redis and is flushed at every deploy", 900_000)
    two = entry(beginning + " tokens expire after ten minutes unless they are renewed", 899_999)
    result = select([one, two], budget_tokens=1_000, now_ms=NOW)
    assert result.entries == (one, two)
    assert result.near_duplicates == ()


def test_the_same_words_in_another_order_are_not_the_same():
    a, b = sketch("the client must call the server first"), sketch("the server must call the client first")
    assert 0 < similarity(a, b) < 1_000_000
    assert similarity(a, a) == 1_000_000
    assert sketch("!!!") == ()
    assert similarity((), ()) == 0


def test_long_texts_are_compared_over_all_their_length():
    chance = random.Random(2)
    words = [f"word{number}" for number in range(4_000)]
    chance.shuffle(words)
    changed = list(words)
    changed[3_000:] = [f"other{number}" for number in range(1_000)]
    whole, partly = sketch(" ".join(words)), sketch(" ".join(changed))
    assert similarity(whole, whole) == 1_000_000
    assert 500_000 < similarity(whole, partly) < 700_000  # in truth 0.6: 6,000 of 10,000


def test_explanations_are_bounded_and_the_counts_are_not():
    entries = ordered([entry(f"fact {number}", number) for number in range(1_000)])
    result = select(entries, budget_tokens=10, now_ms=NOW, filters=Filters(tags=("none",)), explain=True)
    assert result.counts == {"tag": 1_000}
    assert [reason.digest for reason in result.reasons] == [item.digest for item in entries[:REASONS_MAX]]
    assert select(entries, budget_tokens=10, now_ms=NOW, filters=Filters(tags=("none",))).reasons == ()
