"""Helpers of the actions that read and write trails of both versions."""

from __future__ import annotations

__all__ = [
    "Tools",
    "as_version_2",
    "check_output",
    "errors_naming",
    "faults_out",
    "flux_reader",
    "read_secret",
    "tell",
    "writing_tools",
]

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from periplus.base.named_tuple import NamedTuple
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.trail.schemas import FaultOut
    from periplus.project import TrailFile
    from periplus.trail.v1.reader import FluxReader

_SECRET_TEXT_MAX: Final = 200
_TOLD_MAX: Final = 20


class Tools(NamedTuple):
    """The trail secret and the place for long texts that a writer of trails needs."""

    secret: Callable[[bytes], bytes]
    put_text: Callable[[bytes], bytes] | None


@contextmanager
def writing_tools(face: Face, secret: bytes | None) -> Iterator[Tools]:
    """Return the tools. With a store, equal sources give equal secrets; without one, the secret is random and long texts are refused."""
    from periplus.base.errors import PeriplusError

    def fixed(source: bytes) -> bytes:
        del source
        return secret if secret is not None else os.urandom(32)

    try:
        project = face.open()
    except PeriplusError:
        if face.store_option is not None:
            raise
        yield Tools(fixed, None)
        return
    with project:
        from periplus.project.trail_store.withholding import Withholding

        yield Tools(fixed if secret is not None else project.trail_secret, Withholding(project).put)


@contextmanager
def errors_naming(name: str) -> Iterator[None]:
    """Add the name of the file to format errors."""
    from periplus.base.errors import FormatError

    try:
        yield
    except FormatError as error:
        if error.path is None:
            error.path = name
        raise


def read_secret(face: Face, name: str | None) -> bytes | None:
    """Return the 32 bytes of a trail secret from a file of 64 hexadecimal digits. Raises UsageError."""
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import read_file

    if name is None:
        return None
    text = read_file(os.path.join(face.cwd, name), _SECRET_TEXT_MAX).decode("ascii", "replace").strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != 32:
        raise UsageError(f"{name} does not contain a trail secret", mend="A secret is 64 hexadecimal digits.")
    return secret


def check_output(source: str, path: str) -> None:
    """Raise UsageError if ``path`` cannot be written, or is the input."""
    from periplus.base.errors import UsageError
    from periplus.cli.common.inputs import check_target

    check_target(path)
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(source, path):
        raise UsageError(f"{path} is the input file", safe="Nothing was written.", mend="Give another --out.")


def flux_reader(found: TrailFile) -> FluxReader:
    """Return a reader of version 1 whose errors name the file."""
    from periplus.trail.v1.reader import FluxReader

    with errors_naming(found.name):
        return FluxReader(found.data)


def as_version_2(found: TrailFile) -> TrailFile:
    """Return ``found``, converted to version 2 if it is version 1; for display only."""
    import hashlib

    from periplus.trail.program import trail_of_program
    from periplus.trail.v1.conversion import converted_from_flux
    from periplus.trail.v1.reader import is_flux

    if not is_flux(found.data):
        return found
    program = converted_from_flux(flux_reader(found), found.data).program
    return found._replace(data=trail_of_program(program, bytes(32), lambda text: hashlib.sha256(text).digest()))


def faults_out(reader: FluxReader) -> list[FaultOut]:
    from periplus.cli.trail.schemas import FaultOut

    return [FaultOut(fault.kind, fault.offset, fault.step, fault.text) for fault in reader.faults]


def tell(face: Face, name: str, sentences: Iterable[str]) -> None:
    """Print the first notes about the file on standard error."""
    told = list(sentences)
    for sentence in told[:_TOLD_MAX]:
        face.stderr.write(f"periplus: {visible(name)}: {visible(sentence)}\n")
    if len(told) > _TOLD_MAX:
        face.stderr.write(f"periplus: {visible(name)}: and {len(told) - _TOLD_MAX:,} more (see --json)\n")
