"""Exchange by git remotes as they are met: both kinds of names for objects, refs that are gone or of no use, remotes that refuse,
settings that send git elsewhere, ends that say nothing any more, commands that were killed in between.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cli_support import Shell, git, shared_project
from periplus.base.clock import SystemClock
from periplus.journal.carriers import GitCarrier
from periplus.journal.carriers.git_calls import StalledError
from periplus.journal.storage.tree_head import SignedHead, decode_head, encode_head, head_message

WORD = "zebraquagga"
HEAD, SEGMENT = "head.json", "segments/000000000001.jsonl"


@pytest.fixture
def people(tmp_path):
    """Ada's project in git with a remote to which she has synced a record, and Bob's clone of it."""
    shells = shared_project(tmp_path, "bob")
    shells["ada"]("remember", "Ports start at 8000")
    shells["ada"]("sync", "--with", "origin")
    return shells


def lineage_of(shell):
    return json.loads((shell.folder / ".periplus/journal/lineage.json").read_text())["lineage"]


def ref_of(shell):
    return f"refs/periplus/{lineage_of(shell)}"


def cache_of(shell):
    (found,) = (shell.folder / ".periplus/remotes").glob("*.git")
    return found


def everything_in(repository):
    words = ("cat-file", "--batch-all-objects", "--batch")
    found = subprocess.run(["git", "--git-dir", repository, *words], capture_output=True, check=True)
    return found.stdout.decode(errors="replace")


def make_ref(hub, ref, entries):
    stream = [f"commit {ref}\ncommitter x <x@x> 0 +0000\ndata 0\n".encode()]
    stream += [f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n" for path, data in entries.items()]
    subprocess.run(["git", "-C", hub, "fast-import", "--quiet", "--force"], input=b"".join(stream), check=True)


def file_of(hub, ref, path):
    return git(hub, "cat-file", "blob", f"{ref}:{path}").encode()


def hook(hub, name, text):
    path = hub / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


# -- names of objects --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_commits", [False, True])
def test_a_repository_that_names_objects_by_sha_256_carries_too(people, tmp_path, has_commits):
    ada, bob = people["ada"], people["bob"]
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "wide.git")
    if has_commits:
        git(tmp_path, "init", "-q", "--object-format=sha256", "w")
        git(tmp_path / "w", "commit", "-q", "--allow-empty", "-m", "x")
        git(tmp_path / "w", "push", "-q", "../wide.git", "HEAD:main")
    ada("sync", "--with", "../wide.git")
    assert "record 1 comes from" in bob("sync", "--with", "../wide.git").out
    bob("remember", "No releases on Fridays")
    bob("sync", "--with", "../wide.git")
    assert "record 1 comes from" in ada("sync", "--with", "../wide.git").out


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_repository_that_was_made_anew_with_other_names_is_known_for_it(people, tmp_path, is_wide):
    """What is kept of the one before says nothing of it."""
    ada, place = people["ada"], tmp_path / "moved.git"
    git(tmp_path, "init", "-q", "--bare", f"--object-format={'sha1' if is_wide else 'sha256'}", place)
    ada("sync", "--with", place)
    place.rename(tmp_path / "old.git")
    git(tmp_path, "init", "-q", "--bare", f"--object-format={'sha256' if is_wide else 'sha1'}", place)
    ada("sync", "--with", place)
    assert ref_of(ada) in git(place, "for-each-ref")


# -- what was redacted -------------------------------------------------------------------------------------------------


def redact(shell, tmp_path, word=WORD):
    (tmp_path / "secret").write_text(word)
    shell("redact", "--secret-file", tmp_path / "secret", "--reason", "leaked")


def test_what_was_redacted_goes_from_the_cache_of_a_remote_whose_ref_is_gone(people, tmp_path):
    """Who finds a secret in a remote deletes the ref first. What was kept of it stayed for good, and a sync is said to sweep it."""
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    ada("remember", f"The word is {WORD}", "--type", "decision")
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    assert WORD in everything_in(cache_of(ada))
    git(hub, "update-ref", "-d", ref_of(ada))
    redact(ada, tmp_path)
    bob("sync", "--with", "../ada")
    bob("sync", "--with", "origin")
    ada("sync", "--with", "origin")
    assert WORD not in everything_in(cache_of(ada))
    assert WORD not in everything_in(cache_of(bob))


def test_settings_of_the_user_keep_nothing_that_was_redacted(people, tmp_path):
    ada, bob = people["ada"], people["bob"]
    (tmp_path / "home/.gitconfig").write_text("[core]\nlogAllRefUpdates = always\n[gc]\nbigPackThreshold = 1\n")
    ada("remember", f"The word is {WORD}", "--type", "decision")
    for shell in (ada, bob):
        shell("sync", "--with", "origin")
        git(cache_of(shell), "repack", "-q", "-a", "-d")
    redact(ada, tmp_path)
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    assert WORD not in everything_in(cache_of(ada))
    assert WORD not in everything_in(cache_of(bob))


@pytest.mark.slow
@pytest.mark.parametrize("who", ["ada", "bob"])
def test_who_is_killed_before_the_cache_is_swept_sweeps_it_the_next_time(people, tmp_path, who):
    """The remote kills the command when it has what it is to have: the owner's push, or what somebody else is about to fetch."""
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    ada("remember", f"The word is {WORD}", "--type", "decision")
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")
    redact(ada, tmp_path)
    pid = tmp_path / "pid"
    if who == "ada":
        hook(hub, "post-receive", f"while ! test -s {pid}; do :; done\nkill -9 $(cat {pid})\n")
        running = ada.start("sync", "--with", "origin", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        ada("sync", "--with", "origin")
        program = tmp_path / "bin/git"  # the fetch is done when it is killed
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\nPATH={os.environ["PATH"]}\ngit "$@"\ncode=$?\ncase " $* " in *" fetch "*)\n'
            f"while ! test -s {pid}; do :; done\nkill -9 $(cat {pid})\nesac\nexit $code\n"
        )
        program.chmod(0o755)
        running = bob.start("sync", "--with", "origin", env={"PATH": f"{program.parent}:{os.environ['PATH']}"},
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    (tmp_path / "pid.new").write_text(f"{running.pid}\n")
    (tmp_path / "pid.new").rename(pid)
    assert running.wait(timeout=60) == -signal.SIGKILL
    shell = people[who]
    assert WORD in everything_in(cache_of(shell))
    (hub / "hooks/post-receive").unlink(missing_ok=True)
    shell("sync", "--with", "origin")
    assert WORD not in everything_in(cache_of(shell))


# -- refs of no use ----------------------------------------------------------------------------------------------------


def test_a_ref_without_records_is_told(people, tmp_path):
    """It was passed over in silence: who relied on it believed that there was nothing to come."""
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    segment, head = (file_of(hub, ref_of(ada), path) for path in (SEGMENT, HEAD))
    blob = git(hub, "hash-object", "-w", os.fspath(tmp_path / "ada/engine.py")).strip()
    odd = {1: {SEGMENT: segment}, 2: {HEAD: head}, 3: {"README": b"x"}, 4: {}}
    for number, entries in odd.items():
        make_ref(hub, f"refs/periplus/lin_000000000000000{number}", entries)
    git(hub, "update-ref", "refs/periplus/lin_0000000000000005", blob)
    for _ in range(2):
        done = bob.json("sync", "--with", "origin", code=5)
        assert {one.lineage: one.wrong for one in done.refused} == {
            "lin_0000000000000001": "origin: lin_0000000000000001 has no signed head",
            "lin_0000000000000002": "origin: lin_0000000000000002 has no records there, but a signed head of 1 records",
            "lin_0000000000000003": "origin: lin_0000000000000003 has no records there, but no signed head",
            "lin_0000000000000004": "origin: lin_0000000000000004 has no records there, but no signed head",
            "lin_0000000000000005": "origin: refs/periplus/lin_0000000000000005 has no files of a lineage: fatal: not a tree object",
        }
        assert all("git push origin --delete refs/periplus/" in one.next for one in done.refused[1:])
    assert len(bob.json("recall", "ports").hits) == 1


def test_a_ref_of_ours_that_somebody_emptied_is_filled_by_the_next_sync(people, tmp_path):
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    make_ref(hub, ref_of(ada), {"README": b"x"})
    assert "has no records there" in bob("sync", "--with", "origin", code=3).out
    ada("sync", "--with", "origin")
    assert "record 1 comes from" in bob("sync", "--with", "origin").out


def test_a_ref_that_leads_to_no_files_is_removed_and_made_anew_as_it_is_said(people, tmp_path):
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    blob = git(hub, "hash-object", "-w", os.fspath(tmp_path / "ada/engine.py")).strip()
    git(hub, "update-ref", ref_of(ada), blob)
    done = ada.json("sync", "--with", "origin", code=3)
    command = f"git push origin --delete {ref_of(ada)}"
    assert command in done.refused[0].next
    git(ada.folder, *command.split()[1:])
    ada("sync", "--with", "origin")
    assert "record 1 comes from" in bob("sync", "--with", "origin").out


def test_whatever_a_ref_of_no_use_leads_to_how_to_be_rid_of_it_is_said(people, tmp_path):
    """A link, a head that is none or that is too large: it was said that, and not what to do about it."""
    bob, hub = people["bob"], tmp_path / "hub.git"
    for number, head in enumerate((b"{}", b"x" * 20_000), 1):
        make_ref(hub, f"refs/periplus/lin_000000000000000{number}", {HEAD: head})
    link = f"commit refs/periplus/lin_0000000000000003\ncommitter x <x@x> 0 +0000\ndata 0\nM 120000 inline {HEAD}\ndata 1\nx\n"
    subprocess.run(["git", "-C", hub, "fast-import", "--quiet"], input=link.encode(), check=True)
    done = bob.json("sync", "--with", "origin", code=3)
    assert [one.wrong.split(": ", 1)[1] for one in done.refused] == [
        "not a signed head: Object missing required field `format`",
        "a file of lin_0000000000000002 has 20,000 bytes, over 16,384",
        "head.json of lin_0000000000000003 is no plain file",
    ]
    for one in done.refused:
        assert one.safe == "Nothing of it was taken; the copy here is unchanged."
        assert f"git push origin --delete refs/periplus/{one.lineage}" in one.next


def test_a_head_of_a_later_version_is_no_damage_that_somebody_is_to_remove(people, tmp_path):
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    segment, head = (file_of(hub, ref_of(ada), path) for path in (SEGMENT, HEAD))
    later = json.dumps({**json.loads(head), "format": 2, "more": "of it"}).encode()
    make_ref(hub, "refs/periplus/lin_0000000000000001", {SEGMENT: segment, HEAD: later})
    (told,) = bob.json("sync", "--with", "origin", code=3).refused
    assert told.error == "newer_format"
    assert "which a later Periplus wrote" in told.wrong
    assert told.next == "Update Periplus, then repeat the command."


def test_who_writes_under_our_name_with_another_key_is_told_to_us_as_that(people, tmp_path):
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    key = Ed25519PrivateKey.generate()
    head = decode_head(file_of(hub, ref_of(ada), HEAD), "").head
    public = key.public_key().public_bytes_raw().hex()
    forged = encode_head(SignedHead(1, head, public, key.sign(head_message(head)).hex()))
    bob("sync", "--with", "origin")
    make_ref(hub, ref_of(ada), {SEGMENT: file_of(hub, ref_of(ada), SEGMENT), HEAD: forged})
    (told,) = ada.json("sync", "--with", "origin", code=5).refused
    assert "this store's own" in told.next
    (told,) = bob.json("sync", "--with", "origin", code=5).refused
    assert "Ask its owner" in told.next
    git(hub, "update-ref", "-d", ref_of(ada))
    ada("sync", "--with", "origin")
    bob("sync", "--with", "origin")


@pytest.mark.slow
def test_a_tree_that_unfolds_without_end_is_told_with_its_ref(people, tmp_path):
    hub, bob = tmp_path / "hub.git", people["bob"]

    def tree_of(rows):
        words = ["git", "-C", hub, "mktree"]
        return subprocess.run(words, input=rows.encode(), capture_output=True, check=True).stdout.decode().strip()

    blob = git(hub, "hash-object", "-w", os.fspath(tmp_path / "ada/engine.py")).strip()
    tree = tree_of("".join(f"100644 blob {blob}\tf{number}\n" for number in range(10)))
    for _ in range(7):
        tree = tree_of("".join(f"040000 tree {tree}\td{number}\n" for number in range(10)))
    commit = git(hub, "commit-tree", tree, "-m", "x").strip()
    git(hub, "update-ref", "refs/periplus/lin_0000000000000001", commit)
    done = bob.json("sync", "--with", "origin", code=3)
    assert done.refused[0].wrong.startswith(
        "origin: refs/periplus/lin_0000000000000001 has no files of a lineage: git returned more than"
    )
    assert len(bob.json("recall", "ports").hits) == 1


@pytest.mark.slow
def test_of_very_many_refs_of_no_use_some_are_told_and_the_rest_counted(people, tmp_path):
    for number in range(25):
        make_ref(tmp_path / "hub.git", f"refs/periplus/lin_{number:016}", {"README": b"x"})
    done = people["bob"]("sync", "--with", "origin", code=3)
    assert done.out.count("has no records there") == 20
    assert "… and 5 more: repeat with --json to list them" in done.out
    assert len(people["bob"].json("sync", "--with", "origin", code=3).refused) == 25


def test_a_ref_of_which_the_repository_lost_a_part_is_told_and_the_others_come(people, tmp_path):
    hub = tmp_path / "hub.git"
    body = f"tree {'1' * 40}\nauthor x <x@x> 0 +0000\ncommitter x <x@x> 0 +0000\n\nx"
    words = ["git", "-C", hub, "hash-object", "-w", "-t", "commit", "--literally", "--stdin"]
    commit = subprocess.run(words, input=body.encode(), capture_output=True, check=True).stdout.decode().strip()
    for number in range(5):
        git(hub, "update-ref", f"refs/periplus/lin_000000000000000{number}", commit)
    done = people["bob"].json("sync", "--with", "origin", code=3)
    assert [one.lineage for one in done.transfers if one.records] == [lineage_of(people["ada"])]
    assert len(done.refused) == 5
    for one in done.refused:
        assert one.wrong.startswith(f"origin: refs/periplus/{one.lineage} cannot be fetched: ")
        assert "`git fsck` there" in one.next


# -- what others left in the cache -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["{ref}.lock", "packed-refs.lock"])
def test_a_lock_that_a_killed_git_left_keeps_no_sync_from_going_on(people, tmp_path, name):
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"
    ada("remember", "No releases on Fridays")
    lock = cache_of(ada) / name.format(ref=ref_of(ada))
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    ada("sync", "--with", "origin")
    assert "records 1 to 2 come from" in bob("sync", "--with", "origin").out
    make_ref(hub, "refs/periplus/lin_0000000000000001", {"README": b"x"})
    git(hub, "update-ref", "-d", "refs/periplus/lin_0000000000000001")
    ada("sync", "--with", "origin")


def test_what_is_in_the_way_of_the_caches_is_named(people):
    bob = people["bob"]
    (bob.folder / ".periplus/remotes").write_text("x")
    bob.fails("sync", "--with", "origin", code=3, wrong=f"cannot make the folder {bob.folder}/.periplus/remotes")


def test_a_disk_without_room_for_what_git_keeps_is_no_remote_that_cannot_be_reached(people):
    bob = people["bob"]
    disk = bob.folder / ".periplus/remotes"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", os.fspath(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        (disk / "ballast").write_bytes(bytes(48 << 10))
        done = bob("sync", "--with", "origin", code=3)
        assert "git cannot keep what it needs of origin here: " in done.out + done.err
        assert "Free some space" in done.out + done.err
        assert "sound" in bob("doctor").out
        (disk / "ballast").unlink()
    finally:
        subprocess.run(["umount", os.fspath(disk)], check=True)
    bob("sync", "--with", "origin")
    assert len(bob.json("recall", "ports").hits) == 1


# -- remotes that refuse -----------------------------------------------------------------------------------------------


def test_what_a_remote_says_when_it_refuses_is_told(people, tmp_path):
    ada = people["ada"]
    hook(tmp_path / "hub.git", "pre-receive", "echo only maintainers may push here >&2\nexit 1\n")
    ada("remember", "No releases on Fridays")
    done = ada.json("sync", "--with", "origin", code=3)
    assert "origin rejected the push: " in done.refused[0].wrong
    assert "only maintainers may push here" in done.refused[0].wrong


def test_a_remote_that_cannot_store_a_push_is_not_taken_for_one_that_does_not_allow_it(people, tmp_path):
    ada, hub = people["ada"], tmp_path / "hub.git"
    ada("remember", "No releases on Fridays")
    (hub / "objects").rename(hub / "objects.away")
    (hub / "objects/info").mkdir(parents=True)
    (hub / "objects/info/alternates").write_text(f"{hub}/objects.away\n")
    (hub / "objects/pack").write_text("in the way of what is stored, also where root may write everywhere")
    git(hub, "config", "receive.unpackLimit", "1")
    done = ada.json("sync", "--with", "origin", code=3)
    assert "origin could not store the push: " in done.refused[0].wrong
    assert "disk space" in done.refused[0].next


@pytest.mark.parametrize("name", ["{ref}.lock", "{ref}/below"])
def test_what_is_in_the_way_of_a_push_is_no_matter_of_what_is_allowed(people, tmp_path, name):
    """A push that was killed over there leaves a lock; another clone with the same lineage may push at the same instant."""
    ada, hub = people["ada"], tmp_path / "hub.git"
    ada("remember", "No releases on Fridays")
    place = hub / name.format(ref=ref_of(ada))
    if place.name == "below":
        (hub / ref_of(ada)).unlink()
        git(hub, "update-ref", os.fspath(place.relative_to(hub)), "main")
    else:
        place.touch()
    (told,) = ada.json("sync", "--with", "origin", code=3).refused
    assert "origin did not accept the push: " in told.wrong
    assert ref_of(ada) in told.wrong
    assert told.next.startswith("Repeat the command.")
    place.unlink()
    (hub / ref_of(ada)).is_dir() and (hub / ref_of(ada)).rmdir()
    ada("sync", "--with", "origin")


@pytest.fixture
def ssh(tmp_path):
    """In the place of ssh: what can be read here, and nothing can be pushed to."""
    program = tmp_path / "ssh"
    program.write_text(
        '#!/bin/sh\nfor last; do :; done\ncase "$last" in git-upload-pack*) eval "exec $last";; esac\n'
        "echo 'ada@host: Permission denied (publickey).' >&2\nexit 255\n"
    )
    program.chmod(0o755)
    return {"GIT_SSH_COMMAND": os.fspath(program), "GIT_SSH_VARIANT": "ssh"}


def test_a_remote_that_is_only_read_gives_what_it_has_and_says_why_it_takes_nothing(people, tmp_path, ssh):
    bob = people["bob"]
    bob("remember", "No releases on Fridays")
    done = bob("sync", "--with", f"host:{tmp_path}/hub.git", code=3, env=ssh)
    assert "record 1 comes from" in done.out
    assert "git cannot push to" in done.out
    assert "Permission denied (publickey)" in done.out
    assert "--with FOLDER" in done.out
    assert len(bob.json("recall", "ports").hits) == 1


# -- settings ----------------------------------------------------------------------------------------------------------


def test_what_settings_put_in_the_place_of_an_address_is_put_in_once(people, tmp_path):
    """A mirror whose address begins with what it stands for; git was handed the address that it had made already."""
    ada, mirror = people["ada"], tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "hub.git").symlink_to(tmp_path / "hub.git")
    git(ada.folder, "remote", "add", "far", f"file://{tmp_path}/hub.git")
    for config in (tmp_path / "home/.gitconfig", ada.folder / ".git/config"):
        before = config.read_text() if config.exists() else ""
        config.write_text(f'{before}[url "file://{mirror}/"]\n\tinsteadOf = file://{tmp_path}/\n')
        ada("sync", "--with", "far")
        ada("sync", "--with", f"file://{tmp_path}/hub.git")
        config.write_text(before)


def test_settings_in_the_environment_that_say_how_to_reach_an_address_count(people, tmp_path):
    given = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/.insteadOf", "GIT_CONFIG_VALUE_0": "https://far.example/",
             "GIT_CONFIG_KEY_1": "core.worktree", "GIT_CONFIG_VALUE_1": "/nonexistent"}  # fmt: skip
    assert "record 1 comes from" in people["bob"]("sync", "--with", "https://far.example/hub.git", env=given).out


def test_settings_that_git_cannot_read_are_not_taken_for_a_remote_that_is_not_there(people):
    ada = people["ada"]
    config = ada.folder / ".git/config"
    before = config.read_text()
    config.write_text(f"{before}[broken\n")
    ada.fails("sync", "--with", "origin", code=3, wrong="bad config line")
    ada("sync", "--with", "../hub.git")
    config.write_text(before)
    ada("sync", "--with", "origin")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("whose", ["ada/.git", "hub.git"])
def test_a_repository_that_git_does_not_trust_is_named_with_what_makes_it(people, tmp_path, whose):
    os.chown(tmp_path / whose, 65534, 65534)
    folder = tmp_path / whose.removesuffix("/.git")
    done = people["ada"].fails("sync", "--with", "origin", code=3, wrong=f"git does not trust {folder}")
    assert f"git config --global --add safe.directory {folder}" in done.err


def test_git_does_as_much_whatever_a_user_has_set(people, tmp_path):
    (tmp_path / "home/.gitconfig").write_text(
        "[commit]\ngpgSign = true\n[tag]\ngpgSign = true\n[core]\nautocrlf = true\nquotePath = true\nhooksPath = /nonexistent\n"
        "fsmonitor = /nonexistent\n[push]\ndefault = nothing\nfollowTags = true\nuseForceIfIncludes = true\ngpgSign = true\n"
        "[transfer]\nfsckObjects = true\n[fetch]\nprune = true\npruneTags = true\nwriteCommitGraph = true\n[submodule]\n"
        "recurse = true\n[init]\ndefaultObjectFormat = sha256\ntemplateDir = /nonexistent\n[safe]\nbareRepository = explicit\n[protocol]\n"
        "version = 0\n[color]\nui = always\n"
    )
    ada, bob = people["ada"], people["bob"]
    bob("remember", "No releases on Fridays")
    hook_environment = {"GIT_DIR": f"{ada.folder}/.git", "GIT_INDEX_FILE": f"{ada.folder}/.git/index", "GIT_WORK_TREE": "/nonexistent",
                        "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_NAMESPACE": "other", "GIT_QUARANTINE_PATH": "/nonexistent"}  # fmt: skip
    bob("sync", "--with", "origin", env=hook_environment)
    assert "record 1 comes from" in ada("sync", "--with", "origin").out
    assert len(bob.json("recall", "ports").hits) == 1


# -- ends that say nothing ---------------------------------------------------------------------------------------------


def wait_until_nobody_has(argument):
    """Git tells what it began to end, and has ended itself before that has."""
    for _ in range(200):
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if argument not in listed:
            return
        time.sleep(0.05)  # it is a process of git's, not ours to wait for: some 10 s at most
    raise AssertionError(f"git has not ended what it began: {listed}")


@pytest.mark.parametrize("scheme", ["git", "http"])
def test_an_end_that_says_nothing_is_waited_for_so_long_and_no_longer(tmp_path, scheme):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/hub.git"
        environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        carrier = GitCarrier(
            url, os.fspath(tmp_path / "cache.git"), place="far", stores={"str_0000000000000000"}, environment=environment,
            clock=SystemClock(), silence_s=0.5,
        )  # fmt: skip
        with pytest.raises(StalledError, match="far has not answered for 0 s"):
            carrier.connect()
    wait_until_nobody_has(url)


# -- a dry run ---------------------------------------------------------------------------------------------------------


def test_a_dry_run_changes_no_byte_of_the_store_and_no_ref(people, tmp_path):
    ada, bob, hub = people["ada"], people["bob"], tmp_path / "hub.git"

    def all_bytes():
        return {path: path.read_bytes() for folder in (bob.folder, hub) for path in folder.rglob("*") if path.is_file()}

    bob("remember", "No releases on Fridays")
    git(hub, "update-ref", "refs/periplus/lin_0000000000000001", ref_of(ada))
    before = all_bytes()
    bob("sync", "--with", "origin", "--dry-run", code=3)
    assert all_bytes() == before
    git(hub, "update-ref", "-d", "refs/periplus/lin_0000000000000001")
    bob("sync", "--with", "origin")
    git(hub, "update-ref", "-d", ref_of(ada))
    ada("remember", "Ports end at 9000")
    before = all_bytes()
    bob("sync", "--with", "origin", "--dry-run")
    assert all_bytes() == before


@pytest.mark.slow
def test_clones_that_push_at_one_instant_all_arrive(people, tmp_path):
    clones = []
    for number in range(4):
        git(tmp_path, "clone", "-q", "-b", "main", tmp_path / "hub.git", f"clone{number}")
        clones.append(Shell(tmp_path / f"clone{number}", tmp_path / "home"))
        clones[-1]("remember", f"note {number} of the tide", "--type", "note")
    running = [
        one.start("sync", "--with", "origin", stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for one in clones
    ]
    for one in running:
        said, _ = one.communicate(timeout=120)
        assert one.returncode == 0, said.decode()
    for one in clones:
        one("sync", "--with", "origin")
        assert len(one.json("recall", "tide").hits) == 4
