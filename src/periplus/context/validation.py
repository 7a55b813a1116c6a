"""Validation of a context, field by field; an error names the field: ``atoms[3].relevance: …``.

All checks here need the context alone. Checks against its base (is it known, does it have the removed items and the
atoms of molecules) belong to stores. ``prepare`` also brings a context into canonical form, so that equal content has
equal bytes.
"""

from __future__ import annotations

__all__ = [
    "ATOMS_MAX",
    "CONTENT_BYTES_MAX",
    "MERGED_MAX",
    "METADATA_BYTES_MAX",
    "MOLECULES_MAX",
    "MOLECULE_ATOMS_MAX",
    "MOLECULE_PAIRS_MAX",
    "MOLECULE_RELATIONS_MAX",
    "RELATION_NAME_BYTES_MAX",
    "REPEATED_BYTES_MAX",
    "SOURCE_BYTES_MAX",
    "TAG_BYTES_MAX",
    "Prepared",
    "atom",
    "check_molecule",
    "check_repeated",
    "normalised",
    "prepare",
]

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from periplus.base.encoding.canonical import JSONValue, canonical, check, decode_canonical
from periplus.base.encoding.digests import DIGEST_BYTES
from periplus.base.errors import FormatError, UsageError
from periplus.context.model import (
    RELEVANCE_MAX,
    STRING_TYPE,
    TAGS_MAX,
    TIME_MS_MAX,
    TIME_MS_MIN,
    Atom,
    Context,
    Molecule,
    atom_digests,
    molecule_digest,
)
from periplus.context.types import UNSEEN, TypeSignature, check_text, parse

CONTENT_BYTES_MAX: Final = 16 << 20
SOURCE_BYTES_MAX: Final = 4_096
TAG_BYTES_MAX: Final = 256
ATOMS_MAX: Final = 1 << 24  # of one delta; the same limit holds for removals
MOLECULES_MAX: Final = 1 << 20
MOLECULE_ATOMS_MAX: Final = 1 << 16
MOLECULE_PAIRS_MAX: Final = 1 << 18
MOLECULE_RELATIONS_MAX: Final = 256
RELATION_NAME_BYTES_MAX: Final = 256
METADATA_BYTES_MAX: Final = 64 << 10
REPEATED_BYTES_MAX: Final = 64 << 20  # of contents that several atoms of a delta share, which are transferred once
_LONG_CHARACTERS: Final = 1_024  # shorter contents are inside the pages
MERGED_MAX: Final = 64


class Prepared(NamedTuple):
    """A context in canonical form, with the digests of its atoms and molecules in the same order."""

    context: Context
    atom_digests: tuple[bytes, ...]
    molecule_digests: tuple[bytes, ...]


def normalised(context: Context) -> Context:
    """Return ``context`` in canonical form. Raises like ``prepare``."""
    return prepare(context).context


def prepare(context: Context) -> Prepared:
    """Check every field that needs no base and bring ``context`` into canonical form.

    Raises UsageError naming the first field that is wrong.
    """
    if type(context) is not Context:
        raise UsageError(f"a context was expected, not {type(context).__name__}")
    if context.base is not None:
        _check_digest("base", context.base)
    merged = _digests("merged", context.merged, MERGED_MAX)
    if context.base is not None and context.base in merged:
        raise UsageError("merged: the base is among the contexts merged in")
    if merged and context.base is None:
        raise UsageError("merged: a root cannot merge contexts")
    removed = _digests("removed", context.removed, ATOMS_MAX)
    atoms, digests = _atoms(context.atoms)
    molecules = _molecules(context.molecules)
    if removed:
        _check_apart(removed, set(digests), {digest for digest, _ in molecules})
    metadata = _metadata("metadata", context.metadata)
    return Prepared(
        Context(
            base=context.base,
            atoms=atoms,
            molecules=tuple([molecule for _, molecule in molecules]),
            removed=removed,
            metadata=metadata,
            merged=merged,
        ),
        digests,
        tuple([digest for digest, _ in molecules]),
    )


def atom(
    content: str,
    *,
    type: str | TypeSignature = STRING_TYPE,  # noqa: A002 - the name of the field
    relevance: float = 0.5,
    millionths: int | None = None,
    timestamp: int | str | datetime = 0,
    source: str = "",
    tags: Iterable[str] = (),
) -> Atom:
    """Make an atom from values as people write them, with all checks.

    ``relevance`` is a number in 0 … 1, rounded to millionths; ``millionths`` states it exactly instead. ``timestamp``
    is in milliseconds since 1970 UTC, or an RFC 3339 text or a datetime, which must have a time zone. Raises UsageError
    naming the field.
    """
    time_ms = timestamp if isinstance(timestamp, int) else _moment(timestamp)
    share = _millionths(relevance) if millionths is None else millionths
    if isinstance(tags, str):
        raise UsageError("tags: a list of texts was expected, not one text")
    made = Atom(content, str(type) if isinstance(type, TypeSignature) else type, time_ms, share, source, tuple(tags))
    return _checked_atom("", made)


def _atoms(atoms: Sequence[Atom]) -> tuple[tuple[Atom, ...], tuple[bytes, ...]]:
    """Return the atoms and their digests in canonical order."""
    if not isinstance(atoms, (tuple, list)):
        raise UsageError("atoms: a tuple of atoms was expected")
    if len(atoms) > ATOMS_MAX:
        raise UsageError(f"atoms: {len(atoms):,} atoms in one context; at most {ATOMS_MAX:,}")
    kept = list(atoms)
    kinds: set[str] = set()
    for index, given in enumerate(atoms):
        # A fast test that nearly every atom passes; the others are checked field by field.
        if not (
            type(given) is Atom
            and type(given.type) is str
            and given.type in kinds
            and type(given.content) is str
            and len(given.content) <= CONTENT_BYTES_MAX >> 2
            and type(given.time_ms) is int
            and TIME_MS_MIN <= given.time_ms <= TIME_MS_MAX
            and type(given.relevance) is int
            and 0 <= given.relevance <= RELEVANCE_MAX
            and type(given.source) is str
            and given.source.isascii()
            and len(given.source) <= SOURCE_BYTES_MAX
            and given.tags == ()
        ):
            kept[index] = _checked_atom(f"atoms[{index}].", given)
            kinds.add(given.type)
    try:
        _check_contents(kept)
        digests = atom_digests(kept)
    except UnicodeEncodeError:
        for index, given in enumerate(kept):
            _checked_atom(f"atoms[{index}].", given)
        raise
    if len(set(digests)) < len(digests):
        _refuse_twice(digests)
    # Bytes that sort like ``order_key``, because tuples of numbers would cost more than everything else.
    keys = [
        (RELEVANCE_MAX - atom.relevance).to_bytes(4, "big") + (TIME_MS_MAX - atom.time_ms).to_bytes(8, "big") + digest
        for atom, digest in zip(kept, digests, strict=True)
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return tuple([kept[place] for place in order]), tuple([digests[place] for place in order])


def check_repeated(size_bytes: int) -> None:
    """Refuse too many bytes of contents that several atoms share: cheap to send, but large to hold."""
    if size_bytes > REPEATED_BYTES_MAX:
        raise UsageError(
            f"atoms: over {REPEATED_BYTES_MAX:,} bytes of contents that other atoms of the context have as well",
            mend="Add such a content once, or in separate contexts.",
        )


def _check_contents(atoms: Sequence[Atom]) -> None:
    seen: set[str] = set()
    repeated = 0
    for content in [atom.content for atom in atoms if len(atom.content) > _LONG_CHARACTERS]:
        if content in seen:
            repeated += len(content.encode())
            check_repeated(repeated)
        seen.add(content)


def _refuse_twice(digests: Sequence[bytes]) -> None:
    seen: dict[bytes, int] = {}
    for index, digest in enumerate(digests):
        first = seen.setdefault(digest, index)
        if first != index:
            raise UsageError(f"atoms[{index}]: the same content and type as atoms[{first}]")


def _checked_atom(path: str, given: object) -> Atom:
    """Return ``given`` with sorted tags. Raises UsageError naming the invalid field."""
    if type(given) is not Atom:
        raise UsageError(f"{path.rstrip('.') or 'atom'}: an atom was expected, not {type(given).__name__}")
    _check_text(path + "content", given.content, CONTENT_BYTES_MAX)
    _check_type(path + "type", given.type)
    _check_integer(
        path + "time_ms", given.time_ms, TIME_MS_MIN, TIME_MS_MAX, "milliseconds of the years 0001 to 9999 UTC"
    )
    _check_integer(path + "relevance", given.relevance, 0, RELEVANCE_MAX, "millionths, 0 to 1,000,000")
    _check_text(path + "source", given.source, SOURCE_BYTES_MAX)
    if not isinstance(given.tags, (tuple, list)):
        raise UsageError(f"{path}tags: a tuple of texts was expected")
    for place, tag in enumerate(given.tags):
        _check_text(f"{path}tags[{place}]", tag, TAG_BYTES_MAX)
        if not tag:
            raise UsageError(f"{path}tags[{place}]: an empty tag")
    tags = tuple(sorted(set(given.tags)))
    if len(tags) > TAGS_MAX:
        raise UsageError(f"{path}tags: {len(tags)} tags; at most {TAGS_MAX}")
    return given if tags == given.tags else msgspec.structs.replace(given, tags=tags)


def _molecules(molecules: Sequence[Molecule]) -> list[tuple[bytes, Molecule]]:
    if not isinstance(molecules, (tuple, list)):
        raise UsageError("molecules: a tuple of molecules was expected")
    if len(molecules) > MOLECULES_MAX:
        raise UsageError(f"molecules: {len(molecules):,} molecules in one context; at most {MOLECULES_MAX:,}")
    found: dict[bytes, tuple[int, Molecule]] = {}
    for index, given in enumerate(molecules):
        path = f"molecules[{index}]"
        molecule = check_molecule(path, given)
        digest = molecule_digest(molecule)
        first = found.setdefault(digest, (index, molecule))[0]
        if first != index:
            raise UsageError(f"{path}: the same as molecules[{first}]")
    return [(digest, found[digest][1]) for digest in sorted(found)]


def check_molecule(path: str, given: object) -> Molecule:
    """Return ``given`` in canonical form. Raises UsageError naming the field under ``path``."""
    if type(given) is not Molecule:
        raise UsageError(f"{path}: a molecule was expected, not {type(given).__name__}")
    atoms: object = given.atoms
    if not isinstance(atoms, (tuple, list)) or len(atoms) > MOLECULE_ATOMS_MAX:
        raise UsageError(f"{path}.atoms: at most {MOLECULE_ATOMS_MAX:,} digests of atoms were expected")
    if not atoms:
        raise UsageError(f"{path}.atoms: a molecule has at least one atom")
    places: dict[bytes, int] = {}
    for place, digest in enumerate(atoms):
        _check_digest(f"{path}.atoms[{place}]", digest)
        if places.setdefault(digest, place) != place:
            raise UsageError(f"{path}.atoms[{place}]: the same atom as atoms[{places[digest]}]")
    relations: object = given.relations
    if not isinstance(relations, dict) or len(relations) > MOLECULE_RELATIONS_MAX:
        raise UsageError(f"{path}.relations: pairs by at most {MOLECULE_RELATIONS_MAX} names were expected")
    for name in relations:
        _check_relation_name(f"{path}.relations[{name!r}]", name)
    ordered = {name: _pairs(f"{path}.relations[{name!r}]", relations[name], len(atoms)) for name in sorted(relations)}
    if sum(map(len, ordered.values())) > MOLECULE_PAIRS_MAX:
        raise UsageError(f"{path}.relations: over {MOLECULE_PAIRS_MAX:,} pairs")
    _check_type(f"{path}.type", given.type)
    return Molecule(tuple(atoms), ordered, given.type, _metadata(f"{path}.metadata", given.metadata))


def _check_relation_name(path: str, name: object) -> None:
    _check_text(path, name, RELATION_NAME_BYTES_MAX)
    assert isinstance(name, str)
    if not name or not UNSEEN.isdisjoint(name.replace(" ", "")):
        raise UsageError(f"{path}: a name has at least one character, all of them visible")


def _pairs(path: str, pairs: object, count: int) -> tuple[tuple[int, int], ...]:
    if not isinstance(pairs, (tuple, list)) or len(pairs) > MOLECULE_PAIRS_MAX:
        raise UsageError(f"{path}: at most {MOLECULE_PAIRS_MAX:,} pairs of places were expected")
    for place, pair in enumerate(pairs):
        if (
            not isinstance(pair, (tuple, list))
            or len(pair) != 2
            or not all(type(end) is int and 0 <= end < count for end in pair)
        ):
            raise UsageError(f"{path}[{place}]: not two places among {count:,} atoms")
    return tuple(sorted({(pair[0], pair[1]) for pair in pairs}))


def _metadata(path: str, metadata: object) -> dict[str, JSONValue]:
    if type(metadata) is not dict:
        raise UsageError(f"{path}: values by name were expected")
    if not metadata:
        return {}
    check(metadata, path)
    try:
        data = canonical(metadata)
    except UsageError as error:
        raise UsageError(f"{path}: {error.wrong}") from error
    if len(data) > METADATA_BYTES_MAX:
        raise UsageError(f"{path}: {len(data):,} bytes; at most {METADATA_BYTES_MAX:,}")
    value = decode_canonical(data)
    assert isinstance(value, dict)
    return value


def _digests(path: str, digests: object, most: int) -> tuple[bytes, ...]:
    if not isinstance(digests, (tuple, list)):
        raise UsageError(f"{path}: a tuple of digests was expected")
    if len(digests) > most:
        raise UsageError(f"{path}: {len(digests):,} digests; at most {most:,}")
    seen: dict[bytes, int] = {}
    for place, digest in enumerate(digests):
        if type(digest) is not bytes or len(digest) != DIGEST_BYTES:
            _check_digest(f"{path}[{place}]", digest)
        if seen.setdefault(digest, place) != place:
            raise UsageError(f"{path}[{place}]: the same digest as {path}[{seen[digest]}]")
    return tuple(sorted(seen))


def _check_apart(removed: tuple[bytes, ...], atoms: set[bytes], molecules: set[bytes]) -> None:
    for digest in removed:
        if digest in atoms or digest in molecules:
            raise UsageError(
                f"removed: {digest.hex()} is added in the same context",
                mend="An atom is annotated anew by adding it alone.",
            )


def _check_digest(path: str, digest: object) -> None:
    if type(digest) is not bytes or len(digest) != DIGEST_BYTES:
        what = f"{len(digest)} bytes" if isinstance(digest, bytes) else type(digest).__name__
        raise UsageError(f"{path}: a digest of {DIGEST_BYTES} bytes was expected, not {what}")


def _check_text(path: str, text: object, most: int) -> None:
    if type(text) is not str:
        raise UsageError(f"{path}: text was expected, not {type(text).__name__}")
    try:
        check_text(text)
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from error
    size = len(text) if text.isascii() else len(text.encode())
    if size > most:
        raise UsageError(f"{path}: {size:,} bytes; at most {most:,}")


def _check_type(path: str, text: object) -> None:
    if type(text) is not str:
        raise UsageError(f"{path}: the print of a type was expected, not {type(text).__name__}")
    try:
        parse(text)
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from error


def _check_integer(path: str, value: object, least: int, most: int, what: str) -> None:
    if type(value) is float and value != value:  # noqa: PLR0124 - the one value that is not itself
        raise UsageError(f"{path}: NaN where a number was wanted: {what}")
    if type(value) is not int:
        raise UsageError(f"{path}: an integer was expected ({what}), not {type(value).__name__}")
    if not least <= value <= most:
        raise UsageError(f"{path}: {value} is outside its range: {what}")


def _millionths(relevance: object) -> int:
    if type(relevance) is float and relevance != relevance:  # noqa: PLR0124 - the one value that is not itself
        raise UsageError("relevance: NaN is not a number in 0 … 1")
    if type(relevance) not in (int, float) or not 0 <= relevance <= 1:  # type: ignore[operator]  # the first test shows that it is a number
        raise UsageError(f"relevance: {str(relevance)[:40]} is not a number in 0 … 1")
    return round(relevance * RELEVANCE_MAX)  # type: ignore[operator]  # as above


def _moment(given: object) -> int:
    """Return the milliseconds of a datetime or RFC 3339 text with its time zone."""
    from datetime import UTC, timedelta

    moment = given
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError as error:
            raise UsageError(f"timestamp: {given[:40]!r} is not an RFC 3339 time") from error
        marks = given[4:5] + given[7:8] + given[10:11] + given[13:14] + given[16:17]
        zone = given[19:].lstrip(".0123456789")
        if marks not in ("--T::", "--t::", "-- ::") or len(zone) not in (0, 1, 6) or "," in given:
            raise UsageError(f"timestamp: {given[:40]!r} is not an RFC 3339 time")
    if not isinstance(moment, datetime):
        raise UsageError(f"timestamp: a time was expected, not {type(given).__name__}")
    if moment.utcoffset() is None:
        raise UsageError(
            f"timestamp: {str(given)[:40]} has no time zone",
            mend="Write it as 2026-01-31T09:30:00Z or with its offset.",
        )
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
