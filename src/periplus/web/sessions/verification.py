"""Verification of a shared file: its trail, its objects, and that its page was made of them.

The page is made again from the trail, with the options that the file notes, and compared byte by byte: text that was
added, changed or removed is found, in the page's head and style too. Where another version of Periplus made the file, its
page may differ without harm, and the comparison says nothing; trail and objects are verified all the same.
"""

from __future__ import annotations

__all__ = ["PageCheck", "SharedReport", "Verdict", "verify_shared_file"]

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import FormatError, NewerFormatError, UsageError
from periplus.trail import Report, verify
from periplus.web.sessions.cleaning import cleaned
from periplus.web.sessions.file_notes import FileNotes
from periplus.web.sessions.file_payload import Block, Carried, read_file_parts, unpacked
from periplus.web.sessions.file_rendering import engine, render_file, renderer_id

Verdict: TypeAlias = Literal["ok", "error", "skipped"]
_CONTEXT: Final = 40


class PageCheck(NamedTuple):
    name: str
    verdict: Verdict
    detail: str
    offset: int | None = None


class SharedReport(NamedTuple):
    """``digest`` is the digest that the file claims for its trail, empty where it has no readable notes. ``trail`` is the
    report of the trail, None where there was none to verify.
    """

    digest: str
    checks: tuple[PageCheck, ...]
    trail: Report | None

    @property
    def is_sound(self) -> bool:
        """True where nothing is wrong, though something may not have been checked."""
        return all(check.verdict != "error" for check in self.checks) and (self.trail is None or self.trail.ok)

    @property
    def is_complete(self) -> bool:
        """True where trail and page were verified."""
        return self.is_sound and self.trail is not None and all(check.verdict == "ok" for check in self.checks)

    @property
    def summary(self) -> str:
        wrong = next((check.detail for check in self.checks if check.verdict == "error"), "")
        if self.trail is not None and not self.trail.ok:
            return f"the trail of this page: {self.trail.summary}"
        if wrong:
            return wrong
        if self.is_complete and self.trail is not None:
            return f"a page that was made of its trail; {self.trail.summary}"
        skipped = next((check.detail for check in self.checks if check.verdict == "skipped"), "")
        return f"its trail is valid, its page was not compared: {skipped}" if self.trail is not None else skipped


def verify_shared_file(
    data: bytes,
    *,
    key: bytes | None = None,
    trail_of: Callable[[bytes], bytes | None] = lambda _digest: None,
    read_object: Callable[[bytes], bytes | None] = lambda _digest: None,
) -> SharedReport:
    """Verify the file. ``trail_of`` and ``read_object`` are the store's, for a file that does not carry its trail."""
    try:
        notes, blocks = read_file_parts(data)
        carried = unpacked(blocks)
    except (FormatError, NewerFormatError) as error:
        return SharedReport("", (PageCheck("file", "error", error.wrong, error.offset),), None)
    if not notes.has_trail and not blocks:
        return _verify_by_store(data, notes, key, trail_of, read_object)
    checks = [_shape(notes, carried)]
    report = verify(carried.trails[0], key=key) if carried.trails else None
    checks += [_same_digest(notes, report), *_objects(notes, carried)]
    checks += _parts(notes, carried)
    checks.append(
        _page(data, notes, carried.trails, carried.objects, blocks) if _is_fine(checks, report) else _not_made()
    )
    return SharedReport(notes.digest, tuple(checks), report)


def _is_fine(checks: Sequence[PageCheck], report: Report | None) -> bool:
    return report is not None and report.ok and all(check.verdict == "ok" for check in checks)


def _not_made() -> PageCheck:
    return PageCheck("page", "skipped", "its trail is not valid, so the page was not compared")


def _shape(notes: FileNotes, carried: Carried) -> PageCheck:
    if not notes.has_trail:
        return PageCheck("file", "error", "data blocks in a file that says that it has none")
    if not carried.trails:
        return PageCheck("file", "error", "the trail that it should carry is missing")
    return PageCheck("file", "ok", f"trails in it: {len(carried.trails):,}, objects: {len(carried.objects):,}")


def _same_digest(notes: FileNotes, report: Report | None) -> PageCheck:
    found = report.digest.hex() if report is not None else ""
    if found and found == notes.digest:
        return PageCheck("digest", "ok", f"the trail has the digest {found} that the file names")
    return PageCheck(
        "digest", "error", f"the file names the digest {notes.digest[:64]}, its trail has {found or 'none'}"
    )


def _objects(notes: FileNotes, carried: Carried) -> list[PageCheck]:
    names = {name.hex() for name in carried.objects}
    if names == set(notes.carried):
        return [PageCheck("objects", "ok", f"the objects are those that the file names: {len(names):,}")]
    return [
        PageCheck(
            "objects", "error", "the objects in the file are not those that it names: one was changed, added or removed"
        )
    ]


def _parts(notes: FileNotes, carried: Carried) -> list[PageCheck]:
    """Verify the trails of subagents."""
    found = []
    for data in carried.trails[1:]:
        report = verify(data)
        if not report.ok:
            return [PageCheck("subagents", "error", f"the trail of a subagent: {report.summary}")]
        found.append(report.digest.hex())
    if tuple(found) != notes.parts:
        return [PageCheck("subagents", "error", "the trails of subagents in the file are not those that it names")]
    return [PageCheck("subagents", "ok", f"the trails of subagents are valid: {len(found):,}")] if found else []


def _verify_by_store(
    data: bytes, notes: FileNotes, key: bytes | None, trail_of: Callable[[bytes], bytes | None],
    read_object: Callable[[bytes], bytes | None],
) -> SharedReport:  # fmt: skip
    """Verify a file without its trail: where the store has a trail with that digest, the page is made of that."""
    found = [_digested(name, trail_of) for name in (notes.digest, *notes.parts)]
    trails = [one for one in found if one is not None]
    if len(trails) < len(found):
        told = (
            f"the file claims the digest {notes.digest[:64]} and does not carry the trail; here is no store with it. Where there is one:"
            f" periplus trail verify FILE.html"
        )
        return SharedReport(notes.digest, (PageCheck("page", "skipped", told),), None)
    report = verify(trails[0], key=key)
    if report.ok:
        trails = [cleaned(one, read_object, frozenset(notes.withheld)).data for one in trails]
    names = [bytes.fromhex(name) for name in notes.carried if _is_digest(name)]
    objects = {name: content for name in names if (content := read_object(name)) is not None}
    checks = [PageCheck("digest", "ok", f"this store has the trail with the digest {notes.digest}")]
    if len(objects) < len(notes.carried):
        checks.append(
            PageCheck(
                "page",
                "skipped",
                f"this store lacks {len(notes.carried) - len(objects):,} of the objects that the page shows",
            )
        )
    else:
        checks.append(_page(data, notes, trails, objects, ()) if report.ok else _not_made())
    return SharedReport(notes.digest, tuple(checks), report)


def _digested(name: str, trail_of: Callable[[bytes], bytes | None]) -> bytes | None:
    return trail_of(bytes.fromhex(name)) if _is_digest(name) else None


def _is_digest(name: str) -> bool:
    return len(name) == 64 and set(name) <= set("0123456789abcdef")


def _page(
    data: bytes, notes: FileNotes, trails: Sequence[bytes], objects: Mapping[bytes, bytes], blocks: Sequence[Block]
) -> PageCheck:
    """Make the page again and compare it."""
    try:
        engine()
    except UsageError:
        return PageCheck("page", "skipped", "to compare the page, install the extra: pip install 'periplus[web]'")
    made = render_file(trails, objects, notes, blocks).data
    if made == data:
        return PageCheck("page", "ok", f"every byte of the page is what {notes.program[:40]} makes of this trail")
    if notes.renderer != renderer_id():
        told = f"made by another version ({notes.program[:40]}, {notes.renderer[:16]}), so the text of the page was not compared with the trail"
        return PageCheck("page", "skipped", f"{told}; see the trail itself, or export it again")
    at = next(
        (place for place, (a, b) in enumerate(zip(made, data, strict=False)) if a != b), min(len(made), len(data))
    )
    near = data[max(0, at - _CONTEXT) : at + _CONTEXT].decode("utf-8", "replace")
    return PageCheck(
        "page",
        "error",
        f"the page was changed: it is not what its trail makes, from byte {at:,}: {' '.join(near.split())}",
        at,
    )
