"""Make the store of a project, also in a clone of its repository that lacks the settings of the others' store."""

from __future__ import annotations

__all__ = ["KnownStore", "batch_contents", "join", "known_store", "make_store"]

import os
import re
from collections import Counter
from typing import Final

from periplus.base.clock import Clock
from periplus.base.errors import PeriplusError
from periplus.base.files import Files
from periplus.base.filesystem.store_location import STORE_FOLDER, project_root
from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.journal import Created, create_store
from periplus.journal.storage.store_joining import Joined, join_stores

_BRANCHES_MAX: Final = 500
_SETTINGS_BYTES_MAX: Final = 1 << 20
_TIMEOUT_S: Final = 10.0
_ID: Final = re.compile(rb'^id = "(str_[0-9a-z]{1,40})"[ \t\r]*$', re.MULTILINE)


class KnownStore(NamedTuple):
    """The ``id`` of the store in most of the branches that have one, and the shortest name of such a ``branch``."""

    id: str
    branch: str


def make_store(folder: str, store: str | None, clock: Clock) -> Created:
    """See ``Project.init``."""
    root = _root_for(folder, store)
    known = None if os.path.exists(os.path.join(root, "config.toml")) else known_store(root)
    created = create_store(root, Files(), clock, known.id if known is not None else "")
    if known is None or not created.is_new or created.store_id != known.id:
        return created
    return created._replace(known_from=known.branch)


def join(folder: str, store: str | None) -> Joined:
    """See ``Project.join``."""
    return join_stores(_root_for(folder, store), Files())


def _root_for(folder: str, store: str | None) -> str:
    """Return the place of the store of the project that ``folder`` belongs to, existing or not; ``store`` overrides
    it.
    """
    root = os.path.abspath(store) if store is not None else project_root(folder)
    return root if store is not None and os.path.basename(root) == STORE_FOLDER else os.path.join(root, STORE_FOLDER)


def known_store(root: str) -> KnownStore | None:
    """Return the store at ``root`` by the branches that git has here, of remotes too; None where they have none.

    Only the id is taken from their settings. Nothing is fetched. Where git cannot be asked, nothing is known.
    """
    from periplus.interop.git_history.git_process import run_git

    folder = os.path.dirname(root)
    if not os.path.isdir(folder):
        return None
    try:
        top = run_git(folder, "rev-parse", "--show-prefix", timeout_s=_TIMEOUT_S)
        listed = run_git(folder, "for-each-ref", f"--count={_BRANCHES_MAX}", "--format=%(refname)", "refs/remotes", "refs/heads",
                         timeout_s=_TIMEOUT_S)  # fmt: skip
        if top.returncode or listed.returncode:
            return None
        path = os.fsencode(os.path.join(os.fsdecode(top.stdout.rstrip(b"\n")), os.path.basename(root), "config.toml"))
        branches = [line for line in listed.stdout.splitlines() if line and not line.endswith(b"/HEAD")]
        asked = b"".join(b"%b:%b\n" % (branch, path) for branch in branches)
        if b"\n" in path or not branches:
            return None
        said = run_git(folder, "cat-file", "--batch", said=asked, timeout_s=_TIMEOUT_S)
    except PeriplusError:
        return None
    found = dict(zip(branches, batch_contents(said.stdout, len(branches)), strict=False))
    ids = {branch: store for branch, text in found.items() if (store := _id_in(text))}
    if not ids:
        return None
    store, _ = max(Counter(ids.values()).items(), key=lambda one: (one[1], one[0]))
    names = (branch.split(b"/", 2)[2].decode("utf-8", "replace") for branch, has in ids.items() if has == store)
    return KnownStore(store, min(names, key=lambda name: (len(name), name)))


def batch_contents(said: bytes, count: int) -> list[bytes]:
    """Parse the output of ``git cat-file --batch``: a content for each request, empty for what is not a file."""
    found, at = [], 0
    for _ in range(count):
        line, _, _ = said[at:].partition(b"\n")
        at += len(line) + 1
        fields = line.rsplit(b" ", 2)
        if len(fields) != 3 or not fields[2].isdigit():
            found.append(b"")  # "… missing"
            continue
        size = int(fields[2])
        is_settings = fields[1] == b"blob" and size <= _SETTINGS_BYTES_MAX
        found.append(said[at : at + size] if is_settings else b"")
        at += size + 1
    return found


def _id_in(text: bytes) -> str:
    found = _ID.search(text)
    return found[1].decode() if found is not None and is_id(found[1].decode()) else ""
