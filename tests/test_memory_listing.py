"""Pages of memory say what a plain computation over all entities says."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from periplus.base.errors import UsageError
from periplus.base.text.list_counts import Facet, Total, facets_of, pages_of
from periplus.journal import Entity, Transaction, Writer
from periplus.memory.retrieval.listing import MEMORY_SORTS, MemoryFilter, MemoryPage, MemorySort, memory_page
from periplus.memory.writing.remember import Memory
from periplus.project import Project

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.web_store import make_web_store, sizes_at

ANN = Writer.named("ann")
REMEMBERED = ("constraint", "decision", "lesson", "note", "trap")
FILTERS = (
    MemoryFilter(),
    MemoryFilter(types=("trap", "decision")),
    MemoryFilter(types=("plan", "step", "claim", "message")),
    MemoryFilter(types=("nothing",)),
    MemoryFilter(states=("superseded", "resolved")),
    MemoryFilter(authors=("ann", "codex")),
    MemoryFilter(tags=("api",)),
    MemoryFilter(tags=("api", "db")),
    MemoryFilter(path="src"),
    MemoryFilter(path="src/"),
    MemoryFilter(path="README.md"),
    MemoryFilter(created_since="2026-01-10T00:00:00Z"),
    MemoryFilter(changed_since="2026-03-01"),
    MemoryFilter(
        types=("note", "decision"), states=("accepted", ""), tags=("db",), authors=("ann", "ben", "dora"), path="src"
    ),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("large") / "project"
    return make_web_store(str(folder), sizes_at(0.001)._replace(memories=300, records=2_000))


@pytest.fixture
def project(root: str) -> Iterator[Project]:
    with Project(root, ANN) as found:
        yield found


def is_in(entity: Entity, wanted: MemoryFilter, *, but: str = "") -> bool:
    value = entity.value
    path = wanted.path.rstrip("/")
    refs = [item["ref"] for item in value.get("about", ())]
    return all((
        but == "types" or entity.item_type in (wanted.types or REMEMBERED),
        but == "states" or not wanted.states or value.get("state", "") in wanted.states,
        but == "authors" or not wanted.authors or value.get("author", value.get("sender", "")) in wanted.authors,
        set(wanted.tags) <= set(value.get("tags", ())),
        not path or any(ref == path or ref.startswith(path + "/") for ref in refs),
        not wanted.created_since or value["created"] >= wanted.created_since,
        not wanted.changed_since or entity.ts >= wanted.changed_since,
    ))  # fmt: skip


def in_order(entities: list[Entity], sort: MemorySort) -> list[str]:
    def key(entity: Entity) -> tuple[str, str]:
        told = {"text": " ".join(entity.value["text"].split()).casefold()[:60], "changed": entity.ts}
        return told.get(sort, entity.value["created"]), entity.item_id

    return [one.item_id for one in sorted(entities, key=key, reverse=sort in ("newest", "changed"))]


def plainly(project: Project, wanted: MemoryFilter, *, but: str = "") -> list[Entity]:
    return [one for one in project.journal.entities() if one.item_type != "trail" and is_in(one, wanted, but=but)]


def all_pages(project: Project, wanted: MemoryFilter, sort: MemorySort, size: int) -> list[MemoryPage]:
    first = project.memory_page(wanted, sort=sort, size=size)
    return [
        first,
        *(project.memory_page(wanted, sort=sort, size=size, number=one) for one in range(2, first.pages + 1)),
    ]


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
@pytest.mark.parametrize("sort", MEMORY_SORTS)
def test_pages_are_as_computed_plainly(project: Project, wanted: MemoryFilter, sort: MemorySort) -> None:
    expected = in_order(plainly(project, wanted), sort)
    pages = all_pages(project, wanted, sort, 37)
    assert [row.id for page in pages for row in page.rows] == expected
    assert {page.total for page in pages} == {Total(len(expected))}
    assert all(len(page.rows) == 37 for page in pages[:-1])
    assert not project.memory_page(wanted, sort=sort, size=37, number=len(pages) + 1).rows


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_facets_are_counted_under_the_other_filters(project: Project, wanted: MemoryFilter) -> None:
    facets = project.memory_page(wanted).facets

    def count(values: list[str]) -> tuple[Facet, ...]:
        return facets_of(Counter(values))

    assert facets.types == count([one.item_type for one in plainly(project, wanted, but="types")])
    assert facets.states == count([one.value.get("state", "") for one in plainly(project, wanted, but="states")])
    authors = [one.value.get("author", one.value.get("sender", "")) for one in plainly(project, wanted, but="authors")]
    assert facets.authors == count(authors)
    tags = [tag for one in plainly(project, MemoryFilter(wanted.types)) for tag in one.value.get("tags", ())]
    assert facets.tags == count(tags)


def test_row_says_what_the_entity_says(project: Project) -> None:
    row = project.memory_page(MemoryFilter(types=("trap",), path="src")).rows[0]
    entity = project.show(row.id)
    value = entity.value
    assert row[:4] == (entity.item_id, "trap", value["state"], value["text"][:300])
    assert row[4:7] == (value["author"], value["created"], entity.ts)
    assert row.tags == tuple(value["tags"])
    assert row.about == tuple(item["ref"] for item in value["about"])
    assert row.is_ended == (value["state"] != "active")


@pytest.mark.parametrize("sort", MEMORY_SORTS)
@pytest.mark.parametrize("wanted", [FILTERS[0], FILTERS[4], FILTERS[6], FILTERS[8], FILTERS[12]], ids=str)
def test_records_behind_the_index_are_merged_in(
    root: str, tmp_path: Path, wanted: MemoryFilter, sort: MemorySort
) -> None:
    import shutil

    shutil.copytree(root, tmp_path / ".periplus")
    with Project(str(tmp_path / ".periplus"), ANN) as project:
        chosen = list(project.journal.entities("decision"))[::7]

        def change(transaction: Transaction) -> None:
            for number, one in enumerate(chosen):
                value = {
                    **one.value,
                    "state": "superseded",
                    "tags": ["api"],
                    "created": f"2026-0{1 + number % 6}-15T00:00:00.000Z",
                }
                if number % 5:
                    transaction.put("decision", one.item_id, value)
                else:
                    transaction.delete("decision", one.item_id)

        project.journal.mutate(change, ANN, project=False)
        assert len(project.journal.unindexed()) == len(chosen)
        expected = in_order(plainly(project, wanted), sort)
        found: list[str] = []
        number = 1
        while True:
            page = memory_page(
                project.journal, wanted, lambda _: (), sort=sort, number=number, size=20, with_facets=True
            )
            assert page.total == Total(len(expected))
            found += [row.id for row in page.rows]
            if number >= page.pages:
                break
            number += 1
        assert found == expected
        types = Counter(one.item_type for one in plainly(project, wanted, but="types"))
        assert page.facets.types == facets_of(types)
        bare = memory_page(project.journal, wanted, lambda _: (), sort=sort, number=1, size=20, with_facets=False)
        assert (bare.total, bare.facets.types) == (Total(len(expected)), ())


def test_stale_memory_is_marked_and_listed(tmp_path: Path) -> None:
    Project.init(str(tmp_path))
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"NAME = {name!r}\n" * 20)
    with Project.open(str(tmp_path), ANN) as project:
        ids = {
            name: project.remember(Memory("decision", f"about {name}", about=(name,))).entity.item_id
            for name in ("a.py", "b.py")
        }
        assert not project.memory_page(MemoryFilter(stale=True)).rows
        (tmp_path / "b.py").write_text("changed\n")
        page = project.memory_page()
        assert {row.id: bool(row.stale) for row in page.rows} == {ids["a.py"]: False, ids["b.py"]: True}
        stale = project.memory_page(MemoryFilter(stale=True))
        assert [row.id for row in stale.rows] == [ids["b.py"]]
        assert stale.total == Total(1)
        assert "b.py" in stale.rows[0].stale[0]


def test_hostile_fields_are_listed_as_far_as_they_make_sense(tmp_path: Path) -> None:
    Project.init(str(tmp_path))
    with Project.open(str(tmp_path), ANN) as project:

        def write(transaction: Transaction) -> None:
            value = {
                "v": 1,
                "text": "x\x00\u202e" + "y" * 5_000,
                "author": "a" * 3_000,
                "created": "never",
                "tags": ["'; --", "%"],
            }
            transaction.put("note", "not_0000000000000001", value)

        project.journal.mutate(write, ANN)
        row = project.memory_page(MemoryFilter(tags=("'; --", "%"))).rows[0]
        assert (row.id, len(row.text), len(row.author)) == ("not_0000000000000001", 300, 200)
        assert row.created == row.changed != ""
        assert not project.memory_page(MemoryFilter(path="%")).rows


@pytest.mark.parametrize("wrong", [{"number": 0}, {"size": 0}, {"size": 201}, {"sort": "sideways"}])
def test_wrong_pages_are_refused(project: Project, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="there is no page"):
        project.memory_page(**wrong)  # type: ignore[arg-type]


def test_wrong_times_are_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        project.memory_page(MemoryFilter(created_since="yesterday"))


def test_counts_as_text() -> None:
    assert (str(Total(8_123)), str(Total(10_000, is_exact=False))) == ("8,123", "more than 10,000")
    assert [pages_of(Total(number), 100) for number in (0, 100, 101)] == [1, 1, 2]
