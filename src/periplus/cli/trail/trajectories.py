"""ATIF documents of trails: their making, and the check that one was made of its trail."""

from __future__ import annotations

__all__ = ["AtifMade", "is_atif_document", "make_atif", "verify_atif"]

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from periplus.cli.trail.inputs import TrailsByDigest, reading

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import FileOut, TrailCheckOut
    from periplus.interop.exports.atif import AtifDocument
    from periplus.interop.exports.trail_source import ExportSource
    from periplus.project import TrailFile
    from periplus.trail import ObjectReader

NOT_VERIFIED: Final = "not verified"
_HEAD_BYTES: Final = 4096
_PATH_MAX: Final = 200
_DEPTH_MAX: Final = 200


class AtifMade(NamedTuple):
    """``digest`` is the trail's, ``withheld`` counts the strings that were taken out of it."""

    document: AtifDocument
    digest: str
    withheld: int


def make_atif(
    data: bytes, store: ObjectReader | None, names: frozenset[str], trail_of: Callable[[bytes], bytes | None]
) -> AtifMade:
    """Return the document of the trail ``data`` without the fields of ``names`` and without secrets."""
    from periplus.interop.exports.atif import atif_document
    from periplus.web.sessions.cleaning import cleaned

    read_object = reading(store)
    withheld = 0

    def source_of(trail: bytes) -> ExportSource:
        nonlocal withheld
        clean = cleaned(trail, read_object, names)
        withheld += clean.withheld
        return _source(clean.data, read_object)

    def subagent(digest: bytes) -> ExportSource | None:
        trail = trail_of(digest)
        return source_of(trail) if trail is not None else None

    source = source_of(data)
    document = atif_document(source, source_of=subagent, withheld=tuple(sorted(names)))
    return AtifMade(document, source.digest.hex(), withheld)


def _source(data: bytes, read_object: Callable[[bytes], bytes | None]) -> ExportSource:
    from periplus.base.errors import NotFoundError
    from periplus.interop.exports.trail_source import ExportSource
    from periplus.trail import open_parts

    def read(sha256: bytes) -> bytes:
        found = read_object(sha256)
        if found is None:
            raise NotFoundError("not in this store")
        return found

    readers = open_parts(data)
    return ExportSource("", data, readers, readers[0].digest, read)


# The check of a file


def is_atif_document(data: bytes) -> bool:
    """Detect an ATIF document from its beginning."""
    return data[:1] == b"{" and b'"ATIF-v' in data[:_HEAD_BYTES]


def verify_atif(
    found: TrailFile, against: TrailFile | None, store: ObjectReader | None, trails: TrailsByDigest, key: bytes | None
) -> FileOut:
    """Verify that the document is what its trail makes: the trail ``against``, or the one of the store with the digest
    that the document names.
    """
    from periplus.cli.trail.schemas import FileOut, TrailCheckOut
    from periplus.trail import verify

    document, facts = _facts(found.data)
    claimed = str(facts.get("digest", ""))[:64]
    if not facts:
        return _wrong(found.name, "", TrailCheckOut("file", "error", "it is no ATIF document that Periplus wrote"))
    trail = against.data if against is not None else _by_digest(trails, claimed)
    if trail is None:
        told = f"the file names the digest {claimed}, and here is no store with that trail: give it with --against"
        return FileOut(
            found.name, claimed, True, told, None, [TrailCheckOut("document", "skipped", told)], page=NOT_VERIFIED
        )
    report = verify(trail, key=key)
    if not report.ok:
        return _wrong(found.name, claimed, TrailCheckOut("trail", "error", f"its trail: {report.summary}"))
    if report.digest.hex() != claimed:
        told = f"the file names the digest {claimed}, the trail has {report.digest.hex()}"
        return _wrong(found.name, claimed, TrailCheckOut("digest", "error", told))
    checks = [TrailCheckOut("digest", "ok", f"the trail has the digest {claimed} that the file names")]
    checks.append(_compared(found.data, document, facts, make_atif(trail, store, _names(facts), trails)))
    verdict = checks[-1].verdict
    if verdict == "error":
        return _wrong(found.name, claimed, *checks)
    page = "verified" if verdict == "ok" else NOT_VERIFIED
    names = sorted(_names(facts))
    without = f" without {', '.join(names)}" if names else ""
    made = f"a trajectory that was made of its trail{without}; {report.summary}"
    summary = made if verdict == "ok" else checks[-1].detail
    return FileOut(found.name, claimed, True, summary, None, checks, page=page)


def _wrong(name: str, digest: str, *checks: TrailCheckOut) -> FileOut:
    from periplus.cli.trail.schemas import FileOut

    return FileOut(name, digest, False, checks[-1].detail, None, list(checks), page="wrong")


def _facts(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document, and what our export noted in it; empty where there is none."""
    import orjson

    from periplus.interop.exports.atif_facts import EXTRA

    try:
        document = orjson.loads(data)
        facts = document["extra"][EXTRA]
    except (ValueError, TypeError, KeyError):
        return {}, {}
    return (document, facts) if isinstance(facts, dict) else ({}, {})


def _by_digest(trails: TrailsByDigest, claimed: str) -> bytes | None:
    try:
        return trails(bytes.fromhex(claimed))
    except ValueError:
        return None


def _names(facts: dict[str, Any]) -> frozenset[str]:
    from periplus.web.sessions.cleaning import NAMES

    withheld = facts.get("withheld")
    names = withheld if isinstance(withheld, list) else []
    return frozenset(name for name in names if isinstance(name, str) and name in NAMES)


def _compared(data: bytes, document: dict[str, Any], facts: dict[str, Any], made: AtifMade) -> TrailCheckOut:
    import orjson

    from periplus.cli.trail.schemas import TrailCheckOut
    from periplus.interop.exports.atif_facts import EXTRA

    if made.document.data == data:
        return TrailCheckOut("document", "ok", "every byte of the document is what this trail makes")
    again = orjson.loads(made.document.data)
    twice = _repeated_name(data)
    if twice is not None:
        return TrailCheckOut(
            "document", "error", f"the document was changed: an object has {twice[:_PATH_MAX]!r} twice"
        )
    if _canonical(again) == _canonical(document):
        return TrailCheckOut(
            "document", "ok", "every value of the document is what this trail makes; its text is laid out anew"
        )
    ours = again["extra"][EXTRA]
    if ours["program"] != facts.get("program") or ours["version"] != facts.get("version"):
        told = f"made by another version ({str(facts.get('program'))[:40]}), so it was not compared; export it again"
        return TrailCheckOut("document", "skipped", told)
    for name, what in (("missing", "long texts"), ("subagents", "trails of subagents")):
        if ours[name] != facts.get(name):
            told = f"{what} are at hand here that were not, or the other way round, so it was not compared"
            return TrailCheckOut("document", "skipped", told)
    return TrailCheckOut(
        "document",
        "error",
        f"the document was changed: it is not what its trail makes, at {_difference(document, again, '', 0)[:_PATH_MAX]}",
    )


def _canonical(value: object) -> bytes:
    import orjson

    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _repeated_name(data: bytes) -> str | None:
    """Return a name that an object has twice: readers differ in which of the two values they take."""
    import json

    found: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                found.append(name)
            seen.add(name)

    try:
        json.loads(data, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return "what no reader takes"
    return found[0] if found else None


def _difference(one: object, other: object, path: str, depth: int) -> str:
    """Return the place of the first value that differs."""
    if depth < _DEPTH_MAX and isinstance(one, dict) and isinstance(other, dict):
        for name in [*other, *one]:
            if name not in one or name not in other:
                return f"{path}.{name}".lstrip(".")
            if one[name] != other[name]:
                return _difference(one[name], other[name], f"{path}.{name}", depth + 1)
    if depth < _DEPTH_MAX and isinstance(one, list) and isinstance(other, list):
        for at, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return _difference(left, right, f"{path}[{at}]", depth + 1)
        return f"{path}[{min(len(one), len(other))}]".lstrip(".")
    return path.lstrip(".") or "its root"
