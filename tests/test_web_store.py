"""The store behind an open page: written by others, damaged, removed, replaced, read-only, of a newer format, locked, and mended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from periplus.base.process.locks import LOCK_PATIENCE_S, Lock
from periplus.memory import Memory
from periplus.project import Project
from periplus.web.desk import WORKERS
from support import remove_index
from web_process import Served, until
from web_support import ADA, Site

PAGES = ("/", "/memory", "/work", "/journal", "/code", "/contexts")
SECONDS = 60
THREADS = WORKERS + 1  # with an open project: the workers, and the one that looks at files


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "shop"
    made.mkdir()
    Project.init(os.fspath(made))
    remember(made, "Prices are kept in cents")
    return made


@pytest.fixture
def site(folder, tmp_path):
    with Site(folder, home=os.fspath(tmp_path)) as made:
        for path in PAGES:
            assert made.get(path).status == 200, path
        yield made


def remember(folder, text):
    with Project.open(os.fspath(folder), ADA) as project:
        return project.remember(Memory("decision", text)).entity.item_id


def store_of(site):
    return Path(site.folder, ".periplus")


def problems(site, paths=PAGES):
    """What pages say of a problem, each checked for what it must have: no traceback, no form, a way on."""
    said = []
    for path in paths:
        page = site.get(path)
        assert page.status in (500, 503), (path, page.status, page.text)
        (box,) = page.page.all("div", class_="problem")
        assert "Traceback" not in page.html
        assert "a defect of Periplus" not in page.text
        said.append(" ".join(box.text.split()))
    return said


def is_well(site, text="Prices are kept in cents"):
    for path in PAGES:
        page = site.get(path)
        assert page.status == 200, (path, page.text)
    assert text in site.get("/memory").text
    return True


# -- written by others ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_another_process_writes_is_told_to_open_pages_within_two_seconds(folder):
    with Served(folder) as served:
        live = served.enter().connect(served.head("/live"))
        said = b""
        while b"event: watching" not in said:
            said += live.recv(4_096)
        subprocess.run(
            [sys.executable, "-m", "periplus", "remember", "A cart is never negative"],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )
        written = time.monotonic()
        while b"event: changed" not in said:
            said += live.recv(4_096)
        assert time.monotonic() - written < 2
        live.close()
        assert "A cart is never negative" in served.get("/memory").text


# -- damaged ----------------------------------------------------------------------------------------------------------------


def test_a_damaged_journal_is_told_with_what_is_safe_and_the_pages_come_back(site):
    (segment,) = store_of(site).glob("journal/lin_*/*.jsonl")
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"Prices are kept", b"Prizes are kept", 1))
    pages = {path: site.get(path) for path in PAGES}
    told = [
        page
        for page in pages.values()
        if page.status == 500 or "damage" in page.text.lower() or "broken" in page.text.lower()
    ]
    for page in pages.values():
        assert page.status in (200, 500)
        assert "Traceback" not in page.html
        assert "a defect of Periplus" not in page.text
    assert told
    assert any("periplus doctor" in page.text for page in told)
    segment.write_bytes(whole)
    assert is_well(site)


@pytest.mark.parametrize("damage", ["garbage", "nothing", "another"])
def test_a_damaged_index_is_made_anew(site, damage):
    index = store_of(site) / "index.sqlite"
    if damage == "nothing":
        remove_index(store_of(site))
    elif damage == "garbage":
        index.write_bytes(b"no index" * 1_000)
        told = [page for page in (site.get(path) for path in PAGES * THREADS) if page.status != 200]
        assert len(told) <= THREADS, "who has it open says so once"
        for page in told:
            assert (page.status, "the index is rebuilt" in page.text) == (500, True)
    else:
        index.unlink()
        index.write_bytes(os.urandom(4_096))
    assert is_well(site)
    remember(site.folder, "A cart is never negative")
    assert is_well(site, "A cart is never negative")


# -- removed, replaced ------------------------------------------------------------------------------------------------------


def test_a_removed_store_is_told_and_comes_back(site, tmp_path):
    away = tmp_path / "away"
    store_of(site).rename(away)
    for said in problems(site):
        assert "no store" in said.lower() or "does not exist" in said, said
        assert "periplus init" in said or "Nothing was changed" in said, said
    assert site.post("/work/mail", follow=False, to="bob", text="hello").status == 503
    assert not store_of(site).exists()
    away.rename(store_of(site))
    assert is_well(site)


def test_another_store_in_its_place_is_shown(site, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    Project.init(os.fspath(other))
    remember(other, "Carts are blue")
    store_of(site).rename(tmp_path / "away")
    (other / ".periplus").rename(store_of(site))
    assert is_well(site, "Carts are blue")
    assert "Prices are kept" not in site.get("/memory").text
    remember(site.folder, "Carts are green")
    assert is_well(site, "Carts are green")


def test_another_store_in_its_place_gets_what_is_written(site, tmp_path):
    """Not the folder that was moved away, which the open project still holds."""
    other = tmp_path / "other"
    other.mkdir()
    Project.init(os.fspath(other))
    store_of(site).rename(tmp_path / "away")
    (other / ".periplus").rename(store_of(site))
    assert site.post("/work/mail", to="bob", text="hello there").status == 200
    with Project.open(site.folder, ADA) as project:
        assert [one.value["text"] for one in project.journal.entities("message")] == ["hello there"]


def test_a_copy_of_the_store_that_is_put_back_is_shown(site, tmp_path):
    """A backup of before the last records."""
    shutil.copytree(store_of(site), tmp_path / "backup")
    remember(site.folder, "Carts are blue")
    assert is_well(site, "Carts are blue")
    shutil.rmtree(store_of(site))
    problems(site, ("/memory",))
    shutil.copytree(tmp_path / "backup", store_of(site))
    assert is_well(site)
    assert "Carts are blue" not in site.get("/memory").text


# -- read-only, newer, locked -----------------------------------------------------------------------------------------------


@pytest.mark.rig
def test_a_store_that_becomes_read_only_is_shown_and_writes_are_told(site):
    here = site.folder
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "--bind", here, here], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs root, and to be allowed to mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", here], check=True)
        answer = site.post("/work/mail", follow=False, to="bob", text="hello")
        assert answer.status == 503, answer.text
        assert "read-only" in answer.text.lower()
        for path in PAGES:
            page = site.get(path)
            assert page.status in ((200, 503) if path == "/code" else (200,)), (
                path,
                page.text,
            )  # the code map is written
        assert "Prices are kept in cents" in site.get("/memory").text
    finally:
        subprocess.run(["umount", "-l", here], check=True)
    assert site.post("/work/mail", to="bob", text="hello").status == 200


def test_a_store_of_a_newer_format_is_told_until_it_is_of_ours_again(site):
    config = store_of(site) / "config.toml"
    text = config.read_text()
    assert "format = 2" in text
    config.write_text(text.replace("format = 2", "format = 3"))
    for said in problems(site):
        assert "the store has format 3" in said
        assert "Update Periplus" in said
    assert site.post("/work/mail", follow=False, to="bob", text="hello").status in (500, 503)
    config.write_text(text)
    assert is_well(site)


@pytest.mark.slow
def test_a_lock_that_another_holds_keeps_no_page_from_being_shown(site):
    with Lock(os.fspath(store_of(site) / "journal" / "lock")).holding():
        found = []
        writing = [
            threading.Thread(
                target=lambda: found.append(site.post("/work/mail", follow=False, to="bob", text="hello").status)
            )
            for _ in range(3)
        ]
        for one in writing:
            one.start()
        until(lambda: site.get("/leave?to=https://example.org").status == 200)
        begun = time.monotonic()
        assert is_well(site)
        shown_s = time.monotonic() - begun
        for one in writing:
            one.join(SECONDS)
    assert shown_s < LOCK_PATIENCE_S  # none of them waited for it
    assert found == [503] * 3
    assert site.post("/work/mail", to="bob", text="hello").status == 200


# -- defects of ours --------------------------------------------------------------------------------------------------------


def test_a_defect_is_a_page_is_told_to_who_started_the_server_and_ends_nothing(folder, tmp_path):
    class Broken(Exception):  # noqa: N818 - no error of the house
        pass

    times = []

    def opening():
        times.append(1)
        if len(times) == 1:
            raise Broken("<b>secret</b>")
        return Project.open(os.fspath(folder), ADA)

    with Site(folder, home=os.fspath(tmp_path), opening=opening) as site:
        page = site.get("/work")
        assert page.status == 500
        assert "a defect of Periplus" in page.text
        assert "secret" not in page.html
        (defect,) = site.defects
        assert type(defect) is Broken
        site.defects.clear()
        assert is_well(site)
