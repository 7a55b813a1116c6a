"""``periplus trail verify``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, counted, visible
from periplus.cli.trail.inputs import TrailsByDigest, named_trail, trail_reader

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import FileOut, SalvageOut
    from periplus.journal.recovery.removed_content import Removed
    from periplus.project import TrailFile
    from periplus.trail import ObjectReader

NOT_VERIFIED: Final = "not verified"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "trails",
        nargs="*",
        metavar="TRAIL",
        help="ids, digests or files, exported pages (HTML) and trajectories (ATIF) too (default: every trail of the store)",
    )
    add("--against", metavar="TRAIL", help="the trail that an exported trajectory (ATIF) must have been made of")
    add("--salvage", metavar="FILE", help="write the intact part of one damaged TRAIL to FILE")
    add("--key", metavar="HEX|FILE", help="the Ed25519 public key that must have signed it")
    from periplus.cli.trail.effects import configure_effects

    configure_effects(parser)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.base.errors import UsageError
    from periplus.cli.trail.effects import check_effects, effect_lines, effects_of, is_shown
    from periplus.cli.trail.salvage import check_salvage, salvage_lines, salvaged_to
    from periplus.cli.trail.schemas import TrailVerifyOut
    from periplus.cli.trail.trajectories import is_atif_document, verify_atif

    key = _key(arguments.key)
    against = _against(face, arguments)
    check_salvage(face, arguments.trails, arguments.salvage)
    repository = check_effects(face, arguments)
    parents = TrailsByDigest(face)
    is_redacted = _Redacted(face)
    files: list[FileOut] = []
    salvaged: SalvageOut | None = None
    for named, store, trouble in _to_verify(face, arguments.trails):
        found = named
        if not trouble and is_atif_document(found.data):
            files.append(verify_atif(found, against, store, parents, key))
        elif against is not None:
            raise UsageError(f"{found.name} is no trajectory in ATIF, and --against is for these",
                             safe="The file was only read.", mend="Omit --against.")  # fmt: skip
        else:
            files.append(_verified(found, store, trouble, key, parents, is_redacted))
        if arguments.effects and files[-1].ok and not files[-1].page:
            files[-1].effects = effects_of(face, found, store, repository)
        if arguments.salvage is not None and not files[-1].ok:
            if trouble:
                found, _ = named_trail(face, found.name, remains=True)
            salvaged = salvaged_to(found, os.path.join(face.cwd, arguments.salvage))
    is_ok = all(file.ok for file in files)

    def lines() -> Iterator[str]:
        paint = face.palette
        for file in files:
            mark = f"{paint.good}verified{paint.end}" if file.ok else f"{paint.bad}WRONG{paint.end}"
            if file.page == NOT_VERIFIED:
                mark = f"{paint.warn}{file.page}{paint.end}"
            yield f"{mark}  {visible(file.name)}  {visible(file.summary)}"
            yield from effect_lines(face, file)
            if file.ok and file.page != NOT_VERIFIED and (len(files) > 1 or file.effects is not None):
                continue
            reached = [check for check in file.checks if check.detail != "not reached"]
            for check in reached:
                yield f"  {check.verdict:8} {check.name:10} {visible(check.detail)}"
            if len(reached) < len(file.checks):
                yield f"  {len(file.checks) - len(reached)} more checks were not reached"
        if not files:
            yield "No trails to verify."
        if salvaged is not None:
            yield from salvage_lines(salvaged)

    is_complete = is_shown(files) and all(file.page != NOT_VERIFIED for file in files)
    return face.emit(TrailVerifyOut(is_ok, files, salvaged), lines, 3 if not is_ok else 0 if is_complete else 1)


def _against(face: Face, arguments: argparse.Namespace) -> TrailFile | None:
    """Return the trail that the one named file is compared with."""
    from periplus.base.errors import UsageError

    if arguments.against is None:
        return None
    if len(arguments.trails) != 1:
        raise UsageError("--against takes one file", mend="Name the exported file: trail verify FILE --against TRAIL")
    found, _ = named_trail(face, arguments.against)
    trail_reader(found)
    return found


class _Redacted:
    """Tells whether an object was redacted in this store, which is opened when the first one is missing."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._removed: Removed | None = None

    def __call__(self, digest: bytes) -> bool:
        from periplus.base.errors import PeriplusError
        from periplus.journal.recovery.removed_content import Removed, taken_out

        if self._removed is None:
            self._removed = Removed()
            try:
                with self._face.open() as project:
                    self._removed = taken_out(project.journal)
            except PeriplusError:
                pass  # without a store there are no redactions
        return digest in self._removed


def _verified(
    found: TrailFile, store: ObjectReader | None, trouble: str, key: bytes | None, parents: TrailsByDigest,
    is_redacted: _Redacted,
) -> FileOut:  # fmt: skip
    from periplus.cli.trail.schemas import FileOut, TrailCheckOut
    from periplus.trail import verify

    if trouble:
        return FileOut(found.name, "", False, trouble, None, [TrailCheckOut("object", "error", trouble)])
    if found.data[:1] == b"\xa0":
        return _verified_flux(found)
    if found.data[:1] in (b"<", b" ", b"\n") and (page := _verified_page(found, store, key, parents)) is not None:
        return page
    report = verify(
        found.data, store=store, key=key, parent_of=parents if store is not None else None, is_redacted=is_redacted
    )
    checks = [TrailCheckOut(check.name, check.verdict, check.detail) for check in report.checks]
    return FileOut(found.name, report.digest.hex(), report.ok, report.summary, report.offset, checks)


def _verified_page(
    found: TrailFile, store: ObjectReader | None, key: bytes | None, trails: TrailsByDigest
) -> FileOut | None:
    """Verify a page that ``trail export --format html`` wrote; None for any other file."""
    from periplus.base.errors import PeriplusError
    from periplus.cli.trail.schemas import FileOut, TrailCheckOut
    from periplus.web.sessions.file_payload import is_shared_file
    from periplus.web.sessions.verification import verify_shared_file

    if not is_shared_file(found.data):
        return None

    def read(digest: bytes) -> bytes | None:
        try:
            return store.get(digest) if store is not None else None
        except PeriplusError:
            return None

    report = verify_shared_file(found.data, key=key, trail_of=trails, read_object=read)
    checks = [TrailCheckOut(check.name, check.verdict, check.detail) for check in report.checks]
    if report.trail is not None:
        checks += [TrailCheckOut(f"trail: {check.name}", check.verdict, check.detail) for check in report.trail.checks]
    offset = next((check.offset for check in report.checks if check.verdict == "error"), None)
    page = "verified" if report.is_complete else NOT_VERIFIED if report.is_sound else "wrong"
    return FileOut(found.name, report.digest, report.is_sound, report.summary, offset, checks, page=page)


def _verified_flux(found: TrailFile) -> FileOut:
    """Verify a trail of version 1, which has neither digest nor signature."""
    import hashlib

    from periplus.base.errors import FormatError
    from periplus.cli.trail.schemas import FileOut, TrailCheckOut
    from periplus.trail.v1.reader import FluxReader

    digest = hashlib.sha256(found.data).hexdigest()
    try:
        reader = FluxReader(found.data)
    except FormatError as error:
        check = TrailCheckOut("framing", "error", error.wrong)
        return FileOut(found.name, digest, False, f"damaged: {error.wrong}", error.offset, [check])
    checks = [TrailCheckOut(fault.kind, "error", f"byte {fault.offset}: {fault.text}") for fault in reader.faults]
    if reader.is_sound:
        checks = [TrailCheckOut("framing", "ok", "steps, totals, keys and strings are valid version 1")]
    checks.append(
        TrailCheckOut("digest", "skipped", "version 1 has no digest and no signature; the SHA-256 of the file is shown")
    )
    steps = f"{counted(reader.step_count, 'steps')}, version 1"
    first = reader.faults[0] if reader.faults else None
    summary = f"sound: {steps}" if first is None else f"not sound: {counted(reader.fault_count, 'faults')} in {steps}"
    return FileOut(found.name, digest, first is None, summary, None if first is None else first.offset, checks)


def _to_verify(face: Face, names: list[str]) -> Iterator[tuple[TrailFile, ObjectReader | None, str]]:
    """Yield each trail with the objects of its store, or the reason why it cannot be read."""
    from periplus.base.errors import DamageError, NotFoundError
    from periplus.project import TrailFile

    if names:
        for name in names:
            try:
                yield (*named_trail(face, name), "")
            except DamageError as error:
                yield TrailFile(name, b""), None, str(error)
        return
    with face.open() as project:
        for trail in project.trails():
            try:
                yield project.trail_bytes(trail.item_id), project.journal.objects, ""
            except (DamageError, NotFoundError) as error:
                yield TrailFile(trail.item_id, b""), None, str(error)


def _key(text: str | None) -> bytes | None:
    from periplus.cli.common.inputs import read_public_key

    return None if text is None else read_public_key(text)
