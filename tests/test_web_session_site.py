"""Pages of sessions at the command line: one file, a folder of all, and `trail verify` of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cli_support import Shell, claude_session, codex_session
from session_support import Elements

NO_JINJA = "import sys; sys.modules['jinja2'] = None; from periplus.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def shell(tmp_path):
    folder, home = tmp_path / "engine", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    made = Shell(folder, home)
    made("init")
    made("trail", "import", claude_session(tmp_path / "a.jsonl"), codex_session(tmp_path / "b.jsonl"))
    return made


def trails(shell):
    return shell.json("trail", "list").trails


def exported(shell, *words):
    done = shell.json("trail", "export", "--all", "--format", "html", "site", *words)
    return done.written, done.unchanged, done.removed


def test_one_session_is_exported_and_verified(shell, tmp_path):
    name = trails(shell)[0].id
    done = shell("trail", "export", name, "--format", "html", "-o", "one.html", "--with-trail")
    assert "with the trail itself" in done.out
    assert "periplus trail verify one.html" in done.out
    assert shell("trail", "verify", "one.html").out.startswith("verified")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "one.html").write_bytes((shell.folder / "one.html").read_bytes())
    assert shell("trail", "verify", "one.html", cwd=elsewhere).out.startswith("verified")


def test_exit_codes_and_json_of_verify(shell, tmp_path):
    name = trails(shell)[0].id
    shell("trail", "export", name, "--format", "html", "--out", "one.html")
    assert shell.json("trail", "verify", "one.html").trails[0].page == "verified", "this store has the trail"
    alone = tmp_path / "alone"
    alone.mkdir()
    page = (shell.folder / "one.html").read_bytes()
    (alone / "one.html").write_bytes(page)
    told = shell.json("trail", "verify", "one.html", cwd=alone, code=1).trails[0]
    assert (told.page, told.ok, told.digest) == ("not verified", True, trails(shell)[0].value["digest"])
    done = shell("trail", "verify", "one.html", cwd=alone, code=1)
    assert done.out.startswith("not verified")
    assert "here is no store with it" in done.out
    (shell.folder / "one.html").write_bytes(page.replace(b"</h1>", b"!</h1>"))
    assert shell.json("trail", "verify", "one.html", code=3).trails[0].page == "wrong"
    assert shell("trail", "verify", "one.html", code=3).out.startswith("WRONG")


def test_standard_output_has_the_same_bytes(shell):
    name = trails(shell)[0].id
    shell("trail", "export", name, "--format", "html", "--out", "one.html")
    assert shell("trail", "export", name, "--format", "html").out == (shell.folder / "one.html").read_text()


def test_all_sessions_make_a_site(shell):
    assert "2 written, 0 unchanged" in shell("trail", "export", "--all", "--format", "html", "site").out
    site = shell.folder / "site"
    names = {path.name for path in site.iterdir()}
    pages = {f"{one.id}.html" for one in trails(shell)}
    assert names == {"index.html", "by-agent.html", "periplus-site.json", *pages}
    for path in site.glob("*.html"):
        found = Elements(path.read_text())
        assert found.scripts == 0
        assert {address for address in found.addresses if not address.startswith("#")} <= names
    for name in ("index.html", "by-agent.html"):
        assert pages <= set(Elements((site / name).read_text()).addresses)
    assert shell("trail", "verify", *site.glob("trl_*.html")).out.count("verified") == 2


def test_an_unchanged_session_is_not_written_again(shell, tmp_path):
    site = shell.folder / "site"
    assert exported(shell) == (2, 0, 0)
    times = {path.name: path.stat().st_mtime_ns for path in site.glob("*.html")}
    assert exported(shell) == (0, 2, 0)
    assert {path.name: path.stat().st_mtime_ns for path in site.glob("*.html")} == times
    (site / f"{trails(shell)[0].id}.html").unlink()
    shell("trail", "import", codex_session(tmp_path / "c.jsonl", prompt="Wind the clock", session="0199bbbb"))
    assert exported(shell) == (2, 1, 0)
    assert any("Wind the clock" in path.read_text() for path in site.glob("trl_*.html"))
    assert exported(shell, "--withhold", "text,title") == (3, 0, 0)
    assert not any("Wind the clock" in path.read_text() for path in site.glob("trl_*.html"))


def test_a_session_that_is_gone_leaves_the_site(shell):
    assert exported(shell) == (2, 0, 0)
    last = shell.json("log", "--type", "trail", "--limit", "1").records[0]
    shell("undo", "--seq", str(last.seq))
    assert exported(shell) == (0, 1, 1)
    assert len(list((shell.folder / "site").glob("trl_*.html"))) == 1


def test_a_folder_with_other_files_is_refused(shell):
    folder = shell.folder / "docs"
    folder.mkdir()
    (folder / "index.html").write_text("mine")
    shell.fails("trail", "export", "--all", "--format", "html", "docs", code=2, wrong="no export of sessions")
    assert (folder / "index.html").read_text() == "mine"
    (folder / "periplus-site.json").write_text('{"sessions":[{"file":"../x.html","key":"","bytes":1}]}')
    shell.fails("trail", "export", "--all", "--format", "html", "docs", code=3, wrong="outside")


def test_without_the_extra_the_error_says_what_to_install(shell):
    name = trails(shell)[0].id
    shell("trail", "export", name, "--format", "html", "--out", "one.html", "--with-trail")

    def without(*words):
        return subprocess.run(
            [sys.executable, "-c", NO_JINJA, *words], cwd=shell.folder, env=shell.environment(PYTHONPATH=os.pathsep.join(sys.path)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = without("trail", "export", name, "--format", "html", "--out", "two.html")
    assert done.returncode == 2
    assert "pip install 'periplus[web]'" in done.stderr
    done = without("trail", "verify", "one.html")
    assert done.returncode == 1
    assert "pip install 'periplus[web]'" in done.stdout
