"""What a person is told to type works as it is told: in a project whose path has blanks, and from one of its folders."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from cli_support import Shell, git, make_repository


@pytest.fixture
def shop(tmp_path):
    """A project with a store at a path with a blank, in git; beside it lies what an unquoted path would name."""
    folder = make_repository(tmp_path / "my shop")
    (folder / "src").mkdir()
    (folder / "src" / "a.txt").write_text("a\n")
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "letter.txt").write_text("not to be touched\n")
    (tmp_path / "home").mkdir()
    shell = Shell(folder, tmp_path / "home")
    shell("init")
    shell("remember", "The till is closed at six", "--type", "decision")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "store")
    return shell


def typed(command, shell, cwd):
    names = {f"GIT_{who}_{what}": "ada" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["sh", "-c", command], cwd=cwd, env=shell.environment(**names), capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout


def test_to_remove_a_store_that_was_made_below_another_removes_that_one(shop):
    below = shop.folder / "src"
    git(below, "init", "-q")
    said = shop("init", cwd=below).err
    assert f"the parent folder has a store, {shop.folder}/.periplus" in said
    typed(re.search(r"rm -r .*$", said, re.MULTILINE)[0], shop, below)
    assert not (below / ".periplus").exists()
    assert (shop.folder / ".periplus" / "config.toml").exists()
    assert (shop.folder.parent / "my" / "letter.txt").exists()


def test_to_shut_others_out_changes_the_store_and_nothing_else(shop):
    letter = shop.folder.parent / "my" / "letter.txt"
    letter.chmod(0o666)
    (shop.folder / ".periplus" / "entities").chmod(0o777)
    (key,) = (shop.folder / ".periplus" / "journal" / "keys").glob("*.private")
    key.chmod(0o640)
    mends = [one.next for one in shop.json("doctor", code=1).problems]
    assert len(mends) == 2
    for mend in mends:
        typed(mend, shop, shop.folder / "src")
    assert shop("doctor")
    assert letter.stat().st_mode & 0o777 == 0o666


def test_what_sparse_checkout_took_away_is_brought_from_any_folder(shop):
    git(shop.folder, "sparse-checkout", "set", "src")
    said = shop.fails("status", code=2, wrong="sparse-checkout leaves out", cwd=shop.folder / "src").err
    typed(re.search(r"`(git .*?)`", said)[1], shop, shop.folder / "src")
    assert "closed at six" in shop("recall", "till", cwd=shop.folder / "src").out


def test_the_settings_of_two_stores_that_were_joined_are_added_from_any_folder(shop, tmp_path):
    other = tmp_path / "your shop"
    git(tmp_path, "clone", "-q", shop.folder, other)
    git(other, "reset", "-q", "--hard", "HEAD~1")
    git(other, "remote", "remove", "origin")  # else the store is known from there
    bob = Shell(other, tmp_path / "home")
    bob("init")
    bob("remember", "The till counts in cents", "--type", "decision")
    git(other, "add", "-A")
    git(other, "commit", "-q", "-m", "another store")
    with pytest.raises(subprocess.CalledProcessError):
        git(other, "pull", "-q", "--no-rebase", os.fspath(shop.folder), "HEAD")
    (other / "src").mkdir(exist_ok=True)
    said = bob("init", "--join", cwd=other / "src").out
    typed(re.search(r"git add \S+", said)[0].rstrip(","), bob, other / "src")
    assert git(other, "diff", "--name-only", "--diff-filter=U") == ""
    old = git(other, "rev-parse", "HEAD").strip()
    git(other, "commit", "-q", "-a", "-m", "one store")
    bob("sync", "--with", shop.folder / ".periplus")
    git(other, "checkout", "-q", old)
    (other / "src").mkdir(exist_ok=True)
    told = bob("doctor", cwd=other / "src", code=3)
    typed(re.search(r"`(git .*?)`", told.out + told.err)[1], bob, other / "src")
    assert "closed at six" in bob("recall", "till", cwd=other / "src").out


def test_where_git_holds_what_was_redacted_is_asked_from_any_folder(shop, tmp_path):
    (tmp_path / "secret").write_text("closed at six")
    said = shop("redact", "--secret-file", tmp_path / "secret", "--reason", "private", cwd=shop.folder / "src").out
    command = re.search(r"`(git log --all.*?)`", said)[1]
    assert "store" in typed(command, shop, shop.folder / "src")


def test_who_writes_to_a_name_that_nobody_has_is_told_who_is_near(shop):
    shop("remember", "The till is green", "--as", "bob")
    shop("remember", "The till is red", "--as", "agent-1")
    for words in (["inbox", "send"], ["inbox", "send", "--json"]):
        said = shop(*words, "Bob", "Which colour?").err
        assert said.startswith("periplus: nobody here is called Bob, but somebody is called bob")
    command = re.search(r"periplus (inbox send .*)$", said, re.MULTILINE)[1].split()
    assert shop(*command).err == ""
    assert len(shop.json("inbox", "mail", "--as", "bob").messages) == 1
    said = shop("handoff", "write", "Paint it", "--to", "bobb").err
    command = re.search(r"periplus (handoff write .*)$", said, re.MULTILINE)[1].replace("'…'", "Paint-it").split()
    assert shop(*command).err == ""
    assert [one.recipient for one in shop.json("handoff", "list").handoffs] == ["bob"]
    for name in ("bob", "agent-2", "codex"):
        assert shop("inbox", "send", name, "Nobody is near, or it is he").err == ""
    assert shop("handoff", "write", "For anybody").err == ""
