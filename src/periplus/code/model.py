"""Knowledge of one source file without a look at another: the facts that the code map keeps for each blob.

Facts are a pure function of the contents of the file, its language and the version of the extractor, so they are stored under the
digest of the contents and never change. Edges between files are computed from them when they are asked for (`code.resolution`); no
edge is stored, so none can be out of date.

A *target* is what an expression names, as far as its own file tells: a root and the steps from it. ``repo.load().name`` with
``from store import open_repo as repo`` is the import ``repo`` with the steps ``load``, ``()``, ``name``.

| root | `value` | stands for |
|---|---|---|
| ``s`` | index of a definition | a definition of the same file |
| ``i`` | index of an import | what the import brings |
| ``f`` | name | a name that nothing in the file binds |
| ``t`` | index of a definition, or name of a class defined elsewhere | the instance (``this``, ``self``) of that class |
| ``u`` | index of a definition | the instance as its base classes see it (``super``) |
| ``m`` | index of a definition | the instance of that class without being written: the first step is its member, or else a free name |
| ``?`` | nothing | a value of which only the member's name is known |

A step is the name of a member, ``()`` (a call of it, an instance of it), ``[]`` (an element of it), ``{}`` (a list of it), ``!`` (it is what is called),
``.`` (it is a field and nothing that is called), ``:`` (what a ``with`` statement binds to it), or ``~`` (perhaps: the grammar does not say that the name is meant as an expression).
"""

from __future__ import annotations

__all__ = [
    "BARE_STEPS",
    "CALL",
    "CALLED",
    "ELEMENT",
    "ENTERED",
    "FACTS_VERSION",
    "FIELD",
    "KINDS",
    "LIST",
    "MARKS",
    "PERHAPS",
    "ROLES",
    "Attribute",
    "Definition",
    "Facts",
    "Import",
    "ParseState",
    "Reference",
    "Role",
    "Target",
    "decode_facts",
    "definition_rows",
    "encode_facts",
    "import_name",
    "module_stem",
]

import zlib
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

FACTS_VERSION: Final = 2
CALL: Final = "()"
ELEMENT: Final = "[]"
LIST: Final = "{}"
ENTERED: Final = ":"
PERHAPS: Final = "~"
CALLED: Final = "!"
FIELD: Final = "."
BARE_STEPS: Final = frozenset({(), (CALLED,), (PERHAPS,), (PERHAPS, CALLED)})
MARKS: Final = frozenset({CALL, CALLED, ELEMENT, ENTERED, FIELD, LIST, PERHAPS})
FACTS_BYTES_MAX: Final = 64 << 20
_WIDTH: Final = 11
# Of files that are named without their folder where they are taken in.
_FILE_ENDINGS: Final = frozenset({"php", "inc", "phtml", "rb", "rake", "sh", "bash", "zsh", "bats"})
# Languages whose variables have a sigil in use, but none in the name of their definition.
_WITH_SIGILS: Final = frozenset({"bash", "php"})
_OUTER_END: Final = "\x1f"

Role: TypeAlias = Literal["reference", "call", "extends", "import"]
ROLES: Final[tuple[Role, ...]] = ("reference", "call", "extends", "import")
# Never reordered: facts hold the positions.
KINDS: Final = tuple(
    "function method class interface type enum field value module route test struct trait macro record annotation union namespace "
    "property constructor object protocol extension constant".split()
)
ParseState: TypeAlias = Literal[
    "parsed", "errors", "too_large", "generated", "vendored", "unsupported", "not_text", "no_parser", "failed"
]


class Definition(NamedTuple):
    """A definition. Lines count from 1, both included; bytes from 0, the end not included; they take in decorators, annotations and
    ``export``. ``line`` and ``column`` (from 0, in bytes) are those of the name. The signature reads from ``head_byte`` to ``body_byte``, its
    comment or docstring begins at ``doc_byte`` (-1 for none).

    ``parent`` is the index of the definition around it, -1 for none. ``ordinal`` counts equals of one qualified name in a file.
    """

    name: str
    qualified: str
    kind: str
    parent: int
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    line: int
    column: int
    head_byte: int
    body_byte: int
    doc_byte: int = -1
    is_exported: bool = True
    is_test: bool = False
    ordinal: int = 0


class Import(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One name that an import statement brings: ``name`` of ``module`` (the module itself where empty, all names for ``*``), bound to
    ``local`` (empty where nothing is bound). ``module`` is as written; what it means is the language's affair.

    ``is_outer`` where it stands outside of functions: others can take the name from this file (``is_reexport``: only they can).
    """

    module: str
    name: str
    local: str
    line: int
    is_outer: bool = True
    is_reexport: bool = False


class Target(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The meaning of an expression as far as its file tells; see the module's table of roots."""

    root: Literal["s", "i", "f", "t", "u", "m", "?"]
    value: int | str = ""
    steps: tuple[str, ...] = ()


class Attribute(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A value that the code of class ``owner`` puts into its instances under ``name``; a bare ``?`` where its class is not known."""

    owner: int
    name: str
    target: Target


class Reference(NamedTuple):
    """A line that names something, once for each definition ``owner`` (-1 for none), role and target (an index)."""

    line: int
    owner: int
    role: Role
    target: int


class Facts(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The facts of one file. ``types`` gives for a definition the target of its type (a function's: of what it returns), ``bases`` the
    targets of the classes that it extends. ``exports`` maps names that others see to local ones where they differ.

    ``rows`` and ``places`` hold definitions and references as numbers, mostly differences, so that they take little room: read them through
    `definitions` and `references`.
    """

    language: str
    names: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    imports: tuple[Import, ...] = ()
    targets: tuple[Target, ...] = ()
    places: tuple[int, ...] = ()
    types: dict[int, Target] = {}
    bases: dict[int, tuple[Target, ...]] = {}
    attributes: tuple[Attribute, ...] = ()
    exports: dict[str, str] = {}
    package: str = ""
    has_errors: bool = False

    def definitions(self) -> list[Definition]:
        """Return the definitions in the order of the file. Raises ValueError or IndexError where the rows are none."""
        found: list[Definition] = []
        equals: dict[str, int] = {}
        line = byte = 0
        rows = self.rows
        for number, name in enumerate(self.names):
            kind, parent, lines, length, start, size, name_lines, column, head, body, doc = rows[
                number * _WIDTH : number * _WIDTH + _WIDTH
            ]
            line += lines
            byte += start
            prefix, _, simple = name.rpartition(_OUTER_END)
            parent = number - parent if parent else -1
            outer = prefix or (found[parent].qualified if 0 <= parent < number else "")
            qualified = f"{outer}.{simple}" if outer else simple
            ordinal = equals.get(qualified, 0)
            equals[qualified] = ordinal + 1
            found.append(
                Definition(
                    simple, qualified, KINDS[kind >> 2], parent, line, line + length, byte, byte + size, line + name_lines, column,
                    byte + head, byte + body, byte + doc if doc else -1, bool(kind & 1), bool(kind & 2), ordinal,
                )
            )  # fmt: skip
        return found

    def references(self) -> Iterator[Reference]:
        """Iterate over the references in the order of the file."""
        line = owner = 0
        places = self.places
        for at in range(0, len(places), 3):
            line += places[at]
            owner += places[at + 1]
            yield Reference(line, owner - 1, ROLES[places[at + 2] & 3], places[at + 2] >> 2)

    def final_name(self, target: Target) -> str:
        """Return the name that ``target`` ends with: under it the index finds the file. Empty for a bare value."""
        for step in reversed(target.steps):
            if step not in MARKS:
                return step
        if target.root == "i":
            return import_name(self.imports[int(target.value)])
        if target.root == "s":
            return self.names[int(target.value)].rpartition(_OUTER_END)[2]
        if target.root != "f":
            return ""
        name = str(target.value).rpartition("\\")[2]
        return name.lstrip("$") if self.language in _WITH_SIGILS else name


def import_name(one: Import) -> str:
    """Return the name under which the index finds the file that ``one`` stands in: that of the module where it takes the module itself or
    its default export.
    """
    return one.name if one.name not in ("", "*", "default") else module_stem(one.module)


def module_stem(module: str) -> str:
    """Return the last part of a module's name or path, without its ending: ``c`` of ``a.b.c``, ``a::b::c``, ``./b/c.js``, ``c.php`` and ``<b/c.h>``."""
    if "/" in module or "\\" in module:
        base = module.replace("\\", "/").rstrip("/").rpartition("/")[2]
        stem, dot, _ = base.rpartition(".")
        return stem if dot and stem else base
    parts = [part for part in module.replace("::", ".").split(".") if part]
    if len(parts) == 2 and parts[1] in _FILE_ENDINGS:
        return parts[0]
    return parts[-1] if parts else ""


def definition_rows(definitions: Sequence[Definition]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return names and rows of `Facts` for ``definitions``, which stand in the order of the file; a parent comes before its children.

    A name is preceded by what is around it and a control character where that is not its parent's name: a method's type
    may be defined in another file. Names of operators and tests may hold any printable one.
    """
    names: list[str] = []
    rows: list[int] = []
    line = byte = 0
    for number, one in enumerate(definitions):
        outer = one.qualified[: -len(one.name)].rstrip(".") if one.qualified != one.name else ""
        known = definitions[one.parent].qualified if one.parent >= 0 else ""
        names.append(one.name if outer == known else f"{outer}{_OUTER_END}{one.name}")
        rows += (
            KINDS.index(one.kind) << 2 | one.is_test << 1 | one.is_exported, number - one.parent if one.parent >= 0 else 0,
            one.start_line - line, one.end_line - one.start_line, one.start_byte - byte, one.end_byte - one.start_byte,
            one.line - one.start_line, one.column, one.head_byte - one.start_byte, one.body_byte - one.start_byte,
            one.doc_byte - one.start_byte if one.doc_byte >= 0 else 0,
        )  # fmt: skip
        line, byte = one.start_line, one.start_byte
    return tuple(names), tuple(rows)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Facts)


def encode_facts(facts: Facts) -> bytes:
    """Return ``facts`` as compressed MessagePack."""
    return zlib.compress(_ENCODER.encode(facts), 1)


def decode_facts(data: bytes) -> Facts:
    """Return the facts in ``data``. Raises ValueError where they are not such bytes, or over FACTS_BYTES_MAX."""
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(data, FACTS_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise ValueError(f"the facts of a file take over {FACTS_BYTES_MAX:,} bytes")
        return _DECODER.decode(plain)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise ValueError("these are no facts of a file") from error
