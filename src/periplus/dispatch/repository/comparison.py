"""Differences between commits: paths, lines, text, and the secrets that commits add.

Secrets are searched for in each version of each file that a commit on the way adds, because a commit that removes a
secret again leaves it in the history, and in the messages. A secret that an older version had already is not reported.
"""

from __future__ import annotations

__all__ = [
    "FILE_BYTES_MAX",
    "PLAIN",
    "changes_between",
    "committers",
    "contents",
    "diff_between",
    "merge_base",
    "new_secrets",
    "secrets_in",
]

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from periplus.code.listing.repository import Repository as Layout
from periplus.dispatch.repository.git_process import Git, failure
from periplus.dispatch.repository.model import Changes, FoundSecret, oid_of

FILE_BYTES_MAX: Final = 8 << 20
COMMITTERS_MAX: Final = 10_000
SEARCHED_BYTES_MAX: Final = 128 << 20
_AT_ONCE_BYTES: Final = 16 << 20
PLAIN: Final = ("--no-ext-diff", "--no-textconv", "--no-color")
_RAW: Final = re.compile(r":(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*")
_SUBMODULE: Final = "160000"


def changes_between(git: Git, at: Layout, base: str, tip: str) -> Changes:
    """Return the differences from ``base`` to ``tip``, and the secrets that the commits between them add."""
    base, tip = oid_of(base), oid_of(tip)
    words = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", *PLAIN[:2], base, tip)
    paths, additions, deletions = [], 0, 0
    for row in os.fsdecode(git.out(at, *words)).split("\0"):
        added, _, rest = row.partition("\t")
        deleted, _, path = rest.partition("\t")
        if path:
            paths.append(path)
            additions += int(added) if added.isdecimal() else 0  # a dash stands for binary files
            deletions += int(deleted) if deleted.isdecimal() else 0
    commits = int(git.out(at, "rev-list", "--count", f"{base}..{tip}"))
    secrets, unsearched = _secrets_between(git, at, base, tip)
    return Changes(tuple(paths), additions, deletions, commits, secrets, unsearched)


def diff_between(git: Git, at: Layout, base: str, tip: str, bytes_max: int, paths: Sequence[str] = ()) -> str:
    """Return the differences as text, of ``paths`` where some are named. What exceeds ``bytes_max`` is left out, and
    said so.
    """
    words = ("diff", *PLAIN, "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", oid_of(base), oid_of(tip))
    done = git.run(at, *words, "--", *paths, bytes_max=bytes_max)
    if done.code:
        raise failure(done, "diff", at.top)
    text = done.out.decode("utf-8", "replace")
    if not done.is_cut:
        return text
    whole_lines = text[: text.rfind("\n") + 1]
    return f"{whole_lines}[The rest of this diff is left out: it has more than {bytes_max:,} bytes.]\n"


def merge_base(git: Git, at: Layout, one: str, other: str) -> str:
    """Return the last commit that both have; empty where their histories have none."""
    done = git.run(at, "merge-base", oid_of(one), oid_of(other))
    return done.out.decode().split("\n")[0] if done.code == 0 else ""


def committers(git: Git, at: Layout, tip: str, without: Sequence[str]) -> dict[str, str]:
    """Return the commits that ``tip`` has and none of ``without``, newest first, with the names of their committers."""
    words = (
        "log",
        "-z",
        f"--max-count={COMMITTERS_MAX}",
        "--format=%H %cn",
        oid_of(tip),
        *(f"^{oid_of(one)}" for one in without),
    )
    rows = (row.partition(" ") for row in os.fsdecode(git.out(at, *words)).split("\0") if row)
    return {commit: name for commit, _, name in rows}


def secrets_in(data: bytes) -> dict[str, str]:
    """Return the secrets in ``data`` with their kinds."""
    from periplus.base.text.secrets import find_secrets

    text = data.decode("utf-8", "replace")
    return {text[found.start : found.end]: found.kind for found in find_secrets(text)}


def new_secrets(old: bytes, new: bytes) -> list[str]:
    """Return the kinds of the secrets that ``new`` has and ``old`` has not."""
    found = secrets_in(new)
    known = secrets_in(old) if found else {}
    return sorted({kind for secret, kind in found.items() if secret not in known})


def _secrets_between(git: Git, at: Layout, base: str, tip: str) -> tuple[tuple[FoundSecret, ...], tuple[str, ...]]:
    places: dict[str, set[str]] = {}  # the paths of each added content
    older: set[str] = set()
    words = ("log", "-z", "--raw", "-r", "--no-abbrev", "--no-renames", "--diff-merges=separate", "--format=", *PLAIN)
    for path, before, after in _raw_rows(git.out(at, *words, f"{base}..{tip}")):
        older.add(before)
        if after:
            places.setdefault(after, set()).add(path)
    older -= places.keys()
    found: set[tuple[FoundSecret, str]] = set()
    unsearched: set[str] = set()
    for oid, data in contents(git, at, places):
        if data is None:
            unsearched |= places[oid]
            continue
        for secret, kind in secrets_in(data).items():
            found |= {(FoundSecret(path, kind), secret) for path in places[oid]}
    known = _secrets_of(git, at, older - {""}) if found else set()
    where = {place for place, secret in found if secret not in known} | _secrets_of_messages(git, at, base, tip)
    return tuple(sorted(where)), tuple(sorted(unsearched))


def _secrets_of(git: Git, at: Layout, oids: Iterable[str]) -> set[str]:
    return {secret for _, data in contents(git, at, oids) for secret in secrets_in(data or b"")}


def _secrets_of_messages(git: Git, at: Layout, base: str, tip: str) -> set[FoundSecret]:
    said = git.out(at, "log", "-z", "--format=%H %an <%ae>%n%B", f"{base}..{tip}")
    return {
        FoundSecret(f"message of {message[:12].decode('ascii', 'replace')}", kind)
        for message in said.split(b"\0")
        for kind in secrets_in(message).values()
    }


def _raw_rows(said: bytes) -> Iterator[tuple[str, str, str]]:
    """Return path, old and new id of each changed file; an id is empty where there is no file, and for submodules."""
    fields = iter(os.fsdecode(said).split("\0"))
    for field in fields:
        match = _RAW.fullmatch(field.lstrip("\n"))
        if match is None:
            continue
        old_mode, new_mode, before, after = match.groups()
        path = next(fields, "")
        is_before, is_after = old_mode != _SUBMODULE and before.strip("0"), new_mode != _SUBMODULE and after.strip("0")
        yield path, before if is_before else "", after if is_after else ""


def contents(git: Git, at: Layout, oids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """Return the contents of objects; None for one that is too large, or beyond what is searched in all."""
    wanted = sorted(oids)
    if not wanted:
        return
    said = git.out(at, "cat-file", "--batch-check", said="".join(f"{oid}\n" for oid in wanted).encode())
    batch: list[str] = []
    held = total = 0
    for line in said.decode().splitlines():
        oid, kind, size = (*line.split(" "), "")[:3]
        if kind != "blob" or int(size) > FILE_BYTES_MAX or total + int(size) > SEARCHED_BYTES_MAX:
            yield oid, None
            continue
        total, held = total + int(size), held + int(size)
        batch.append(oid)
        if held > _AT_ONCE_BYTES:
            yield from _batch(git, at, batch)
            batch, held = [], 0
    yield from _batch(git, at, batch)


def _batch(git: Git, at: Layout, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    if not oids:
        return
    said = git.out(at, "cat-file", "--batch", said="".join(f"{oid}\n" for oid in oids).encode())
    begin = 0
    while begin < len(said):
        end = said.index(b"\n", begin)
        oid, _, size = said[begin:end].split(b" ")
        stop = end + 1 + int(size)
        yield oid.decode(), said[end + 1 : stop]
        begin = stop + 1
