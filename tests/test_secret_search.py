"""``redact --find``: what a store holds by today's rules, from before there were such rules."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from cli_support import Shell, claude_session, git
from periplus.base.text import secrets
from periplus.project import Project
from periplus.project.care.secret_search import find_in_store
from support import WRITER

RUNNER = "gl" + "rt-" + "q7Zt0Xw2Lk9Vb4Nc8Rd1"
HOOK = "whs" + "ec_" + "Hs6Jf3Gy5Mpq7Zt0Xw2Lk9Vb4Nc8Rd1"
MODEL = "xa" + "i-" + "Vb4Nc8Rd1Hs6Jf3Gy5Mpq7Zt0Xw2Lk9" * 2
SPOOLED = "r8" + "_" + "Jf3Gy5Mpq7Zt0Xw2Lk9Vb4Nc8Rd1Hs6Jf3Gy"
CLONED = "da" + "pi" + "3fa94c1be07d52a86b1fc09e4d7728ab"
LINE = "MIIEpAIBAAKCAQEAq7Zt0Xw2Lk9Vb4Nc8Rd1Hs6Jf3Gy5Mpq7Zt0Xw2Lk9Vb4N\n"
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{LINE * 3}-----END RSA {'PRIVATE'} KEY-----"


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A store that was written when no rule knew these."""
    home, folder, remote = tmp_path / "home", tmp_path / "project", tmp_path / "remote.git"
    for one in (home, folder, remote):
        one.mkdir()
    shell = Shell(folder, home)
    with monkeypatch.context() as before:
        before.setattr(secrets, "find_secrets", lambda _text: [])
        shell("init")
        shell("remember", f"the runner registers with {RUNNER}", "--type", "trap", "--insist")
        shell("remember", f"the runner of the other stage has {RUNNER}, too, and {CLONED}", "--insist")
        claude_session(folder / "run.jsonl", prompt=f"why does {HOOK} fail?\n{PEM}", steps=3)
        shell("trail", "import", "run.jsonl")
        (folder / "run.jsonl").unlink()
        shell("context", "commit", "--from", "memory", "-m", f"with {MODEL}", "--insist")
        git(remote, "init", "-q", "--bare")
        shell("sync", "--with", str(remote))
    spool = folder / ".periplus" / "hooks"
    spool.mkdir(exist_ok=True)
    (spool / "left.txt").write_text(json.dumps({"said": f"run with {SPOOLED}"}))
    return shell


def everything_in(folder):
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                yield os.path.join(at, name), file.read()


def test_each_is_found_where_it_stands_and_none_is_shown(old):
    done = old("redact", "--find", "--json")
    found = {row["kind"]: row for row in json.loads(done.out)["secrets"]}
    assert {"gitlab_token", "stripe_key", "private_key", "replicate_token", "databricks_token"} <= found.keys()
    where = {kind: {place["kind"] for place in row["places"]} for kind, row in found.items()}
    assert {"record", "entity"} <= where["gitlab_token"]
    assert "trail" in where["stripe_key"]
    assert "trail" in where["private_key"]
    assert where["replicate_token"] == {"spool"}
    assert "git" in where["databricks_token"]
    assert found["gitlab_token"]["count"] >= 4
    assert found["private_key"]["characters"] == len(PEM)
    text = old("redact", "--find").out
    for secret in (RUNNER, HOOK, SPOOLED, CLONED, PEM[40:80], MODEL):
        assert secret not in done.out + text
        assert secret[-12:] not in done.out + text
    assert "periplus redact --find --take ID" in text


def test_what_is_chosen_is_taken_out_and_nothing_else(old):
    rows = json.loads(old("redact", "--find", "--json").out)["secrets"]
    by_kind = {row["kind"]: row for row in rows}
    chosen = [by_kind["gitlab_token"]["id"], by_kind["private_key"]["id"]]
    dry = json.loads(old("redact", "--find", "--take", chosen[0], "--dry-run", "--json").out)
    assert dry["taken"][chosen[0]]["dry_run"]
    assert any(RUNNER.encode() in data for _, data in everything_in(old.folder / ".periplus"))
    done = json.loads(
        old("redact", "--find", "--take", chosen[0], "--take", chosen[1], "--reason", "leaked", "--json").out
    )
    assert list(done["taken"]) == sorted(chosen, key=[row["id"] for row in rows].index)
    assert all(one["records"] or one["objects"] for one in done["taken"].values())
    shutil.rmtree(
        old.folder / ".periplus" / "remotes", ignore_errors=True
    )  # told as not reached: the next sync sweeps it
    for path, data in everything_in(old.folder / ".periplus"):
        assert RUNNER.encode() not in data, path
        assert PEM[40:80].encode() not in data, path
    left = {row["kind"] for row in json.loads(old("redact", "--find", "--json").out)["secrets"]}
    assert {"stripe_key", "replicate_token"} <= left
    assert "gitlab_token" not in left
    assert "sound" in old("doctor").out


def test_all_go_at_once(old):
    done = old("redact", "--find", "--take", "all")
    assert "not reached" in done.out  # the spool, the remote
    assert "hooks/left.txt" in done.out
    kinds = {
        place["kind"] for row in json.loads(old("redact", "--find", "--json").out)["secrets"] for place in row["places"]
    }
    assert kinds <= {"spool", "git"}


def test_ids_stay_the_same_and_say_nothing(old):
    first = [row["id"] for row in json.loads(old("redact", "--find", "--json").out)["secrets"]]
    assert first == [row["id"] for row in json.loads(old("redact", "--find", "--json").out)["secrets"]]
    assert all(len(one) == 8 for one in first)
    refused = old("redact", "--find", "--take", "00000000", code=1)
    assert "no secret with the id" in refused.err
    assert "Nothing was changed." in refused.err


def test_a_clean_store_says_so(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    shell = Shell(folder, home)
    shell("init")
    shell("remember", "nothing of that kind")
    assert shell("redact", "--find").out.startswith("No secret was found in records, objects")
    assert json.loads(shell("redact", "--find", "--json").out) == {
        "schema": "periplus.redact.find/1",
        "secrets": [],
        "taken": {},
    }
    assert "--take goes with --find" in shell("redact", "--take", "all", code=2).err
    assert "--reason" in shell("redact", "--seq", "1", code=2).err
    assert (
        "--find cannot be combined with --secret-file or --seq" in shell("redact", "--find", "--seq", "1", code=2).err
    )


def test_a_text_behind_its_length_in_bytes_is_found(tmp_path):
    """A length that looks like a letter of the text."""
    root = Project.init(os.fspath(tmp_path)).root
    with Project(root, WRITER) as project:
        project.journal.objects.put(b"\xff\x00\x01" + bytes([len(MODEL)]) + MODEL.encode() + b"\x00")
        (one,) = find_in_store(project, lambda _done, _total: None)
        assert (one.kind, one.text) == ("xai_key", MODEL)
