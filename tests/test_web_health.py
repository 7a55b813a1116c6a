"""Health in a browser: what is wrong, what is safe and what to type, on stores that are sound, damaged, removed or newer."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from periplus.base.filesystem.failure_notes import Note, leave_note
from periplus.journal import Writer
from periplus.journal.care.problem import Problem
from periplus.memory.writing.remember import Memory
from periplus.project import Project
from periplus.project.care.quick_check import RECORDS_READ, quick_problems
from periplus.project.care.space import measure_space
from periplus.web.pages.health.overview import ALIKE_SHOWN_MAX, PROBLEMS_SHOWN_MAX, _rows, health
from web_support import Site, asked

HOSTILE = '<script>alert(1)</script>\u202egnp.exe\x1b[31m"><img src=x onerror=alert(1)>'
ADA = Writer.named("ada", session="first")


def opened(folder):
    return Project.open(str(folder), ADA)


@pytest.fixture
def folder(tmp_path):
    Project.init(str(tmp_path))
    with opened(tmp_path) as project:
        for number in range(5):
            project.remember(Memory("note", f"fact number {number}"))
    return tmp_path


@pytest.fixture
def site(folder):
    with Site(folder) as site:
        yield site


def segment_of(folder):
    with opened(folder) as project:
        return Path(project.journal.reader(project.journal.lineage).path_of(1))


def examined(site):
    """Start a full examination as a person does, and return the page that has its result."""
    address = next(link for link in site.get("/health").page.links() if "examine=" in link)
    response = site.get(address)
    while "Reading and checking" in response.text:
        response = site.get(address)
    return response


def test_a_sound_store_is_said_to_be_sound(site):
    response = site.get("/health")
    assert response.status == 200
    assert "sound as far as it is seen" in response.text
    assert "periplus doctor" in response.text
    assert "5 records" not in response.text.partition("Clones")[0]


def test_the_full_examination_runs_once_for_its_address_and_is_kept(site, folder):
    address = next(link for link in site.get("/health").page.links() if "examine=" in link)
    response = examined(site)
    assert "every checksum, version, object, trail and projection was checked" in response.text
    assert "5 records" in response.text
    with opened(folder) as project:
        project.remember(Memory("note", "one more"))
    for path in (address, "/health"):
        assert "5 records" in site.get(path).text  # kept, and not begun anew by the address that began it
    assert "6 records" in examined(site).text


def test_a_damaged_record_is_told_with_its_place_and_a_command(folder):
    segment = segment_of(folder)
    segment.write_bytes(segment.read_bytes().replace(b"fact number 3", b"fXct number 3"))
    with Site(folder) as site:
        response = site.get("/health")
        assert response.status == 200
        assert "Something is wrong" in response.text
        assert "000000000001.jsonl" in response.text
        assert "periplus doctor" in response.text
        found = examined(site)
        assert "error" in found.text
        assert "periplus doctor --repair" in found.text


def test_a_repaired_store_is_seen_without_starting_anew(folder):
    segment = segment_of(folder)
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"fact number 3", b"fXct number 3"))
    with Site(folder) as site:
        assert "Something is wrong" in site.get("/health").text
        segment.write_bytes(whole)
        assert "sound as far as it is seen" in site.get("/health").text


def test_an_old_damaged_record_is_found_by_the_full_examination(folder):
    with opened(folder) as project:
        for number in range(RECORDS_READ):
            project.remember(Memory("note", f"later fact {number}"))
    segment = segment_of(folder)
    segment.write_bytes(segment.read_bytes().replace(b"fact number 3", b"fXct number 3"))
    with Site(folder) as site:
        assert "sound as far as it is seen" in site.get("/health").text
        found = examined(site)
        assert "problems" in found.text
        assert "periplus doctor --repair" in found.text


def test_a_store_that_was_removed_is_told(folder):
    with Site(folder) as site:
        assert site.get("/health").status == 200
        shutil.rmtree(folder / ".periplus")
        response = site.get("/health")
        assert response.status in (500, 503)
        assert "periplus" in response.text
        assert "Traceback" not in response.text


def test_a_store_of_a_newer_format_is_told(folder):
    with Site(folder) as site:
        assert site.get("/health").status == 200
        config = folder / ".periplus" / "config.toml"
        config.write_text(config.read_text().replace("format = 2", "format = 99"))
        (folder / ".periplus" / "journal").rename(folder / ".periplus" / "gone")
        site.get("/health")  # the open project fails, and is opened anew
        response = site.get("/health")
        assert response.status == 500
        assert "99" in response.text
        assert "Update Periplus" in response.text


def test_a_page_that_may_not_write_offers_nothing_that_writes(folder):
    with Site(folder, is_read_only=True) as site:
        response = examined(site)
        assert "every checksum" in response.text
        assert not response.page.all("form", method="post")


def test_notes_of_hooks_are_shown_newest_first_and_do_nothing(folder):
    path = os.path.join(folder, ".periplus", "hooks", "notes")
    for number in range(40):
        leave_note(
            path, Note(f"2026-11-28T09:{number:02}:00.000Z", "before-tool", "/home/ada", f"note {number} {HOSTILE}")
        )
    with Site(folder) as site:
        response = site.get("/health")
        assert "<script>alert" not in response.html
        assert "<img src=x" not in response.html
        assert "\u202e" not in response.html
        assert response.text.index("note 39") < response.text.index("note 38")
        assert "and 10 older notes" in response.text
        assert "note 9 " not in response.text


def test_space_is_told_by_kind(folder):
    kinds = {one.name: one for one in measure_space(os.path.join(folder, ".periplus"))}
    assert kinds["journal"].size_bytes >= segment_of(folder).stat().st_size
    assert kinds["index"].is_derived
    assert not kinds["journal"].is_derived
    whole = sum(path.stat().st_size for path in (folder / ".periplus").rglob("*") if path.is_file())
    assert sum(one.size_bytes for one in kinds.values()) == whole
    assert measure_space(os.path.join(folder, ".periplus"), files_max=3) is None


def test_a_large_folder_is_measured_beside_the_page(folder):
    heap = folder / ".periplus" / "parked"
    heap.mkdir()
    for number in range(1_600):
        (heap / f"{number}").write_bytes(b"x")
    with Site(folder) as site:
        response = site.get("/health")
        assert "Measuring many files" in response.text
        while "Measuring many files" in response.text:
            response = site.get("/health")
        assert "1,600" in response.text


def test_checkpoints_and_clones_are_listed(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / ".periplus").mkdir()
    shutil.copy(folder / ".periplus" / "config.toml", other / ".periplus" / "config.toml")
    with opened(other) as project:
        project.remember(Memory("note", "from elsewhere"))
        theirs = project.journal.lineage
    with opened(folder) as project:
        project.compact()
        project.sync(str(other), cwd=str(folder), environment={})
        page = health(asked(project, "/health")).values["page"]
        assert [one.seq for one in page.checkpoints] == [5]
        assert [(one.standing, one.records) for one in page.peers] == [("this clone", 6), ("another clone", 1)]
        assert page.peers[1].lineage == theirs
        assert len(page.peers[1].key) == 16


def test_a_damaged_file_of_a_peer_is_told_and_the_others_are_shown(folder):
    with opened(folder) as project:
        project.prover().head()
        path = Path(project.journal.layout.peer_file(project.journal.lineage))
    path.write_bytes(b"not json")
    with opened(folder) as project:
        page = health(asked(project, "/health")).values["page"]
        assert "not a valid peer file" in page.peers[0].problem


def test_many_problems_alike_are_summed_up():
    alike = [Problem("warning", "a file is missing", f"/store/entities/{number}") for number in range(50)]
    other = [Problem("note", f"note {number}") for number in range(PROBLEMS_SHOWN_MAX)]
    rows, left_out = _rows(
        "/store", [*other, *alike, Problem("error", "damage", "/store/journal/x", 17, 4, "Run `periplus doctor`.")]
    )
    assert len(rows) == PROBLEMS_SHOWN_MAX
    assert (rows[0].what, rows[0].place, rows[0].record) == ("damage", "journal/x, byte 17", "/journal/4")
    assert [(part.text, part.is_command) for part in rows[0].mend] == [
        ("Run ", False),
        ("periplus doctor", True),
        (".", False),
    ]
    of_files = [row for row in rows if row.what == "a file is missing"]
    assert len(of_files) == ALIKE_SHOWN_MAX
    assert [row.more for row in of_files] == [0] * (ALIKE_SHOWN_MAX - 1) + [40]
    assert left_out == ALIKE_SHOWN_MAX + 1


def test_the_quick_check_of_a_sound_store_finds_nothing(folder):
    with opened(folder) as project:
        assert quick_problems(project) == []
