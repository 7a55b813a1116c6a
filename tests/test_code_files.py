"""Files of a project as pictures of it need them: with their sizes, and the times at which they changed."""

from __future__ import annotations

import os
import subprocess

import pytest

from code_page_project import make_shop
from periplus.code.code_map import CodeMap
from periplus.code.queries.change_times import change_times, head_commit
from periplus.code.queries.file_sizes import file_sizes, view_mark

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull}


def git(folder, *words, **environment):
    subprocess.run(["git", *words], cwd=folder, env=ENVIRONMENT | environment, check=True, capture_output=True)


@pytest.fixture
def shop(tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    make_shop(folder, ENVIRONMENT)
    return folder


def test_files_have_sizes_and_marks_of_change(shop, tmp_path):
    (shop / "notes.md").write_text("# Notes\n")
    with CodeMap(str(shop), str(tmp_path / "code.sqlite"), environment=ENVIRONMENT, budget_s=120) as opened:
        view = opened.view()
        found = {file.path: file for file in file_sizes(view)}
        mark = view_mark(view)
        assert found["src/shop/prices.py"][1:] == (271, 13, "python", "parsed", False)
        assert found["notes.md"][1:] == (8, 0, "", "unsupported", True)
        (shop / "src/shop/prices.py").write_text("VAT = 0.2\n")
        view = opened.view()
        assert view_mark(view) != mark
        assert {file.path: file for file in file_sizes(view)}["src/shop/prices.py"].is_changed


def test_times_of_change_are_those_of_the_last_commit(shop):
    (shop / "src/shop/prices.py").write_text("VAT = 0.2\n")
    (shop / "new\nline \x01123.py").write_text("x = 1\n")
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "More", GIT_COMMITTER_DATE="2030-01-01T00:00:00Z")
    found = change_times(str(shop), ENVIRONMENT)
    assert found["src/shop/prices.py"] == found["new\nline \x01123.py"] == 1893456000
    assert found["src/shop/cart.py"] < 1893456000
    assert change_times(str(shop), ENVIRONMENT, commits_max=1).keys() < found.keys()
    assert len(head_commit(str(shop), ENVIRONMENT)) == 40


def test_without_git_there_are_no_times(tmp_path):
    assert change_times(str(tmp_path), ENVIRONMENT) == {}
    assert head_commit(str(tmp_path), ENVIRONMENT) == ""
    git(tmp_path, "init", "-q")
    assert change_times(str(tmp_path), ENVIRONMENT) == {}
    assert head_commit(str(tmp_path), ENVIRONMENT) == ""
