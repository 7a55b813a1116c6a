"""Types of atoms: signatures, their print and its parser, unification.

A signature is ``name``, ``kind``, ``parameters`` and ``constraints``. It prints as::

    type       := name [":" kind] ["[" type (", " type)* "]"] ["{" constraint (", " constraint)* "}"]

The kind is printed only if it is not the default: CONTEXT for the name ``Context``, else ARROW with parameters, else
STAR. Each signature has exactly one print: spaces only as shown, constraints sorted, members of a ``Union`` and fields
of a ``Record`` too. A field is a parameter ``name[Type]``.

Rules:

* every signature is within the limits, so that a walk over one goes at most ``TYPE_DEPTH_MAX`` deep;
* the parser keeps its own stack and reads each character once: hostile nesting only costs an error;
* ``unify`` is a meet, place by place: idempotent, commutative, associative where it is defined, with ``ANY`` as neutral element. If
  the common form of two unions would not be sorted, or would exceed a limit, there is none.
"""

from __future__ import annotations

__all__ = [
    "ANY",
    "BOOL",
    "CONSTRAINTS_MAX",
    "CONTEXT",
    "DICT",
    "FLOAT",
    "INT",
    "LIST",
    "NAME_BYTES_MAX",
    "OPTION",
    "PARAMETERS_MAX",
    "RECORD",
    "REF",
    "STRING",
    "TIMESTAMP",
    "TYPE_BYTES_MAX",
    "TYPE_DEPTH_MAX",
    "UNION",
    "UNSEEN",
    "VERSIONED",
    "Kind",
    "TypeSignature",
    "check_text",
    "is_subtype",
    "nesting",
    "parse",
    "unify",
    "unify_text",
]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from periplus.base.errors import FormatError, UsageError

TYPE_DEPTH_MAX: Final = 64
TYPE_BYTES_MAX: Final = 4_096
NAME_BYTES_MAX: Final = 256
PARAMETERS_MAX: Final = 256
CONSTRAINTS_MAX: Final = 64
_CACHED: Final = 1_024
_CACHED_CHARACTERS: Final = 128  # longer types are parsed each time, so that a peer cannot fill the memory


class Kind(Enum):
    """The kind of a type: a concrete type, a constructor, a constraint, a context."""

    STAR = "star"
    ARROW = "arrow"
    CONSTRAINT = "constraint"
    CONTEXT = "context"


_KINDS: Final = {kind.value: kind for kind in Kind}
# Spaces, controls, and characters that reorder or hide text; a fixed list, because Python's isprintable changes with its version.
UNSEEN: Final = frozenset(
    map(
        chr,
        (
            *range(0x21), *range(0x7F, 0xA1), 0xAD, 0x1680, *range(0x2000, 0x2010), *range(0x2028, 0x2030),
            *range(0x205F, 0x2070), 0x3000, 0xFEFF,
        ),
    )
)  # fmt: skip
_FORMED: Final = frozenset({"Union", "Record"})
_ENDS_NAME: Final = frozenset("[]{},:")
_ENDS_CONSTRAINT: Final = frozenset("{},")


@dataclass(frozen=True, slots=True, eq=False)
class TypeSignature:
    """An immutable type. Without ``kind`` it has the default kind; constraints are sorted, each once.

    Raises UsageError for a name or constraint that cannot be printed, and for an exceeded limit.
    """

    name: str
    kind: Kind = None  # type: ignore[assignment]  # None asks for the default; afterwards it is never None
    parameters: tuple[TypeSignature, ...] = ()
    constraints: tuple[str, ...] = ()
    depth: int = field(init=False, compare=False, repr=False)
    _text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        parameters, constraints = _checked_parts(self.parameters, self.constraints)
        _check_name(self.name)
        usual = _usual_kind(self.name, parameters)
        given: object = self.kind
        kind = usual if given is None else given
        if not isinstance(kind, Kind):
            raise UsageError(f"{kind!r:.40} is not a Kind")
        depth, size = 1, 0
        for parameter in parameters:
            depth = max(depth, parameter.depth + 1)
            size += len(parameter._text)  # noqa: SLF001 - of its own class
        if depth > TYPE_DEPTH_MAX:
            raise UsageError(f"a type nested deeper than {TYPE_DEPTH_MAX} levels")
        if size > TYPE_BYTES_MAX:  # before the text is made, which for shared parameters grows as 2 to the depth
            raise _too_long()
        text = self.name if kind is usual else f"{self.name}:{kind.value}"
        if parameters:
            text = f"{text}[{', '.join([parameter._text for parameter in parameters])}]"  # noqa: SLF001 - of its own class
        if constraints:
            text = f"{text}{{{', '.join(constraints)}}}"
        if len(text) > TYPE_BYTES_MAX or (not text.isascii() and len(text.encode()) > TYPE_BYTES_MAX):
            raise _too_long()
        put(self, "parameters", parameters)
        put(self, "constraints", constraints)
        put(self, "kind", kind)
        put(self, "depth", depth)
        put(self, "_text", text)
        if self.name in _FORMED:
            _check_form(self)

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, TypeSignature) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)


def LIST(item: TypeSignature) -> TypeSignature:  # noqa: N802 - the names of the specification
    return TypeSignature("List", parameters=(item,))


def DICT(key: TypeSignature, value: TypeSignature) -> TypeSignature:  # noqa: N802
    return TypeSignature("Dict", parameters=(key, value))


def OPTION(item: TypeSignature) -> TypeSignature:  # noqa: N802
    return TypeSignature("Option", parameters=(item,))


def UNION(*members: TypeSignature) -> TypeSignature:  # noqa: N802
    """Return the union of ``members``: nested unions flattened, sorted by print, each once; a single member as it is."""
    flat: dict[str, TypeSignature] = {}
    for member in members:
        for one in member.parameters if _is_plain_union(member) else (member,):
            flat[str(one)] = one
    if not flat:
        raise UsageError("a Union has at least one member")
    ordered = tuple(flat[text] for text in sorted(flat))
    return ordered[0] if len(ordered) == 1 else TypeSignature("Union", parameters=ordered)


def REF(target: TypeSignature) -> TypeSignature:  # noqa: N802
    return TypeSignature("Ref", parameters=(target,))


def RECORD(fields: Mapping[str, TypeSignature]) -> TypeSignature:  # noqa: N802
    """Return a record; its fields are parameters ``name[Type]`` in the order of their names."""
    return TypeSignature(
        "Record", Kind.ARROW, tuple(TypeSignature(name, parameters=(fields[name],)) for name in sorted(fields))
    )


def CONTEXT(content: TypeSignature) -> TypeSignature:  # noqa: N802
    return TypeSignature("Context", Kind.CONTEXT, (content,))


def VERSIONED(item: TypeSignature) -> TypeSignature:  # noqa: N802
    return TypeSignature("Versioned", parameters=(item,))


def _usual_kind(name: str, parameters: tuple[TypeSignature, ...]) -> Kind:
    if name == "Context":
        return Kind.CONTEXT
    return Kind.ARROW if parameters else Kind.STAR


def parse(text: str) -> TypeSignature:
    """Return the signature that prints as exactly ``text``.

    Raises FormatError with the offset in bytes.
    """
    if not isinstance(text, str):
        raise FormatError(f"a type is text, not {type(text).__name__}")
    return _parse(text) if len(text) <= _CACHED_CHARACTERS else _parsed(text)


def _parsed(text: str) -> TypeSignature:
    if len(text) > TYPE_BYTES_MAX:
        raise FormatError(f"a type over {TYPE_BYTES_MAX:,} bytes", offset=TYPE_BYTES_MAX)
    check_text(text)
    return _Parser(text).signature()


_parse = lru_cache(maxsize=_CACHED)(_parsed)


class _Open:
    """A type whose parameters are being read."""

    __slots__ = ("at", "kind", "name", "parameters")

    def __init__(self, at: int, name: str, kind: Kind | None) -> None:
        self.at = at
        self.name = name
        self.kind = kind
        self.parameters: list[TypeSignature] = []


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.leaves: dict[str, TypeSignature] = {}

    def signature(self) -> TypeSignature:
        stack: list[_Open] = []
        while True:
            opened = self._head()
            if self._next() == "[":
                stack.append(opened)
                if len(stack) >= TYPE_DEPTH_MAX:
                    raise self._error(f"a type nested deeper than {TYPE_DEPTH_MAX} levels", self.at)
                self.at += 1
                continue
            value = self._whole(opened)
            while stack:
                stack[-1].parameters.append(value)
                if self.text.startswith(", ", self.at):
                    self.at += 2
                    break
                if self._next() != "]":
                    raise self._unexpected("',' and a space, or ']'")
                self.at += 1
                value = self._whole(stack.pop())
            else:
                if self.at != len(self.text):
                    raise self._unexpected("the end")
                return value

    def _head(self) -> _Open:
        at = self.at
        name = self._until(_ENDS_NAME)
        kind = None
        if self._next() == ":":
            self.at += 1
            mark = self.at
            word = self._until(_ENDS_NAME)
            kind = _KINDS.get(word)
            if kind is None:
                raise self._error(f"{word[:40]!r} is not a kind: use star, arrow, constraint or context", mark)
        return _Open(at, name, kind)

    def _whole(self, opened: _Open) -> TypeSignature:
        constraints: list[str] = []
        if self._next() == "{":
            while not constraints or self.text.startswith(", ", self.at):
                self.at += 2 if constraints else 1
                at = self.at
                constraint = self._until(_ENDS_CONSTRAINT)
                if constraints and constraint <= constraints[-1]:
                    raise self._error("constraints must be sorted, each once", at)
                constraints.append(constraint)
            if self._next() != "}":
                raise self._unexpected("',' and a space, or '}'")
            self.at += 1
        parameters = tuple(opened.parameters)
        if not parameters and not constraints and opened.kind is None:
            return self._leaf(opened)
        if opened.kind is not None and opened.kind is _usual_kind(opened.name, parameters):
            raise self._error(f"the kind {opened.kind.value} is the default here and must be left out", opened.at)
        return self._made(opened, parameters, tuple(constraints))

    def _leaf(self, opened: _Open) -> TypeSignature:
        leaf = self.leaves.get(opened.name)
        if leaf is None:
            leaf = self.leaves[opened.name] = self._made(opened, (), ())
        return leaf

    def _made(
        self, opened: _Open, parameters: tuple[TypeSignature, ...], constraints: tuple[str, ...]
    ) -> TypeSignature:
        try:
            return TypeSignature(opened.name, opened.kind, parameters, constraints)  # type: ignore[arg-type]  # None asks for the default kind
        except UsageError as error:
            raise self._error(error.wrong, opened.at) from error

    def _until(self, ends: frozenset[str]) -> str:
        text, at = self.text, self.at
        end = at
        while end < len(text) and text[end] not in ends:
            end += 1
        if end == at:
            raise self._unexpected("a name")
        self.at = end
        return text[at:end]

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _unexpected(self, wanted: str) -> FormatError:
        found = repr(self._next()) if self._next() else "the end"
        return self._error(f"{found} where {wanted} was expected", self.at)

    def _error(self, wrong: str, at: int) -> FormatError:
        return FormatError(f"not a type: {wrong}", offset=len(self.text[:at].encode()))


def nesting(text: str) -> int:
    """Return the number of levels of the print ``text`` without parsing it: for limits that come before everything
    else.
    """
    depth = deepest = 1
    in_constraints = False  # where a bracket is an ordinary character
    for character in text:
        if in_constraints:
            in_constraints = character != "}"
        elif character == "{":
            in_constraints = True
        elif character == "[":
            depth += 1
            deepest = max(deepest, depth)
        elif character == "]":
            depth -= 1
    return deepest


def unify(a: TypeSignature, b: TypeSignature) -> TypeSignature | None:
    """Return the most specific common form of ``a`` and ``b``, None if they have none.

    ANY unifies with every type. Otherwise name, kind and number of parameters must be equal, the parameters unify place
    by place, and constraints are united.
    """
    if b in (a, ANY):
        return a
    if a == ANY:
        return b
    if a.name != b.name or a.kind is not b.kind or len(a.parameters) != len(b.parameters):
        return None
    parameters = []
    for one, other in zip(a.parameters, b.parameters, strict=True):
        common = unify(one, other)
        if common is None:
            return None
        parameters.append(common)
    try:
        return TypeSignature(a.name, a.kind, tuple(parameters), a.constraints + b.constraints)
    except UsageError:  # over a limit, or an unsorted union: there is no such type
        return None


def is_subtype(a: TypeSignature, b: TypeSignature) -> bool:
    """Return whether every value of type ``a`` is of type ``b``: their common form is ``a``."""
    return unify(a, b) == a


def unify_text(a: str, b: str) -> str | None:
    """Unify two prints. Raises FormatError for a text that is none."""
    if len(a) <= _CACHED_CHARACTERS and len(b) <= _CACHED_CHARACTERS:
        return _unify_short(a, b)
    return _unify_prints(a, b)


def _unify_prints(a: str, b: str) -> str | None:
    common = unify(parse(a), parse(b))
    return None if common is None else str(common)


_unify_short = lru_cache(maxsize=4 * _CACHED)(_unify_prints)


def check_text(text: str) -> None:
    """Raise FormatError with the offset if ``text`` has a lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(
            f"a lone surrogate (U+{ord(text[error.start]):04X}), which is not a character",
            offset=len(text[: error.start].encode()),
        ) from error


def _checked_parts(
    parameters: Iterable[TypeSignature], constraints: Iterable[str]
) -> tuple[tuple[TypeSignature, ...], tuple[str, ...]]:
    """Return both as tuples, the constraints sorted, each once."""
    if isinstance(constraints, str):
        raise UsageError("constraints are texts, not one text")
    listed = tuple(parameters)
    named = tuple(constraints)
    for parameter in listed:
        if not isinstance(parameter, TypeSignature):
            raise UsageError(f"a parameter of a type is a type, not {type(parameter).__name__}")
    for constraint in named:
        _check_constraint(constraint)
    if len(named) > 1:
        named = tuple(sorted(set(named)))
    if len(listed) > PARAMETERS_MAX or len(named) > CONSTRAINTS_MAX:
        raise UsageError(f"a type has at most {PARAMETERS_MAX} parameters and {CONSTRAINTS_MAX} constraints")
    return listed, named


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError("a type has a name")
    if name.isascii() and name.isalnum() and len(name) <= NAME_BYTES_MAX:
        return
    check_text(name)
    found = _first_of(name, _ENDS_NAME | UNSEEN)
    if found is not None:
        raise UsageError(f"{found!r} is not allowed in the name of a type")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise UsageError(f"a name over {NAME_BYTES_MAX} bytes")


def _check_constraint(constraint: object) -> None:
    if not isinstance(constraint, str) or not constraint:
        raise UsageError("a constraint is a text that is not empty")
    check_text(constraint)
    found = _first_of(constraint.replace(" ", ""), _ENDS_CONSTRAINT | UNSEEN)
    if found is not None:
        raise UsageError(f"{found!r} is not allowed in a constraint")
    if constraint[0] == " " or constraint[-1] == " ":
        raise UsageError("a constraint neither begins nor ends with a space")
    if len(constraint.encode()) > NAME_BYTES_MAX:
        raise UsageError(f"a constraint over {NAME_BYTES_MAX} bytes")


def _first_of(text: str, characters: Iterable[str]) -> str | None:
    found = set(text).intersection(characters)
    return min(found) if found else None


def _is_plain_union(signature: TypeSignature) -> bool:
    return signature.name == "Union" and signature.kind is Kind.ARROW and not signature.constraints


def _check_form(signature: TypeSignature) -> None:
    """Raise UsageError if a union or a record is not in canonical form."""
    if signature.kind is not Kind.ARROW:
        return
    parameters = signature.parameters
    if signature.name == "Union":
        texts = [str(parameter) for parameter in parameters]
        if len(texts) < 2 or any(left >= right for left, right in pairwise(texts)):
            raise UsageError("a Union has two members or more, sorted, each once")
        if any(map(_is_plain_union, parameters)):
            raise UsageError("a Union within a Union: its members belong to the outer one")
        return
    names = [parameter.name for parameter in parameters]
    if any(len(parameter.parameters) != 1 for parameter in parameters):
        raise UsageError("a field of a Record is name[Type]")
    if any(left >= right for left, right in pairwise(names)):
        raise UsageError("the fields of a Record are sorted by name, each once")


def _too_long() -> UsageError:
    return UsageError(f"a type over {TYPE_BYTES_MAX:,} bytes")


STRING: Final = TypeSignature("String")
INT: Final = TypeSignature("Int")
FLOAT: Final = TypeSignature("Float")
BOOL: Final = TypeSignature("Bool")
TIMESTAMP: Final = TypeSignature("Timestamp")
ANY: Final = TypeSignature("Any")
