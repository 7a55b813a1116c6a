"""``--salvage`` of ``trail show`` and ``trail verify``."""

from __future__ import annotations

__all__ = ["check_salvage", "salvage_lines", "salvaged", "salvaged_to"]

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import SalvageOut
    from periplus.project import TrailFile
    from periplus.trail import Salvage


def salvaged(found: TrailFile) -> Salvage:
    """Return the intact part of the trail. Raises DamageError if nothing is left, FormatError if it was never a trail."""
    from periplus.base.encoding.container import MAGIC
    from periplus.base.errors import DamageError, FormatError
    from periplus.trail import salvage

    try:
        return salvage(found.data)
    except FormatError as error:
        safe = "The file was only read."
        if found.data[:4] != MAGIC:
            mend = "Import a session with `periplus trail import`."
            raise FormatError("not a trail of Periplus", path=found.name, safe=safe, mend=mend) from error
        mend = "Import the session again, or get another copy of the file."
        raise DamageError(error.wrong, path=found.name, offset=error.offset, safe=safe, mend=mend) from error


def check_salvage(face: Face, names: list[str], target: str | None) -> None:
    """Raise UsageError unless one trail is named and ``target`` can be written."""
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import check_target

    if target is None:
        return
    safe = "Nothing was written."
    if len(names) != 1:
        raise UsageError("--salvage takes one TRAIL", safe=safe, mend="Name the damaged one.")
    path = face.path(target)
    check_target(path)
    source = os.path.join(face.cwd, names[0])
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise UsageError("this would overwrite the damaged file", safe=safe, mend="Name another FILE.")


def salvaged_to(found: TrailFile, path: str) -> SalvageOut:
    from periplus.base.files import Files, write_atomic
    from periplus.cli.trail.schemas import SalvageOut
    from periplus.trail import open_parts, verify

    kept = salvaged(found)
    write_atomic(Files(), path, kept.data)
    steps = sum(reader.step_count for reader in open_parts(kept.data))
    return SalvageOut(path, verify(kept.data).digest.hex(), steps, list(kept.lost), kept.is_exact)


def salvage_lines(salvage: SalvageOut) -> Iterator[str]:
    yield f"Wrote the intact part to {visible(salvage.path)}: {salvage.steps:,} steps, including a comment about the loss"
    for what in salvage.lost:
        yield f"  lost  {visible(what)}"
    if not salvage.exact:
        yield "  the kept part may contain errors, because the digest does not show where the file was changed"
