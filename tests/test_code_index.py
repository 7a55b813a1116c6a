"""The index of the code map: what is parsed, when, and that it stays right whatever happens to the files."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest

from periplus.base.errors import NotFoundError
from periplus.code.code_map import CodeMap
from periplus.code.index.database import Database

ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
}


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True, env=ENVIRONMENT, capture_output=True)


def write(folder, files):
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


FILES = {
    "pkg/__init__.py": "from pkg.store import Store\n",
    "pkg/store.py": "class Store:\n    def load(self):\n        return helper()\n\ndef helper():\n    return 1\n",
    "pkg/app.py": "from pkg import Store\n\ndef main():\n    store = Store()\n    store.load()\n",
    "tests/test_app.py": "from pkg.app import main\n\ndef test_main():\n    main()\n",
    "README.md": "# readme\n",
}


@pytest.fixture
def worktree(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, FILES)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def opened(worktree, tmp_path, **more):
    return CodeMap(str(worktree), str(tmp_path / "cache" / "code.sqlite"), environment=ENVIRONMENT, budget_s=60, **more)


def places(code_map, name):
    return [(one.path, one.line, one.grade) for _, found in code_map.references(name) for one in found]


def test_references_cross_files_and_tests_are_found(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        assert places(code_map, "Store.load") == [("pkg/app.py", 5, "likely")]
        assert places(code_map, "pkg/store.py:Store") == [
            ("pkg/__init__.py", 1, "proven"),
            ("pkg/app.py", 1, "proven"),
            ("pkg/app.py", 4, "proven"),
        ]
        answer = code_map.impact(["pkg/store.py:helper"])
        assert [(str(one.symbol), one.depth) for one in answer.impact.dependents] == [
            ("pkg/store.py:Store.load", 1),
            ("pkg/app.py:main", 2),
            ("tests/test_app.py", 3),
            ("tests/test_app.py:test_main", 3),
        ]
        assert [command.words for command in answer.commands] == [
            ("python", "-m", "pytest", "tests/test_app.py::test_main")
        ]


def test_an_edit_is_seen_at_once_and_parses_one_file(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        assert code_map.status().languages["python"][0] == 4
        assert code_map.freshness.parsed == 4
        write(worktree, {"pkg/other.py": "from pkg.store import helper\n\nvalue = helper()\n"})
        assert ("pkg/other.py", 3, "proven") in places(code_map, "helper")
        assert (code_map.freshness.parsed, code_map.freshness.changed) == (1, 1)
        (worktree / "pkg/other.py").unlink()
        assert places(code_map, "helper") == [("pkg/store.py", 3, "proven")]
        assert code_map.freshness.parsed == 0


def test_a_switch_of_branches_parses_a_content_once(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        code_map.status()
        git(worktree, "checkout", "-qb", "other")
        write(worktree, {"pkg/store.py": "def helper():\n    return 2\n"})
        git(worktree, "commit", "-qam", "other")
        assert code_map.outline("pkg/store.py").symbols[0].kind == "function"
        assert code_map.freshness.parsed == 1
        git(worktree, "checkout", "-q", "main")
        assert code_map.outline("pkg/store.py").symbols[0].kind == "class"
        git(worktree, "checkout", "-q", "other")
        assert len(code_map.outline("pkg/store.py").symbols) == 1
        assert code_map.freshness.parsed == 0


def test_worktrees_share_what_is_parsed(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        code_map.status()
    git(worktree, "worktree", "add", "-q", str(tmp_path / "second"), "-b", "second")
    with opened(tmp_path / "second", tmp_path) as code_map:
        assert code_map.status().languages["python"][0] == 4
        assert code_map.freshness.parsed == 0


def test_a_damaged_index_is_made_anew(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        code_map.status()
    index = tmp_path / "cache" / "code.sqlite"
    for damage in (b"no database", index.read_bytes()[:5000] + bytes(4000)):
        for ending in ("-wal", "-shm"):
            (tmp_path / "cache" / f"code.sqlite{ending}").unlink(missing_ok=True)
        index.write_bytes(damage)
        with opened(worktree, tmp_path) as code_map:
            assert places(code_map, "Store.load") == [("pkg/app.py", 5, "likely")]


def test_an_index_of_another_version_is_made_anew(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        code_map.status()
    index = str(tmp_path / "cache" / "code.sqlite")
    with sqlite3.connect(index) as database:
        database.execute("PRAGMA user_version=999")
    database.close()
    with opened(worktree, tmp_path) as code_map:
        code_map.status()
        assert code_map.freshness.parsed == 4


def test_a_spent_budget_is_said_and_the_rest_follows(worktree, tmp_path):
    asked = []
    index = str(tmp_path / "cache" / "code.sqlite")
    with CodeMap(
        str(worktree), index, environment=ENVIRONMENT, budget_s=0.0, go_on=lambda: asked.append(1)
    ) as code_map:
        code_map.status()
        assert code_map.freshness.waiting + code_map.freshness.parsed == 4
        assert asked == [1]
    with opened(worktree, tmp_path) as code_map:
        code_map.status()
        assert code_map.freshness.waiting == 0


def test_a_process_that_dies_while_parsing_leaves_a_valid_index(worktree, tmp_path):
    """The file ends whatever parses it: its parser is replaced by one that aborts, as a grammar's bug would."""
    index = tmp_path / "cache" / "code.sqlite"
    grammar = tmp_path / "grammar"
    grammar.mkdir()
    (grammar / "tree_sitter_go").mkdir()
    (grammar / "tree_sitter_go" / "__init__.py").write_text("import os\n\ndef language():\n    os.abort()\n")
    write(worktree, {"a.go": "package a\n", "b.go": "package b\n"})
    code = (
        "import os, sys\nfrom periplus.code.code_map import CodeMap\n"
        f"m = CodeMap({str(worktree)!r}, {str(index)!r}, environment=dict(os.environ), budget_s=60)\n"
        "print(m.status().languages['python'][0], [path for path, why in m.status().failed])\n"
    )
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "PYTHONPATH": f"{grammar}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    first = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert first.returncode < 0
    second = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert second.stdout == "4 ['a.go', 'b.go']\n"
    assert Database(str(index)).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_paths_of_any_bytes_are_listed(worktree, tmp_path):
    name = os.fsdecode(b"odd\n\xff name.py")
    (worktree / name).write_text("def odd():\n    pass\n")
    with opened(worktree, tmp_path) as code_map:
        assert [one.id.path for one in code_map.outline(name).symbols] == [name]


def test_a_link_is_not_followed(worktree, tmp_path):
    write(tmp_path, {"outside/secret.py": "def secret():\n    pass\n"})
    os.symlink(tmp_path / "outside", worktree / "linked")
    os.symlink(tmp_path / "outside" / "secret.py", worktree / "alias.py")
    os.symlink(".", worktree / "loop")
    with opened(worktree, tmp_path) as code_map:
        assert code_map.status().languages["python"][0] == 4


def test_names_and_words_find_symbols(worktree, tmp_path):
    write(
        worktree,
        {
            "pkg/text.py": "# not the doc\n\nLIMIT = 3  # neither\ndef split_words(text):\n"
            '    """Cut a sentence into its words."""\n    return text.split()\n'
        },
    )
    with opened(worktree, tmp_path) as code_map:
        for typed in (
            "split_words",
            "splitWords",
            "split_wo",
            "words split"[6:],
            "splitwrods",
            "pkg/text.py:split_words",
            "text.split_words",
        ):
            assert [str(one.id) for one in code_map.find(typed).symbols][:1] == ["pkg/text.py:split_words"], typed
        assert code_map.find("split_words", kind="class").total == 0
        assert code_map.find("split_words", path="tests").total == 0
        assert [str(hit.symbol.id) for hit in code_map.search("cut sentences in words")][:1] == [
            "pkg/text.py:split_words"
        ]
        assert code_map.unsearchable == 0
        assert [one.doc for one in code_map.find("LIMIT").symbols] == [""]
        assert [one.doc for one in code_map.find("split_words").symbols] == ["Cut a sentence into its words."]


def test_a_script_without_extension_is_told_by_its_first_line(worktree, tmp_path):
    write(worktree, {"bin/deploy": "#!/usr/bin/env bash\nship() {\n  echo ship\n}\nship\n", "LICENSE": "text\n"})
    git(worktree, "add", "-A")
    with opened(worktree, tmp_path) as code_map:
        assert places(code_map, "bin/deploy:ship") == [("bin/deploy", 5, "proven")]
        assert code_map.status().languages["bash"][0] == 1


def test_attributes_count_at_once_for_files_that_did_not_change(worktree, tmp_path):
    made = "# Code generated by a tool. DO NOT EDIT.\ndef made():\n    pass\n"
    write(worktree, {"pkg/made.py": made, "pkg/same.py": made})
    git(worktree, "add", "-A")
    git(worktree, "commit", "-qm", "made")
    with opened(worktree, tmp_path) as code_map:
        assert code_map.find("made").total == 0
        (worktree / ".gitattributes").write_text("pkg/made.py -linguist-generated\npkg/app.py linguist-vendored\n")
        assert [str(one.id) for one in code_map.find("made").symbols] == ["pkg/made.py:made"]
        assert code_map.status().unparsed == {"generated": 1, "unsupported": 2, "vendored": 1}
        (worktree / ".gitattributes").unlink()
        assert code_map.find("made").total == 0
        assert code_map.find("main").total == 2  # the function and its test


def test_a_name_that_is_not_there_is_answered_with_the_nearest(worktree, tmp_path):
    with opened(worktree, tmp_path) as code_map:
        with pytest.raises(NotFoundError) as caught:
            code_map.references("pkg/store.py:hepler")
        assert "pkg/store.py:helper" in caught.value.mend
