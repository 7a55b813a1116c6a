"""A page does not wait for a look at thousands of entity files; another thread looks, and the next page has what it found."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from periplus.base.ids import derived_id
from periplus.journal import Transaction, Writer
from periplus.project import Project
from periplus.web.desk import Desk

ANN = Writer.named("ann")
MANY = 4_001
SECONDS = 240  # on a busy machine the next look at the files is due late


def made(folder: Path, count: int) -> list[str]:
    Project.init(str(folder))
    ids = [derived_id("dec", "desk", str(number), "") for number in range(count)]
    with Project.open(str(folder), ANN) as project:

        def write(transaction: Transaction) -> None:
            for number, item_id in enumerate(ids):
                transaction.put("decision", item_id, {"v": 1, "text": f"decision {number}", "author": "ann"})

        project.journal.mutate(write, ANN)
    return ids


def edit(folder: Path, item_id: str) -> None:
    (path,) = folder.glob(f".periplus/entities/**/{item_id}.json")
    path.write_text(path.read_text().replace("decision 7", "edited").replace("decision 0", "edited"))


def test_few_files_are_looked_at_by_who_asks(tmp_path: Path) -> None:
    (item_id,) = made(tmp_path, 1)
    edit(tmp_path, item_id)
    asked: list[bool] = []
    with Project.open(str(tmp_path), ANN) as project:
        project.look_elsewhere = lambda: asked.append(True)
        assert project.show(item_id).value["text"] == "edited"
    assert not asked


@pytest.mark.slow
def test_many_files_are_looked_at_elsewhere(tmp_path: Path) -> None:
    ids = made(tmp_path, MANY)
    asked: list[bool] = []
    with Project.open(str(tmp_path), ANN) as project:
        project.look_elsewhere = lambda: asked.append(True)
        edit(tmp_path, ids[7])
        assert project.show(ids[7]).value["text"] == "decision 7"
        assert project.show(ids[8]).value["text"] == "decision 8"
        assert asked == [True], "not at every question"
        project.look_elsewhere = None
        project.look()
        assert project.show(ids[7]).value["text"] == "edited"


@pytest.mark.slow
def test_desk_answers_with_what_its_looker_found(tmp_path: Path) -> None:
    ids = made(tmp_path, MANY)
    desk = Desk(lambda: Project.open(str(tmp_path), ANN))

    async def until_edited() -> str:
        ends = time.monotonic() + SECONDS
        while (found := await desk.ask(lambda project: str(project.show(ids[7]).value["text"]))) != "edited":
            assert time.monotonic() < ends, "the edit was never taken in"
        return found

    try:
        assert asyncio.run(desk.ask(lambda project: str(project.show(ids[7]).value["text"]))) == "decision 7"
        edit(tmp_path, ids[7])
        assert asyncio.run(until_edited()) == "edited"
    finally:
        desk.close()


@pytest.mark.slow
def test_store_that_goes_away_does_not_end_the_looker(tmp_path: Path) -> None:
    ids = made(tmp_path, MANY)
    desk = Desk(lambda: Project.open(str(tmp_path), ANN))

    def text(project: Project) -> str:
        return str(project.show(ids[7]).value["text"])

    try:
        assert asyncio.run(desk.ask(text)) == "decision 7"
        (tmp_path / ".periplus").rename(tmp_path / "aside")
        with pytest.raises(Exception, match="store"):
            asyncio.run(desk.ask(text))
        (tmp_path / "aside").rename(tmp_path / ".periplus")
        ends = time.monotonic() + SECONDS
        edit(tmp_path, ids[7])
        while asyncio.run(desk.ask(text)) != "edited":
            assert time.monotonic() < ends
    finally:
        desk.close()
