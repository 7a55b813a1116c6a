"""One file to the rows of the index; runs in this process or in a worker."""

from __future__ import annotations

__all__ = [
    "Contents",
    "Job",
    "Row",
    "contents_of",
    "extractor_for",
    "extractor_version",
    "language_of_contents",
    "row_of_contents",
]

import hashlib
import importlib.util
import os
import sys
from functools import cache
from typing import Final, Literal, NamedTuple

import msgspec

from periplus.code.index.file_reader import FileReader
from periplus.code.languages.registry import language_key, row_of
from periplus.code.languages.table import Language
from periplus.code.limits import HAS_OWN_PARSER, SOURCE_BYTES_MAX
from periplus.code.model import FACTS_VERSION, KINDS, Facts, encode_facts, module_stem

EXTRACTOR_VERSION: Final = 4
NAME_CHARACTERS_MAX: Final = 200
HEAD_BYTES: Final = 256
OWN_MARK: Final = "+own"


class Job(NamedTuple):
    """A file to parse. ``is_own`` where the project says that it is not generated, whatever it looks like."""

    path: str
    algorithm: Literal["sha1", "sha256"] = "sha1"
    is_own: bool = False


class Row(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Rows of the index for one content. An ``oid`` is empty where the file could not be read.

    ``definitions`` are (name, number in the facts, flags): bit 0 exported, 1 test, 2 within another, from bit 3 on the kind.
    """

    oid: bytes
    language: str
    extractor: str
    state: str
    why: str = ""
    size: int = 0
    lines: int = 0
    facts: bytes = b""
    definitions: tuple[tuple[str, int, int], ...] = ()
    mentions: tuple[str, ...] = ()
    package: str = ""


def extractor_version(row: Language) -> str:
    """Return the version of what makes the facts of ``row``: of the extractor, and of the parser by its file;
    without a parser of Python that of its own module ``ast``, which is the interpreter's.
    """
    return _version(row.module, has_own_parser=row.name == HAS_OWN_PARSER)


@cache
def _version(module: str, *, has_own_parser: bool) -> str:
    spec = importlib.util.find_spec(module)
    base = f"{FACTS_VERSION}.{EXTRACTOR_VERSION}"
    if spec is None or spec.origin is None or importlib.util.find_spec("tree_sitter") is None:
        return f"{base}-ast-{sys.version_info.major}.{sys.version_info.minor}" if has_own_parser else f"{base}-none"
    try:
        with os.scandir(os.path.dirname(spec.origin)) as entries:
            libraries = [
                entry.stat() for entry in sorted(entries, key=lambda entry: entry.name) if entry.name.endswith(".so")
            ]
    except OSError:
        libraries = []
    return "-".join((base, *(f"{one.st_size}.{one.st_mtime_ns}" for one in libraries)))


class Contents(NamedTuple):
    """Contents of one file, with git's id of it; without data ``why`` says why not."""

    oid: bytes = b""
    data: bytes | None = None
    state: str = ""
    why: str = ""


def contents_of(reader: FileReader, job: Job) -> Contents:
    """Read one file. Raises nothing; a file that cannot be read, or is too large, has no data."""
    try:
        data = reader.read(job.path, SOURCE_BYTES_MAX)
    except OSError as error:
        return Contents(state="failed", why=f"it cannot be read: {error.strerror}")
    if data is None:
        return Contents(state="too_large")
    oid = hashlib.new(job.algorithm, b"blob %d\0%b" % (len(data), data), usedforsecurity=False).digest()
    return Contents(oid, data)


def language_of_contents(contents: Contents, job: Job) -> Language | None:
    """Return the language of a file by its name, or by the interpreter that it names."""
    return row_of(job.path, (contents.data or b"")[:HEAD_BYTES])


def extractor_for(row: Language, *, is_own: bool) -> str:
    """Return the version of what makes the facts of a file. Where the project says that a file is its own, marks of generators in it do not
    count, so that its facts are others than those of the same contents elsewhere.
    """
    return f"{extractor_version(row)}{OWN_MARK if is_own else ''}"


def row_of_contents(contents: Contents, job: Job) -> Row:
    """Parse what was read. Raises nothing."""
    from periplus.code.extraction.parse import parse_source
    from periplus.code.listing.classification import state_of_contents

    row = language_of_contents(contents, job)
    if row is None:
        return Row(b"", "", "", contents.state or "unsupported", contents.why)
    key, extractor = language_key(row), extractor_for(row, is_own=job.is_own)
    data = contents.data
    if data is None:
        return Row(b"", key, extractor, contents.state, contents.why)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    plain = Row(contents.oid, key, extractor, "", "", len(data), lines)
    state = "" if job.is_own else state_of_contents(job.path, data)
    if state:
        return msgspec.structs.replace(plain, state=state)
    parsed = parse_source(job.path, data)
    if parsed.facts is None:
        return msgspec.structs.replace(plain, state=parsed.state, why=parsed.why_not)
    return _row(parsed.facts, msgspec.structs.replace(plain, state=parsed.state))


def _row(facts: Facts, plain: Row) -> Row:
    definitions = facts.definitions()
    rows = tuple(
        (one.name[:NAME_CHARACTERS_MAX], number,
         one.is_exported | one.is_test << 1 | (one.parent >= 0) << 2 | KINDS.index(one.kind) << 3)
        for number, one in enumerate(definitions)
    )  # fmt: skip
    own = {name for name, _, _ in rows}
    mentioned = {facts.final_name(target) for target in facts.targets}
    mentioned.update(one.name for one in facts.imports)
    mentioned.update(one.local for one in facts.imports)
    mentioned.update(module_stem(one.module) for one in facts.imports)
    mentions = tuple(sorted(name[:NAME_CHARACTERS_MAX] for name in mentioned - own if name and name != "*"))
    return Row(
        plain.oid, plain.language, plain.extractor, plain.state, "", plain.size, plain.lines, encode_facts(facts), rows, mentions,
        facts.package,
    )  # fmt: skip
