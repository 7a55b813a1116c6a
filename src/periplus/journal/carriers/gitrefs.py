"""Refs of a git repository as a carrier: ``refs/periplus/<lineage>``, in any repository that we may push to.

Each ref is a commit whose tree has the lineage's segments, the objects that its records name and the signed head. Only
its owner moves it, forward; a push can therefore never meet another's. Only where content was taken out of a record is it replaced
by a commit without a past, for the past has what was taken out.

Git works in a bare repository of its own, a cache that may be deleted: the project's branches, index and worktree are
never touched. The repository at the other end may be anybody's: nothing is checked out, no path of it becomes one of
ours, links and odd names count for nothing, sizes are known before bytes are read, no hook and no remote helper runs.
"""

from __future__ import annotations

__all__ = ["GitCarrier", "resolve_remote"]

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from typing import IO, TYPE_CHECKING, Final

from periplus.base.clock import Clock
from periplus.base.errors import (
    ConflictError,
    DamageError,
    EnvironmentFailure,
    NotFoundError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.tuples import NamedTuple
from periplus.journal.carriers.carrier import (
    HEAD_BYTES_MAX,
    LINEAGES_MAX,
    SEGMENTS_MAX,
    SignedHead,
    decode_head,
    encode_head,
    is_lineage_name,
)
from periplus.journal.lineage import SEGMENT_READ_MAX
from periplus.journal.segment import segment_first_seq, segment_name
from periplus.objects.store import OBJECT_BYTES_MAX

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

_PREFIX: Final = "refs/periplus/"
_LIST_BYTES_MAX: Final = 64 << 20
_ERROR_BYTES_MAX: Final = 4096
_OBJECT_PATH: Final = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{62})")
_KEPT: Final = frozenset({"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"})
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "push.gpgSign=false",
    "push.recurseSubmodules=no",
)
_UNTOUCHED: Final = "Nothing was changed there."


class _Blob(NamedTuple):
    mode: str
    id: str
    size: int


class GitCarrier:
    """The lineages in the repository ``url``. ``git_dir`` is the cache, made where it is missing.

    ``connect`` fetches; before it there is nothing. ``store`` is our own store's id.
    """

    needs_heads = True

    def __init__(
        self, url: str, git_dir: str, *, place: str, stores: Collection[str], environment: Mapping[str, str], clock: Clock,
        settings: Iterable[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        if url.startswith("-"):
            raise UsageError(f"{url[:80]!r} is no remote", safe="Nothing was changed.")
        self.place = place
        self._url = url
        self._git_dir = git_dir
        self._stores = stores
        self._clock = clock
        self._environment = _environment(environment, settings)
        self._tips: dict[str, str] = {}
        self._trees: dict[str, dict[str, _Blob]] = {}
        self._faults: dict[str, PeriplusError] = {}

    def connect(self) -> None:
        """Fetch what the repository has. Raises EnvironmentFailure where it cannot be reached, or git is missing."""
        if not os.path.isfile(os.path.join(self._git_dir, "HEAD")):
            _call(
                ["git", "init", "--quiet", "--bare", "--template=", "--", self._git_dir], self._environment, self.place
            )
        out = self._git("ls-remote", "--refs", "--", self._url, f"{_PREFIX}*")
        wanted = {}
        for line in out.decode("utf-8", "replace").splitlines():
            tip, _, ref = line.partition("\t")
            name = ref.removeprefix(_PREFIX)
            if ref.startswith(_PREFIX) and is_lineage_name(name) and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", tip):
                wanted[name] = tip
        if len(wanted) > LINEAGES_MAX:
            raise DamageError(f"{self.place}: over {LINEAGES_MAX:,} lineages", safe=_UNTOUCHED)
        self._tips = dict(sorted(wanted.items()))
        moved = {name: held for name, tip in self._tips.items() if (held := self._cached(name)) != tip}
        self._fetch(list(moved))
        if any(held and not self._is_behind(held, name) for name, held in moved.items() if name not in self._faults):
            self._sweep()

    def discard_if_spoilt(self) -> bool:
        """Remove the cache where git finds it broken, and say whether it was: ``connect`` makes it anew. Asked only of what
        failed: to look through all of it takes as long as it is large.
        """
        command = self._command("fsck", "--full", "--no-dangling", "--no-progress")
        try:
            _call(command, self._environment, self.place)
        except PeriplusError:
            shutil.rmtree(self._git_dir, ignore_errors=True)
            self._tips, self._trees, self._faults = {}, {}, {}
            return True
        return False

    # -- what a carrier is asked -------------------------------------------------------------------------------------

    def store_id(self) -> str:
        found = self._found_stores()
        return next(
            (store for store in found if store in self._stores), found[0] if found else next(iter(self._stores))
        )

    def _found_stores(self) -> list[str]:
        return [head.head.store for name in self._tips if (head := self._readable_head(name)) is not None]

    def store_ids(self) -> frozenset[str]:
        return frozenset(self._found_stores())

    def takes(self, store: str) -> bool:
        del store  # each lineage has a ref of its own
        return True

    def of_others(self, stores: Collection[str]) -> dict[str, str]:
        heads = {name: self._readable_head(name) for name in self._tips}
        return {
            name: head.head.store for name, head in heads.items() if head is not None and head.head.store not in stores
        }

    def written_lineage(self) -> str:
        return ""

    def lineages(self) -> list[str]:
        """Those of the store, and those of which nobody can tell: whoever takes them will say what is wrong."""
        store = self.store_id()
        wanted = self._stores if store in self._stores else (store,)
        heads = {name: self._readable_head(name) for name in self._tips}
        return [name for name, head in heads.items() if head is None or head.head.store in wanted]

    def head(self, lineage: str) -> SignedHead | None:
        blob = self._tree(lineage).get("head.json")
        if blob is None:
            return None
        return decode_head(self._blob(lineage, blob, HEAD_BYTES_MAX), f"{_PREFIX}{lineage}:head.json")

    def key(self, lineage: str) -> bytes | None:
        head = self.head(lineage)
        return head.public_key if head is not None else None

    def durable_seq(self, lineage: str) -> int | None:
        del lineage
        return None

    def is_synced(self) -> bool:
        return True

    def segments(self, lineage: str) -> list[int]:
        names = [path.removeprefix("segments/") for path in self._tree(lineage) if path.startswith("segments/")]
        return sorted(first for name in names if (first := segment_first_seq(name)) is not None)

    def fetch(self, lineage: str, segment: int) -> bytes:
        blob = self._tree(lineage).get(f"segments/{segment_name(segment)}")
        if blob is None:
            raise NotFoundError(f"{self.place}: {lineage} has no segment {segment}")
        return self._blob(lineage, blob, SEGMENT_READ_MAX)

    def object(self, lineage: str, digest: bytes) -> bytes:
        text = digest.hex()
        blob = self._tree(lineage).get(f"objects/{text[:2]}/{text[2:]}")
        if blob is None:
            raise NotFoundError(f"{self.place}: {lineage} has no object {text}")
        data = self._blob(lineage, blob, OBJECT_BYTES_MAX)
        if hashlib.sha256(data).digest() != digest:
            raise DamageError(f"{self.place}: object {text[:16]} of {lineage} is not what its name stands for")
        return data

    # -- giving ------------------------------------------------------------------------------------------------------

    def has_object(self, lineage: str, digest: bytes) -> bool:
        text = digest.hex()
        return lineage in self._tips and f"objects/{text[:2]}/{text[2:]}" in self._tree(lineage)

    def holds(self, lineage: str, segment: int, data: bytes) -> bool | None:
        """Whether the ref's copy of a segment begins ``data``; None where it has none of it."""
        blob = self._tree(lineage).get(f"segments/{segment_name(segment)}") if lineage in self._tips else None
        if blob is None:
            return None
        return blob.id == _git_id(data, blob.id) or data.startswith(self.fetch(lineage, segment))

    def push(
        self, lineage: str, head: SignedHead, segments: Iterable[tuple[int, bytes]],
        objects: Iterable[tuple[bytes, bytes]], *, anew: bool,
    ) -> None:  # fmt: skip
        """Move the ref to a commit with these segments and objects added; ``anew``: to one that has nothing else.

        Raises ConflictError where somebody else moved it meanwhile, EnvironmentFailure where git or the other end refuses.
        """
        ref = f"{_PREFIX}{lineage}"
        old = self._tips.get(lineage, "")
        message = f"{lineage}: {head.head.size} records\n"
        seconds = self._clock.now_ms() // 1000
        begin = (
            f"commit {ref}\ncommitter Periplus <periplus@localhost> {seconds} +0000\ndata {len(message)}\n{message}\n"
        )
        if old and not anew:
            begin += f"from {old}\n"
        with tempfile.TemporaryFile() as stream:
            stream.write(begin.encode())
            for first, data in segments:
                _add(stream, f"segments/{segment_name(first)}", data)
            for digest, data in objects:
                _add(stream, f"objects/{digest.hex()[:2]}/{digest.hex()[2:]}", data)
            _add(stream, "head.json", encode_head(head))
            stream.write(b"\ndone\n")
            stream.seek(0)
            self._git("fast-import", "--quiet", "--done", "--force", stdin=stream)
        lease = (f"--force-with-lease={ref}:{old}",) if anew and old else ()
        self._git(
            "push", "--quiet", "--porcelain", "--no-verify", *lease, "--", self._url, f"{ref}:{ref}", pushes=lineage
        )
        self._tips[lineage] = self._cached(lineage)
        self._trees.pop(lineage, None)
        if anew and old:
            self._sweep()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _readable_head(self, lineage: str) -> SignedHead | None:
        try:
            return self.head(lineage)
        except PeriplusError:
            return None  # told when somebody takes the lineage

    def _cached(self, lineage: str) -> str:
        command = self._command("rev-parse", "--verify", "--quiet", f"{_PREFIX}{lineage}")
        return _ask(command, self._environment, self.place, may_fail=True).decode("ascii", "replace").strip()

    def _is_behind(self, commit: str, lineage: str) -> bool:
        """Whether the lineage's ref goes on from ``commit``: else it was replaced, by one without what was redacted."""
        only_there = self._command("rev-list", "--max-count=1", commit, f"^{_PREFIX}{lineage}")
        return not _ask(only_there, self._environment, self.place, may_fail=True).strip()

    def _sweep(self) -> None:
        """Take out of the cache what no ref leads to any more: what was redacted has to go here too."""
        _ask(self._command("gc", "--quiet", "--prune=now"), self._environment, self.place, may_fail=True)

    def _fetch(self, names: list[str]) -> None:
        if not names:
            return
        try:
            self._fetch_refs(names)
        except PeriplusError as error:
            if len(names) == 1:
                self._faults[names[0]] = error
                return
            for name in names:  # one that git refuses must not keep the others from coming
                self._fetch([name])

    def _fetch_refs(self, names: list[str]) -> None:
        specs = [f"+{_PREFIX}{name}:{_PREFIX}{name}" for name in names]
        self._git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--",
                  self._url, *specs)  # fmt: skip

    def _tree(self, lineage: str) -> dict[str, _Blob]:
        """The plain files of the ref's tree that have names of ours, by path."""
        if lineage in self._faults:
            raise self._faults[lineage]
        found = self._trees.get(lineage)
        if found is None:
            tip = self._tips.get(lineage)
            if tip is None:
                return {}
            found = {}
            for row in self._git("ls-tree", "-r", "-z", "-l", "--full-tree", tip).split(b"\0"):
                meta, _, raw = row.partition(b"\t")
                words, path = meta.decode("ascii", "replace").split(), raw.decode("utf-8", "replace")
                if len(words) != 4 or not _is_ours(path):
                    continue
                mode, kind, blob, size = words
                if mode != "100644" or kind != "blob" or not size.isdecimal():
                    raise DamageError(f"{self.place}: {path} of {lineage} is no plain file", safe=_UNTOUCHED)
                found[path] = _Blob(mode, blob, int(size))
            if len(found) > SEGMENTS_MAX:
                raise DamageError(f"{self.place}: {lineage} has over {SEGMENTS_MAX:,} files", safe=_UNTOUCHED)
            self._trees[lineage] = found
        return found

    def _blob(self, lineage: str, blob: _Blob, bytes_max: int) -> bytes:
        if blob.size > bytes_max:
            raise DamageError(f"{self.place}: a file of {lineage} has {blob.size:,} bytes, over {bytes_max:,}")
        data = self._git("cat-file", "blob", blob.id, bytes_max=blob.size)
        if len(data) != blob.size:
            raise DamageError(f"{self.place}: a file of {lineage} is not of the size that git states")
        return data

    def _git(
        self, *arguments: str, stdin: IO[bytes] | None = None, bytes_max: int = _LIST_BYTES_MAX, pushes: str = ""
    ) -> bytes:
        return _ask(
            self._command(*arguments), self._environment, self.place, stdin=stdin, bytes_max=bytes_max, pushes=pushes
        )

    def _command(self, *arguments: str) -> list[str]:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        return ["git", "--no-pager", "--git-dir", self._git_dir, *settings, *arguments]


def resolve_remote(name: str, folder: str, environment: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """``(URL, settings of the project's repository for reaching it)`` of a remote's name, or of what is a URL itself.

    Settings that name a program to run are left out: the project's repository may be anybody's.
    """
    if not name or name.startswith("-"):
        raise UsageError(f"{name[:80]!r} is no remote", safe="Nothing was changed.", mend="See `git remote -v`.")
    cleaned = _environment(environment, ())
    settings = []
    url = name
    if os.path.isdir(folder):
        base = ["git", "--no-pager", "-C", folder, "-c", "core.fsmonitor=false"]
        found = _ask([*base, "remote", "get-url", "--push", "--", name], cleaned, name, may_fail=True)
        url = found.decode("utf-8", "surrogateescape").strip() or name
        listed = _ask(
            [*base, "config", "--local", "--null", "--get-regexp", r"^(http|url)\."], cleaned, name, may_fail=True
        )
        for row in filter(None, listed.split(b"\0")):
            key, _, value = row.decode("utf-8", "surrogateescape").partition("\n")
            settings.append((key, value))
    if "://" not in url:
        near = os.path.join(folder, url)
        if os.path.isdir(near):
            url = os.path.abspath(near)
        elif ":" not in url or os.path.isabs(url):
            wrong = (
                f"the remote {name} leads to {near}, where no folder is"
                if url != name
                else f"{name} is no folder, remote or URL"
            )
            raise UsageError(wrong, safe="Nothing was changed.", mend="See `git remote -v`.")
    return url, settings


def _is_ours(path: str) -> bool:
    folder, _, name = path.partition("/")
    if folder == "segments":
        return segment_first_seq(name) is not None
    return path == "head.json" or _OBJECT_PATH.fullmatch(path) is not None


def _add(stream: IO[bytes], path: str, data: bytes) -> None:
    stream.write(f"M 100644 inline {path}\ndata {len(data)}\n".encode())
    stream.write(data)
    stream.write(b"\n")


def _git_id(data: bytes, like: str) -> str:
    kind = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


def _environment(environment: Mapping[str, str], settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    # A hook of git leaves variables that would lead us into its repository; how its user logs in is kept.
    kept = {key: value for key, value in environment.items() if not key.startswith("GIT_") or key in _KEPT}
    given = list(settings)
    for number, (key, value) in enumerate(given):
        kept |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return kept | {
        "GIT_CONFIG_COUNT": str(len(given)),
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def _call(command: list[str], environment: dict[str, str], place: str) -> None:
    _ask(command, environment, place)


def _ask(
    command: list[str], environment: dict[str, str], place: str, *, stdin: IO[bytes] | None = None,
    bytes_max: int = _LIST_BYTES_MAX, pushes: str = "", may_fail: bool = False,
) -> bytes:  # fmt: skip
    """What git prints, at most ``bytes_max`` of it. Raises EnvironmentFailure, ConflictError for a push that was rejected."""
    import subprocess

    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                command, env=environment, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        except FileNotFoundError as error:
            raise EnvironmentFailure("git is not installed", safe=_UNTOUCHED,
                                     mend="Install git, then repeat the command.") from error  # fmt: skip
        except OSError as error:
            raise environment_failure(error, "run git") from error
        with process:
            assert process.stdout is not None
            out = process.stdout.read(bytes_max + 1)
            if len(out) > bytes_max:
                process.kill()
                raise DamageError(f"{place}: git says more than {bytes_max:,} bytes", safe=_UNTOUCHED)
        if process.returncode == 0:
            return out
        if may_fail:
            return b""
        errors.seek(0)
        said = errors.read(_ERROR_BYTES_MAX).decode("utf-8", "replace")
    raise _failure(process, said, out.decode("utf-8", "replace"), place, pushes)


def _failure(process: subprocess.Popen[bytes], said: str, out: str, place: str, pushes: str) -> PeriplusError:
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")]
    first = next((line for line in lines if line.startswith(("fatal:", "error:", "remote:"))), "")
    reason = first or (lines[-1] if lines else f"exit code {process.returncode}")
    rejected = next((line for line in out.splitlines() if line.startswith("!")), "")
    if (
        pushes
        and rejected
        and ("fetch first" in rejected or "non-fast-forward" in rejected or "stale info" in rejected)
    ):
        return ConflictError(f"{place}: somebody else moved {_PREFIX}{pushes}, which only this store writes", safe=_UNTOUCHED,
                             mend="Repeat the command; if it goes on, another store has the same lineage: see `periplus doctor`.")  # fmt: skip
    if pushes and rejected:
        return EnvironmentFailure(f"{place} rejected the push: {rejected.split(chr(9))[-1]}", safe=_UNTOUCHED,
                                  mend="Ask whoever keeps that repository to allow refs/periplus/*.")  # fmt: skip
    return EnvironmentFailure(f"git cannot reach or read {place}: {reason}", safe="Nothing was lost.",
                              mend="Try `git ls-remote` with it.")  # fmt: skip
