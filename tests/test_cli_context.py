"""``periplus context`` as a person types it: what is shown, as JSON, through a pipe, on a narrow terminal, over a socket."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from cli_support import SECRET, Shell, decoded
from context_proxy import Proxy
from periplus.base.errors import RefusedError
from periplus.cli.context.schemas import ContextExpandEndOut
from periplus.context.model import Atom, Context
from periplus.context.remotes.address import parse_address
from periplus.context.remotes.async_client import ContextClient
from periplus.context.stores.disk_store import DiskStore
from periplus.journal import Writer
from periplus.project import Project
from test_cli_terminal import on_terminal

ADA = Writer("ada", "who_0000000000000000", "", 1)
WHO = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path / "shop", tmp_path / "home")
    made.folder.mkdir()
    Project.init(os.fspath(made.folder))
    return made


def lines(*texts, **fields):
    return "".join(json.dumps({"content": text, **fields}) + "\n" for text in texts)


def documents(text):
    return [decoded(line) for line in text.splitlines()]


@pytest.mark.slow
def test_every_action_answers_in_its_document(shell):
    first = shell.json("context", "commit", "-", "-m", "begin", stdin=lines("one", "two", relevance=0.75, tags=["t"]))
    assert (first.changed, first.added, first.live, first.base) == (True, 2, 2, "")
    assert not shell.json("context", "commit", "-", stdin=lines("one")).changed
    *atoms, end = documents(shell("context", "expand", "--json").out)
    assert end == ContextExpandEndOut(first.context, 2, 0, 0, whole=True)
    assert [(one.atom.content, one.atom.relevance, one.atom.tags) for one in atoms] != []
    assert {one.atom.content for one in atoms} == {"one", "two"}
    assert {(one.atom.relevance, tuple(one.atom.tags), one.atom.origin) for one in atoms} == {
        (0.75, ("t",), first.context)
    }
    digest = next(one.atom.digest for one in atoms if one.atom.content == "one")
    pair = json.dumps({"atoms": [digest, 1], "relations": {"then": [[0, 1]]}})
    (shell.folder / "pairs.jsonl").write_text(pair + "\n")
    second = shell.json("context", "commit", "-", "--molecules", "pairs.jsonl", stdin=lines("three"))
    assert (second.added, second.molecules, second.base) == (1, 1, first.context)
    log = shell.json("context", "log", "--limit", "1")
    assert (log.contexts[0].context, log.contexts[0].refs, log.more) == (second.context, ["main"], True)
    assert [one.writer for one in shell.json("context", "log", "--ref-moves").moves] == ["ada", "ada"]
    shown = shell.json("context", "show", "main~1")
    assert (shown.context.message, len(shown.atoms)) == ("begin", 2)
    assert [one.content for one in shell.json("context", "diff", "main~1").added] == ["three"]
    blamed = shell.json("context", "blame", digest[:8])
    assert [(one.kind, one.author) for one in blamed.events] == [("brought", "ada")]
    found = shell.json("context", "bisect", "--has", "THREE")
    assert found.first.context == second.context
    assert shell.json("context", "bisect", "--atom", digest).first.context == first.context
    assert shell.json("context", "bisect", "--has", "nowhere", code=1).first is None
    chosen = shell.json("context", "select", "--query", "two", "--matching", "--explain")
    assert [one.content for one in chosen.atoms] == ["two"]
    assert {one.cause for one in chosen.reasons} >= {"fits", "no_match"}
    *chunks, end = documents(shell("context", "stream", "--atoms", "2", "--json").out)
    assert ([len(one.atoms) for one in chunks], end.atoms, end.chunks) == ([2, 1], 3, 2)
    gone = shell.json("context", "commit", "--remove", digest[:8])
    assert (gone.removed, gone.live) == (1, 2)
    one, end = documents(shell("context", "expand", "--limit", "1", "--json").out)
    assert (bool(one.atom), end.atoms, end.whole) == (True, 1, False)
    *_, broken, end = documents(shell("context", "expand", "--json").out)
    assert broken.broken[1] == digest
    assert (end.context, end.atoms, end.molecules, end.broken, end.whole) == (gone.context, 2, 0, 1, True)
    assert "whole" not in shell("context", "expand").out
    refs = shell.json("context", "refs", "--set", "side", "main~2").refs
    assert [(one.name, one.live) for one in refs] == [("main", 2), ("side", 2)]
    shell.json("context", "commit", "-", "--ref", "side", stdin=lines("four"))
    assert shell.json("context", "merge", "side", "--dry-run").outcome == "merged"
    merged = shell.json("context", "merge", "side")
    assert (merged.outcome, merged.ours) == ("merged", gone.context)
    assert shell.json("context", "refs", "--end", "side").refs[0].context == merged.context
    assert shell.json("context", "gc", "--prune").parked == 0


def test_no_refs_are_nothing_found_and_the_last_one_ends(shell):
    assert shell("context", "refs", code=1).out.startswith("No refs yet. Next: ")
    assert shell.json("context", "refs", code=1).refs == []
    shell.json("context", "commit", "-", "--ref", "main", stdin=lines("one"))
    assert len(shell.json("context", "refs").refs) == 1
    assert shell.json("context", "refs", "--end", "main").refs == []
    assert shell("context", "refs", code=1).out.startswith("No refs yet. Next: ")


@pytest.mark.slow
def test_commands_judge_in_a_bisection(shell):
    for text in ("one", "two", "three"):
        shell("context", "commit", "-", stdin=lines(text))
    test = "import sys; sys.exit('two' not in sys.stdin.read())"
    found = shell.json("context", "bisect", "--json", "--run", sys.executable, "-c", test)
    assert found.first.live == 2
    early = "import sys; sys.exit(0)"
    assert shell("context", "bisect", "--run", sys.executable, "-c", early).code == 0
    shell.fails(
        "context",
        "bisect",
        "--run",
        sys.executable,
        "-c",
        "import sys; sys.exit(127)",
        code=2,
        wrong="is neither pass nor fail",
    )


def test_what_is_known_comes_from_memory_and_trails(shell):
    nothing = shell("context", "commit", "--from", "memory").out
    assert nothing == "Nothing to commit: no atoms were given, and the ref main does not exist.\n"
    shell("remember", "Passwords are hashed with argon2id", "--type", "decision")
    with Project.open(os.fspath(shell.folder), ADA) as project, project.record(title="t", checkpoints=False) as run:
        run.step("PROMPT", text="Add a reset of passwords")
    (trail,) = shell.json("trail", "list").trails
    done = shell.json("context", "commit", "--from", "memory", "--from", "trail", trail.id)
    assert done.added == 2
    assert "Nothing new" in shell("context", "commit", "--from", "memory").out
    assert f"{trail.id}#0" in shell("context", "expand").out


def test_secrets_are_refused_unless_somebody_insists(shell):
    done = shell.fails("context", "commit", "-", code=5, wrong="line 1, content", stdin=lines(f"the key is {SECRET}"))
    assert SECRET not in done.err
    assert not (shell.folder / ".periplus/objects").exists()
    shell("context", "commit", "-", "--allow-secret", stdin=lines(f"the key is {SECRET}"))


def test_a_secret_in_a_message_is_refused_before_a_byte_of_it_is_written(shell):
    shell("context", "commit", "-", stdin=lines("common"))
    shell("context", "refs", "--set", "side", "main")
    shell("context", "commit", "-", "--ref", "side", stdin=lines("theirs"))
    shell("context", "commit", "-", stdin=lines("ours"))
    folder = shell.folder / ".periplus"
    before = sorted(folder.rglob("*"))
    for words in (("merge", "side"), ("commit", "-")):
        done = shell.fails("context", *words, "-m", f"why {SECRET}", code=5, wrong="message", stdin=lines("more"))
        assert SECRET not in done.err
    shell.fails("context", "merge", "side", "-m", "m" * 2_001, code=2, wrong="message: over 2,000 characters")
    assert sorted(folder.rglob("*")) == before
    assert shell.json("context", "merge", "side", "-m", "both").outcome == "merged"


def test_whoever_stops_reading_a_stream_has_seen_enough(shell):
    with Project.open(os.fspath(shell.folder), ADA) as project:
        library = project.contexts.library
        head = library.commit(Context(None, tuple(Atom(f"atom {number}") for number in range(20_000))))
        project.contexts.set_ref("main", head)
    process = shell.start("context", "stream", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = decoded(process.stdout.readline())
    process.stdout.close()
    assert (process.wait(60), process.stderr.read()) == (0, b"")
    process.stderr.close()
    assert len(first.atoms) == 64
    rest = documents(shell("context", "stream", "--resume", "1", "--chunks", "1", "--json").out)
    assert [(one.chunk, one.start) for one in rest] == [(1, 64)]


@pytest.mark.slow
def test_it_fits_a_narrow_terminal_and_has_no_colour_where_none_is_wanted(shell):
    shell("context", "commit", "-", "-m", "why " * 40, stdin=lines("short", source="src/" + "deep/" * 30, tags=["tag"]))
    for words in (["log"], ["refs"], ["show"], ["expand"], ["log", "--ref-moves"]):
        for how in ("always", "never"):
            raw, _ = on_terminal(shell, "context", *words, "--color", how, width=50)
            assert ("\x1b[" in raw) == (how == "always"), words
    for words in (["log"], ["refs"], ["expand"], ["log", "--ref-moves"]):
        _, seen = on_terminal(shell, "context", *words, width=50)
        assert max(map(len, seen.splitlines())) <= 50, words
    assert "\x1b" not in shell("context", "expand").out


def test_a_ref_that_clones_moved_apart_is_shown_and_merged(shell, tmp_path):
    shell("context", "commit", "-", stdin=lines("common"))
    shell("export", tmp_path / "store.zip")
    (tmp_path / "b").mkdir()
    shell("import", tmp_path / "store.zip", tmp_path / "b")
    other = Shell(tmp_path / "b", tmp_path / "home")
    shell("context", "commit", "-", stdin=lines("ours"))
    other("context", "commit", "-", stdin=lines("theirs"))
    assert "context_ref ref_" in shell("sync", "--with", tmp_path / "b").out
    (conflict,) = shell.json("status").conflicts
    assert "`periplus context merge --ref main` ends it" in shell("show", conflict).out
    told = shell("context", "refs").out
    assert "diverged between two clones: periplus context merge --ref main" in told
    shell.fails("context", "commit", "-", code=5, wrong="moved apart", stdin=lines("over it"))
    (ref,) = shell.json("context", "refs").refs
    assert len(ref.apart) == 2
    assert shell.json("context", "merge").outcome == "merged"
    assert len(shell.json("context", "refs").refs[0].apart) == 1
    *atoms, end = documents(shell("context", "expand", "--json").out)
    assert end.whole
    assert {one.atom.content for one in atoms} == {
        "common",
        "ours",
        "theirs",
    }


@pytest.mark.slow
@pytest.mark.parametrize("words", [("merge", "--ref", "side"), ("refs", "--end", "side")])
def test_a_ref_that_one_clone_ended_and_another_moved_is_shown_and_kept_or_ended(shell, tmp_path, words):
    shell("context", "commit", "-", stdin=lines("common"))
    shell("context", "refs", "--set", "side", "main")
    shell("export", tmp_path / "store.zip")
    (tmp_path / "b").mkdir()
    shell("import", tmp_path / "store.zip", tmp_path / "b")
    other = Shell(tmp_path / "b", tmp_path / "home")
    moved = shell.json("context", "commit", "-", "--ref", "side", stdin=lines("ours")).context
    other("context", "refs", "--end", "side")
    shell("sync", "--with", tmp_path / "b")
    told = shell("context", "refs").out
    assert f"`periplus context {' '.join(words)}`" in told
    assert [one.ended_apart for one in shell.json("context", "refs").refs] == [False, True]
    (conflict,) = shell.json("status").conflicts
    assert "`periplus context merge --ref side` ends it" in shell("show", conflict).out
    if words[0] == "merge":
        assert shell.json("context", *words, "--dry-run").outcome == "kept"
        assert len(shell.json("status").conflicts) == 1
    shell("context", *words)
    assert shell.json("status").conflicts == []
    shell("sync", "--with", tmp_path / "b")
    for one in (shell, other):
        stands = {each.name: each.context for each in one.json("context", "refs").refs}
        assert one.json("status").conflicts == []
        assert stands.get("side") == (moved if words[0] == "merge" else None)


@pytest.mark.parametrize(
    ("dated", "told", "relevance"),
    [
        ({}, "neither is later, so the greater value is kept", 0.9),
        ({"timestamp": "2026-01-01T00:00:00Z"}, "the later value is kept", 0.1),
    ],
)
def test_how_two_annotations_were_settled_is_told(shell, dated, told, relevance):
    shell("context", "commit", "-", stdin=lines("it", timestamp="2025-01-01T00:00:00Z"))
    shell("context", "refs", "--set", "side", "main")
    shell("context", "commit", "-", "--ref", "side", stdin=lines("it", relevance=0.1, **dated))
    shell("context", "commit", "-", stdin=lines("it", relevance=0.9))
    assert f"both annotated relevance: {told}" in shell("context", "merge", "side").out
    (atom, _) = documents(shell("context", "expand", "--json").out)
    assert atom.atom.relevance == relevance


def test_what_is_next_after_a_pull_or_a_push_can_be_typed_as_it_is_told(shell, tmp_path):
    shell("context", "commit", "-", stdin=lines("common"))
    shell("export", tmp_path / "store.zip")
    folder = tmp_path / "an other"
    folder.mkdir()
    shell("import", tmp_path / "store.zip", folder)
    other = Shell(folder, tmp_path / "home")
    shell("context", "commit", "-", stdin=lines("ours"))
    other("context", "commit", "-", stdin=lines("theirs"))
    told = shell.fails("context", "push", folder, code=5, wrong="does not descend from").err
    told = shell(*shlex.split(told.partition("`")[2].partition("`")[0])[1:], code=5).out
    assert len(next_of(told)) == 5  # with the context that came
    shell("sync", "--with", folder)  # the ref stands at two places here now
    told = shell("context", "pull", folder, code=5).out
    assert next_of(told) == ["context", "merge", "--ref", "main"]
    shell(*next_of(told))
    assert "Nothing new: main is already on" in shell("context", "pull", folder).out


def test_a_folder_of_a_project_is_its_store_whatever_else_lies_in_it(shell, tmp_path):
    shell("context", "commit", "-", stdin=lines("one"))
    (tmp_path / "b").mkdir()
    other = Shell(tmp_path / "b", tmp_path / "home")
    other("context", "clone", shell.folder)
    for name in ("objects", "refs"):
        (shell.folder / name).mkdir()
    before = sorted(shell.folder.iterdir())
    pushed = other.json("context", "commit", "-", stdin=lines("two")).context
    other("context", "push", shell.folder)
    assert [one.context for one in shell.json("context", "refs").refs] == [pushed]
    assert sorted(shell.folder.iterdir()) == before
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "bare"], check=True)
    other.fails("context", "push", tmp_path / "bare", code=2, wrong="there is no store in")


def test_a_worktree_is_the_store_of_its_project(shell, tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", shell.folder, *WHO, *words], check=True, capture_output=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "the settings")
    git("worktree", "add", tmp_path / "linked")
    head = shell.json("context", "commit", "-", stdin=lines("one")).context
    (tmp_path / "b").mkdir()
    other = Shell(tmp_path / "b", tmp_path / "home")
    assert other.json("context", "clone", tmp_path / "linked").refs == {"main": head}
    pushed = other.json("context", "commit", "-", stdin=lines("two")).context
    before = sorted((tmp_path / "linked").rglob("*"))
    assert other.json("context", "push", tmp_path / "linked").previous == head
    assert [one.context for one in shell.json("context", "refs").refs] == [pushed]
    assert sorted((tmp_path / "linked").rglob("*")) == before


def test_a_folder_of_contexts_without_a_project_is_pushed_to(shell, tmp_path):
    pushed = shell.json("context", "commit", "-", stdin=lines("one")).context
    with contextlib.closing(DiskStore(os.fspath(tmp_path / "apart"))) as store:
        store.set_ref("begun", store.commit(Context(atoms=(Atom("before"),))))
        shell("context", "push", tmp_path / "apart")
        assert store.refs()["main"].hex() == pushed
    assert shell.json("context", "pull", tmp_path / "apart", "begun").outcome == "moved"


def next_of(told):
    return shlex.split(told.partition("Next: ")[2])[1:]


@contextlib.contextmanager
def serving(shell, *words):
    process = shell.start("context", "serve", "--json", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        addresses = [decoded(process.stdout.readline()).address for _ in range(2 if "--tcp" in words else 1)]
        yield process, addresses[0]
    finally:
        process.send_signal(signal.SIGTERM)
        assert (process.wait(60), process.stderr.read()) == (0, b"")
        counted = decoded(process.stdout.read()).stats  # what it says last
        assert counted["connections"]["open"] == counted["requests"]["open"] == 0
        process.stdout.close()
        process.stderr.close()


@pytest.mark.slow
def test_a_store_is_served_cloned_pushed_to_and_pulled_from(shell, tmp_path):
    shell("context", "commit", "-", "-m", "begin", stdin=lines("one", "x" * 9_000))
    (tmp_path / "b").mkdir()
    other = Shell(tmp_path / "b", tmp_path / "home")
    with serving(shell) as (_, address):
        assert address == f"unix:{shell.folder}/.periplus/contexts.sock"
        done = other.json("context", "clone", address)
        assert (done.made, list(done.refs), done.objects) == (True, ["main"], 2)
        pushed = other.json("context", "commit", "-", stdin=lines("two"))
        sent = other.json("context", "push", address)
        assert (sent.context, sent.objects, sent.previous) == (pushed.context, 1, done.refs["main"])
        assert other.json("context", "push", address).objects == 0
        assert shell.json("context", "refs").refs[0].context == pushed.context
        shell("context", "commit", "-", stdin=lines("three"))
        other("context", "commit", "-", stdin=lines("four"))
        other.fails("context", "push", address, code=5, wrong="does not descend from")
        apart = other.json("context", "pull", address, code=5)
        assert (apart.outcome, apart.objects) == ("apart", 1)
        assert other.json("context", "merge", apart.context[:12]).outcome == "merged"
        assert other.json("context", "push", address).objects == 2
        assert shell.json("context", "serve", "--stats").stats["objects"]["in"] == 3
        shell.fails("context", "serve", code=5, wrong="another server listens")
        assert "sound" in shell("doctor").out
    assert shell("context", "serve", "--stats", code=1).out.startswith("No server listens")
    assert "sound" in other("doctor").out


def test_a_file_in_the_sockets_place_is_left_alone_and_alone(shell, tmp_path):
    (tmp_path / "kept").write_text("mine")
    assert "exists and is not a socket" in shell("context", "serve", "--socket", tmp_path / "kept", code=2).err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("kept")) == ["kept"]
    assert (tmp_path / "kept").read_text() == "mine"


def test_a_server_of_tcp_wants_the_token_and_may_refuse_to_be_changed(shell, tmp_path):
    (tmp_path / "token").write_text("a token of some length\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "wrong").write_text("another of some length\n")
    (tmp_path / "wrong").chmod(0o600)
    (tmp_path / "open").write_text("a token of some length\n")
    (tmp_path / "open").chmod(0o640)
    (tmp_path / "torn").write_text("a token\nof some length\n")
    (tmp_path / "torn").chmod(0o600)
    for name, code, told in (("open", 5, "chmod 600"), ("torn", 2, "a second line")):
        said = shell("context", "serve", "--tcp", "127.0.0.1:0", "--token-file", tmp_path / name, code=code).err
        assert told in said
        assert "some length" not in said
    shell("context", "commit", "-", stdin=lines("one"))
    (tmp_path / "b").mkdir()
    other = Shell(tmp_path / "b", tmp_path / "home")
    with serving(shell, "--tcp", "127.0.0.1:0", "--token-file", tmp_path / "token", "--read-only") as (_, address):
        assert address.startswith("tcp://127.0.0.1:")
        assert shell.json("context", "serve", "--stats").stats["requests"]["total"] == 0
        other("context", "clone", address, "--token-file", tmp_path / "wrong", code=5)
        assert not (other.folder / ".periplus").exists()
        other("context", "clone", address, "--token-file", tmp_path / "token")
        other("context", "commit", "-", stdin=lines("two"))
        other("context", "push", address, "--token-file", tmp_path / "token", code=5)
        told = other.fails(
            "context", "pull", address, "--token-file", tmp_path / "wrong", code=5, wrong="token is missing"
        )
        assert "--token-file" in told.err
    assert len(shell.json("context", "log").contexts) == 1


def test_a_token_goes_to_no_other_machine_over_plain_tcp(shell, tmp_path):
    (tmp_path / "token").write_text("a token of some length\n")
    (tmp_path / "token").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        where = f"tcp://0.0.0.0:{waiting.getsockname()[1]}"  # which leads here, and by its name need not
        done = shell.fails(
            "context", "pull", where, "--token-file", tmp_path / "token", code=5, wrong="plain TCP shows it"
        )
        assert f"Name the server as {where.replace('tcp', 'tls')}." in done.err
        with pytest.raises(RefusedError, match="plain TCP"):
            ContextClient(parse_address(where), token="a token of some length")
        waiting.setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting.accept()


@pytest.mark.slow
def test_bytes_that_were_damaged_under_way_are_no_mistake_of_who_typed_the_command(shell, tmp_path):
    (tmp_path / "token").write_text("a token of some length\n")
    (tmp_path / "token").chmod(0o600)
    token = ("--token-file", tmp_path / "token")
    shell("context", "commit", "-", stdin=lines("one"))
    (tmp_path / "b").mkdir()
    other = Shell(tmp_path / "b", tmp_path / "home")
    with (
        serving(shell, "--tcp", "127.0.0.1:0", "--token-file", tmp_path / "token") as (_, address),
        Proxy(parse_address(address)) as proxy,
    ):
        place = str(proxy.address)
        for garbling, words in (
            ((b"encoding", b"encodinf"), ("clone", place)),  # of WELCOME
            ((b"PERIPLUS/2", b"PERIPLUS/3"), ("clone", place)),
        ):
            proxy.garbling = garbling
            told = other.fails("context", *words, *token, code=3, wrong="cannot be read: ")
            assert "repeat the command" in told.err
            assert not (other.folder / ".periplus").exists()
        proxy.heal()
        other("context", "clone", place, *token)
        shell("context", "commit", "-", stdin=lines("two"))
        before = other.json("context", "refs").refs[0].context
        proxy.garbling = (b"digests", b"digeqts")
        told = other.fails("context", "pull", place, *token, code=3, wrong="digeqts")
        assert "No ref was moved" in told.err
        assert "--help" not in told.err
        assert other.json("context", "refs").refs[0].context == before
        other("context", "commit", "-", "--ref", "mine", stdin=lines("three"))
        other.fails("context", "push", place, "mine", *token, code=3, wrong="cannot be read: ")
        proxy.heal()
        assert other.json("context", "pull", place, *token).outcome == "moved"
        other("context", "push", place, "mine", *token)
        other.fails(
            "context", "push", place, "a/../b", *token, code=1, wrong="a/../b"
        )  # what was typed stays a mistake


@pytest.mark.slow
def test_what_was_redacted_at_the_server_is_not_brought_back_and_that_is_told(shell, tmp_path):
    shell("context", "commit", "-", stdin=lines("one", "the word is albatross-in-the-rigging"))
    (tmp_path / "b").mkdir()
    other = Shell(tmp_path / "b", tmp_path / "home")
    with serving(shell) as (_, address):
        other("context", "clone", address)
        word = "albatross-in-the-rigging"
        shell("redact", "--secret-file", "-", "--reason", "told by mistake", stdin=word)
        other("context", "commit", "-", stdin=lines("two"))
        for force in ((), ("--force",)):
            told = other.fails(
                "context",
                "push",
                address,
                *force,
                code=5,
                wrong="does not descend from" if not force else "redacted there",
            )
        assert "No ref was moved there." in told.err
        assert "periplus redact" in told.err
        told = other.fails("context", "push", shell.folder, "--force", code=5, wrong="redacted here")
        assert shell.json("context", "refs").refs[0].live == 1


def test_gc_of_a_store_that_cannot_be_written_says_what_is_in_the_way(shell):
    cache = shell.folder / ".periplus/cache"
    shutil.rmtree(cache, ignore_errors=True)
    cache.write_text("not a folder")
    told = shell.fails("context", "gc", code=3, wrong=f"cannot make the folder {cache}").err
    assert "the system refused" not in told
