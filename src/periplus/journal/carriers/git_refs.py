"""Refs of a git repository as a carrier: ``refs/periplus/<lineage>``, in any repository that we may push to.

Each ref is a commit whose tree has the lineage's segments, the objects that its records name and the signed head. Only its owner moves it,
forward, so pushes never compete. Only after a redaction is it replaced by a commit without parents, because the older commits hold the
removed content.

Git works in a bare repository of its own, a cache that may be deleted: the project's branches, index and worktree are never touched. The
remote repository is not trusted: nothing is checked out, its paths are never used as ours, links and unknown names are ignored, sizes are
checked before bytes are read, and no hook or remote helper runs.
"""

from __future__ import annotations

__all__ = ["GitCarrier", "resolve_remote"]

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Mapping
from typing import IO, TYPE_CHECKING, Final

from periplus.base.clock import Clock
from periplus.base.errors import (
    DamageError,
    EnvironmentFailure,
    NotFoundError,
    PeriplusError,
    UsageError,
    environment_failure,
)
from periplus.base.filesystem.git_files import git_settings
from periplus.base.named_tuple import NamedTuple
from periplus.journal.carriers.carrier import LINEAGES_MAX, SEGMENTS_MAX, is_lineage_name
from periplus.journal.carriers.git_calls import (
    LIST_BYTES_MAX,
    PREFIX,
    SILENCE_S,
    UNTOUCHED,
    NoRoomError,
    StalledError,
    ask,
    git_environment,
)
from periplus.journal.records.segment import segment_first_seq, segment_name
from periplus.journal.storage.lineage import SEGMENT_READ_MAX
from periplus.journal.storage.tree_head import HEAD_BYTES_MAX, SignedHead, decode_head, encode_head
from periplus.objects.store import OBJECT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

_OBJECT_PATH: Final = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{62})")
_TIP: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SETTINGS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.logAllRefUpdates=false",  # redacted content would stay in the reflog
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "gc.bigPackThreshold=0",
    "init.defaultObjectFormat=sha1",
    "init.defaultRefFormat=files",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "push.gpgSign=false",
    "push.recurseSubmodules=no",
)
_TIDY: Final = ("-c", "gc.auto=2000", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet")
_FAILED_FETCHES: Final = 64
_OTHER_NAMES: Final = (
    "hash algorithm",
    "capabilities^{}",
)  # in git's errors for a repository with the other hash
_UNTAKEN: Final = "Nothing of it was taken; the copy here is unchanged."
_NO_REMOTE: Final = ("No such remote", "not a git repository")


class _Blob(NamedTuple):
    mode: str
    id: str
    size: int


class GitCarrier:
    """The lineages in the repository ``url``. ``git_dir`` is the cache, made if it is missing.

    ``connect`` fetches; before that the carrier is empty. ``stores`` are our own store ids.
    """

    needs_heads = True

    def __init__(
        self, url: str, git_dir: str, *, place: str, stores: Collection[str], environment: Mapping[str, str], clock: Clock,
        settings: Iterable[tuple[str, str]] = (), silence_s: float = SILENCE_S,
    ) -> None:  # fmt: skip
        if url.startswith("-"):
            raise UsageError(f"{url[:80]!r} is not a remote", safe="Nothing was changed.")
        self.place = place
        self._url = url
        self._git_dir = git_dir
        self._stores = stores
        self._clock = clock
        self._environment = git_environment(environment, settings)
        self._silence_s = silence_s
        self._tips: dict[str, str] = {}
        self._trees: dict[str, dict[str, _Blob]] = {}
        self._faults: dict[str, PeriplusError] = {}
        self._heads: dict[str, SignedHead | PeriplusError | None] = {}

    def connect(self) -> None:
        """Fetch the repository's refs. Raises EnvironmentFailure if it cannot be reached, stops answering, or git is missing."""
        if not os.path.isfile(os.path.join(self._git_dir, "HEAD")):
            self._make()
        out = self._talk("ls-remote", "--", self._url, "HEAD", f"{PREFIX}*")
        wanted, is_wide = {}, False
        for line in out.decode("utf-8", "replace").splitlines():
            tip, _, ref = line.partition("\t")
            name = ref.removeprefix(PREFIX)
            is_wide |= len(tip) == 64
            if ref.startswith(PREFIX) and is_lineage_name(name) and _TIP.fullmatch(tip):
                wanted[name] = tip
        if len(wanted) > LINEAGES_MAX:
            raise DamageError(f"{self.place}: over {LINEAGES_MAX:,} lineages", safe=UNTOUCHED)
        if out and is_wide != self._is_wide():
            self._forget()
            self._make(is_wide=is_wide)
        self._tips = dict(sorted(wanted.items()))
        self._take_over()

    def _take_over(self) -> None:
        """Update the cache to the repository's refs, and remove refs that are gone: they may hold redacted content."""
        held = self._held()
        gone = [name for name in held if name not in self._tips]
        moved = [name for name, tip in self._tips.items() if held.get(name) != tip]
        is_unswept = os.path.exists(self._unswept)
        if gone or any(name in held for name in moved):
            self._note_unswept()  # after an interruption the next call sweeps
        if gone:
            with tempfile.TemporaryFile() as stream:
                stream.write("".join(f"delete {PREFIX}{name}\n" for name in gone).encode("utf-8", "surrogateescape"))
                stream.seek(0)
                self._git("update-ref", "--stdin", stdin=stream)
        self._fetch(moved)
        replaced = [name for name in moved if name in held and name not in self._faults]
        if is_unswept or gone or any(not self._is_behind(held[name], name) for name in replaced):
            self._sweep()
        elif os.path.exists(self._unswept):
            os.unlink(self._unswept)
        if moved:
            self._tidy()

    def discard_if_spoilt(self) -> bool:
        """Remove the cache if git finds it corrupt, and return whether it did; ``connect`` makes it anew.

        Call it only after a failure, since checking takes time in proportion to the size. Locks in the cache belong to killed commands.
        """
        if not self._is_locked():
            try:
                self._git("fsck", "--full", "--no-dangling", "--no-progress")
            except PeriplusError:
                pass
            else:
                return False
        self._forget()
        return True

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
        del store  # each lineage has its own ref
        return True

    def of_others(self, stores: Collection[str]) -> dict[str, str]:
        heads = {name: self._readable_head(name) for name in self._tips}
        return {
            name: head.head.store for name, head in heads.items() if head is not None and head.head.store not in stores
        }

    def written_lineage(self) -> str:
        return ""

    def lineages(self) -> list[str]:
        """Return the lineages of the store, and those with unreadable heads, which are reported when they are taken."""
        store = self.store_id()
        wanted = self._stores if store in self._stores else (store,)
        heads = {name: self._readable_head(name) for name in self._tips}
        return [name for name, head in heads.items() if head is None or head.head.store in wanted]

    def head(self, lineage: str) -> SignedHead | None:
        if lineage not in self._heads:
            blob = self._tree(lineage).get("head.json")
            try:
                self._heads[lineage] = (
                    decode_head(self._blob(lineage, blob, HEAD_BYTES_MAX), f"{PREFIX}{lineage}:head.json")
                    if blob is not None
                    else None
                )
            except DamageError as error:
                error.safe, error.mend = _UNTAKEN, error.mend or self.removing(lineage)
                self._heads[lineage] = error
        found = self._heads[lineage]
        if isinstance(found, PeriplusError):
            raise found
        return found

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
            raise self._useless(lineage, f"object {text[:16]} of {lineage} does not match its name")
        return data

    # -- giving ------------------------------------------------------------------------------------------------------

    def removing(self, lineage: str) -> str:
        """Return the advice for replacing an unusable ref."""
        return (
            f"Its owner's next `periplus sync` may repair it. Otherwise, if nobody needs its content, remove the ref (`git push {shlex.quote(self.place)} --delete "
            f"{PREFIX}{lineage}`): its owner's next sync puts it there again."
        )

    def _reason(self, error: PeriplusError) -> str:
        return error.wrong.removeprefix(f"git cannot reach or read {self.place}: ").removeprefix(f"{self.place}: ")

    def has_object(self, lineage: str, digest: bytes) -> bool:
        text = digest.hex()
        return lineage in self._tips and f"objects/{text[:2]}/{text[2:]}" in self._tree(lineage)

    def holds(self, lineage: str, segment: int, data: bytes) -> bool | None:
        """Return True if the ref's copy of a segment is a beginning of ``data``; None if it has no copy."""
        blob = self._tree(lineage).get(f"segments/{segment_name(segment)}") if lineage in self._tips else None
        if blob is None:
            return None
        return blob.id == _git_id(data, blob.id) or data.startswith(self.fetch(lineage, segment))

    def push(
        self, lineage: str, head: SignedHead, segments: Iterable[tuple[int, bytes]],
        objects: Iterable[tuple[bytes, bytes]], *, anew: bool,
    ) -> None:  # fmt: skip
        """Move the ref to a commit with these segments and objects added; with ``anew`` to one that has nothing else.

        Raises ConflictError if somebody else moved it meanwhile, EnvironmentFailure if git or the other end refuses.
        """
        ref = f"{PREFIX}{lineage}"
        old = self._tips.get(lineage, "")
        message = f"{lineage}: {head.head.size} records\n"
        seconds = self._clock.now_ms() // 1000
        begin = (
            f"commit {ref}\ncommitter Periplus <periplus@localhost> {seconds} +0000\ndata {len(message)}\n{message}\n"
        )
        if old and not anew:
            begin += f"from {old}\n"
        lease = (f"--force-with-lease={ref}:{old}",) if anew and old else ()
        if lease:
            self._note_unswept()
        with tempfile.TemporaryFile() as stream:
            stream.write(begin.encode())
            for first, data in segments:
                _add(stream, f"segments/{segment_name(first)}", data)
            for digest, data in objects:
                _add(stream, f"objects/{digest.hex()[:2]}/{digest.hex()[2:]}", data)
            _add(stream, "head.json", encode_head(head))
            stream.write(b"\ndone\n")
            try:
                self._send(stream, lineage, lease)
            except EnvironmentFailure as error:
                if old or not any(words in error.wrong for words in _OTHER_NAMES):
                    raise
                is_wide = self._is_wide()  # an empty repository does not state its hash
                self._forget()
                self._make(is_wide=not is_wide)
                self._send(stream, lineage, ())
        self._tips[lineage] = self._held()[lineage]
        self._trees.pop(lineage, None)
        self._heads.pop(lineage, None)
        if lease:
            self._sweep()
        self._tidy()

    def _send(self, stream: IO[bytes], lineage: str, lease: tuple[str, ...]) -> None:
        stream.seek(0)
        self._git("fast-import", "--quiet", "--done", "--force", stdin=stream)
        ref = f"{PREFIX}{lineage}"
        words = ("push", "--progress", "--porcelain", "--no-verify", *lease, "--", self._url, f"{ref}:{ref}")
        self._talk(*words, pushes=lineage)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _readable_head(self, lineage: str) -> SignedHead | None:
        try:
            return self.head(lineage)
        except PeriplusError:
            return None  # reported when the lineage is taken

    @property
    def _unswept(self) -> str:
        return os.path.join(self._git_dir, "periplus-unswept")

    def _note_unswept(self) -> None:
        try:
            with open(self._unswept, "wb"):
                pass
        except OSError as error:
            raise environment_failure(error, "write", self._unswept) from error

    def _make(self, *, is_wide: bool = False) -> None:
        wide = ("--object-format=sha256",) if is_wide else ()
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        self._ask(["git", *settings, "init", "--quiet", "--bare", *wide, "--template=", "--", self._git_dir])

    def _forget(self) -> None:
        shutil.rmtree(self._git_dir, ignore_errors=True)
        self._tips, self._trees, self._faults, self._heads = {}, {}, {}, {}

    def _is_wide(self) -> bool:
        """Return True if the cache names objects by SHA-256."""
        return git_settings(self._git_dir).get("extensions.objectformat", "sha1").lower() == "sha256"

    def _is_locked(self) -> bool:
        return any(name.endswith(".lock") for _, _, names in os.walk(self._git_dir) for name in names)

    def _held(self) -> dict[str, str]:
        """Return the refs of the cache by lineage."""
        out = self._git("for-each-ref", "--format=%(objectname) %(refname)", PREFIX)
        rows = (line.partition(" ") for line in out.decode("utf-8", "surrogateescape").splitlines())
        return {ref.removeprefix(PREFIX): tip for tip, _, ref in rows}

    def _is_behind(self, commit: str, lineage: str) -> bool:
        """Return True if the lineage's ref descends from ``commit``; otherwise it was replaced after a redaction."""
        only_there = self._command("rev-list", "--max-count=1", commit, f"^{PREFIX}{lineage}")
        return not self._ask(only_there, may_fail=True).strip()

    def _sweep(self) -> None:
        """Remove unreachable content from the cache, since it may be redacted. A failure is retried next time."""
        try:
            self._git("gc", "--quiet", "--prune=now")
            os.unlink(self._unswept)
        except (PeriplusError, OSError):
            return

    def _tidy(self) -> None:
        """Pack the many small files that syncs leave."""
        self._ask(self._command(*_TIDY), may_fail=True)

    def _fetch(self, names: list[str]) -> None:
        """Fetch refs; those that git refuses are isolated by halving, so that they do not keep the others from coming."""
        waiting, failed = [names] if names else [], 0
        while waiting:
            part = waiting.pop()
            try:
                self._fetch_refs(part)
            except (StalledError, NoRoomError):
                raise
            except PeriplusError as error:
                failed += 1
                if failed % _FAILED_FETCHES == 0:
                    self._talk(
                        "ls-remote", "--", self._url, "HEAD"
                    )  # fails early if the remote is gone, instead of once for each ref
                if len(part) > 1:
                    waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
                    continue
                self._faults[part[0]] = EnvironmentFailure(
                    f"{self.place}: {PREFIX}{part[0]} cannot be fetched: {self._reason(error)}",
                    safe=_UNTAKEN,
                    mend="Repeat the command. If it persists, run `git fsck` there.",
                )

    def _fetch_refs(self, names: list[str]) -> None:
        specs = [f"+{PREFIX}{name}:{PREFIX}{name}" for name in names]
        self._talk("fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--",
                   self._url, *specs)  # fmt: skip

    def _tree(self, lineage: str) -> dict[str, _Blob]:
        """Return the plain files of the ref's tree with names of our layout, by path."""
        if lineage in self._faults:
            raise self._faults[lineage]
        found = self._trees.get(lineage)
        if found is None:
            tip = self._tips.get(lineage)
            if tip is None:
                return {}
            found = {}
            try:
                listed = self._git("ls-tree", "-r", "-z", "-l", "--full-tree", tip)
            except (EnvironmentFailure, DamageError) as error:
                raise DamageError(
                    f"{self.place}: {PREFIX}{lineage} has no files of a lineage: {self._reason(error)}",
                    safe=_UNTAKEN, mend=self.removing(lineage),
                ) from error  # fmt: skip
            for row in listed.split(b"\0"):
                meta, _, raw = row.partition(b"\t")
                words, path = meta.decode("ascii", "replace").split(), raw.decode("utf-8", "replace")
                if len(words) != 4 or not _is_ours(path):
                    continue
                mode, kind, blob, size = words
                if mode != "100644" or kind != "blob" or not size.isdecimal():
                    raise self._useless(lineage, f"{path} of {lineage} is no plain file")
                found[path] = _Blob(mode, blob, int(size))
            if len(found) > SEGMENTS_MAX:
                raise self._useless(lineage, f"{lineage} has over {SEGMENTS_MAX:,} files")
            self._trees[lineage] = found
        return found

    def _blob(self, lineage: str, blob: _Blob, bytes_max: int) -> bytes:
        if blob.size > bytes_max:
            raise self._useless(lineage, f"a file of {lineage} has {blob.size:,} bytes, over {bytes_max:,}")
        data = self._git("cat-file", "blob", blob.id, bytes_max=blob.size)
        if len(data) != blob.size:
            raise self._useless(lineage, f"a file of {lineage} is not of the size that git states")
        return data

    def _useless(self, lineage: str, what: str) -> DamageError:
        return DamageError(f"{self.place}: {what}", safe=_UNTAKEN, mend=self.removing(lineage))

    def _git(self, *arguments: str, stdin: IO[bytes] | None = None, bytes_max: int = LIST_BYTES_MAX) -> bytes:
        return ask(self._command(*arguments), self._environment, self.place, stdin=stdin, bytes_max=bytes_max)

    def _talk(self, *arguments: str, pushes: str = "") -> bytes:
        """Run a command that talks to the remote, which may stop answering."""
        command = self._command(*arguments)
        return ask(command, self._environment, self.place, pushes=pushes, silence_s=self._silence_s)

    def _ask(self, command: list[str], *, may_fail: bool = False) -> bytes:
        return ask(command, self._environment, self.place, may_fail=may_fail)

    def _command(self, *arguments: str) -> list[str]:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        return ["git", "--no-pager", "--git-dir", self._git_dir, *settings, *arguments]


def resolve_remote(name: str, folder: str, environment: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """Return ``(URL, access settings of the project's repository)`` for a remote's name or a URL.

    Settings that name a program to run are left out, because the project's repository is not trusted.
    """
    if not name or name.startswith("-"):
        raise UsageError(f"{name[:80]!r} is not a remote", safe="Nothing was changed.", mend="See `git remote -v`.")
    cleaned = git_environment(environment, ())
    settings: list[tuple[str, str]] = []
    url, failure = name, None
    if os.path.isdir(folder):
        base = ["git", "--no-pager", "-C", folder, "-c", "core.fsmonitor=false"]
        try:
            found = ask([*base, "remote", "get-url", "--push", "--", name], cleaned, name)
            url = found.decode("utf-8", "surrogateescape").removesuffix("\n") or name
        except EnvironmentFailure as error:
            if error.wrong == "git is not installed":
                raise
            failure = None if any(words in error.wrong for words in _NO_REMOTE) else error
        kinds = "http|url" if url == name else "http"
        listed = ask(
            [*base, "config", "--local", "--null", "--get-regexp", rf"^({kinds})\."], cleaned, name, may_fail=True
        )
        for row in filter(None, listed.split(b"\0")):
            key, _, value = row.decode("utf-8", "surrogateescape").partition("\n")
            settings.append((key, value))
    is_remote = url != name
    if "://" not in url:
        near = os.path.join(folder, url)
        if os.path.isdir(near):
            url = os.path.abspath(near)
        elif ":" not in url or os.path.isabs(url):
            if failure is not None:
                raise failure
            wrong = (
                f"the remote {name} points to {near}, which is not a folder"
                if is_remote
                else f"{name} is not a folder, remote or URL"
            )
            raise UsageError(wrong, safe="Nothing was changed.", mend="See `git remote -v`.")
    if is_remote:  # git has applied insteadOf already; the longest match must now be the URL itself
        settings += [(f"url.{url}.insteadOf", url), (f"url.{url}.pushInsteadOf", url)]
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
