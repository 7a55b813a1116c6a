"""A row of the table of languages, joined to its grammar: what to do at each node, by the number of its type."""

from __future__ import annotations

__all__ = ["BrokenSource", "Grammar", "NoParser", "grammar_of"]

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from periplus.base.import_trimming import load_grammar
from periplus.code.languages.table import Access, Language, Place, Unwrap

if TYPE_CHECKING:
    import tree_sitter


_Value = TypeVar("_Value")


class _Actions(dict[int, "tuple[str, object] | None"]):
    """Actions by the number of a node's type; None for those without one."""

    def __missing__(self, number: int) -> None:
        self[number] = None


class BrokenSource(Exception):  # noqa: N818 - says why a parser without recovery gives no tree
    """The source is not valid, or too deep for the parser."""


class NoParser(Exception):  # noqa: N818 - says what is missing; callers turn it into a state of the file
    """The parser of a language is not installed."""


class Grammar:
    """Numbers of node types instead of their names, so that a look at a node is one look into a dictionary."""

    def __init__(
        self, row: Language, numbers: Mapping[str, Sequence[int]], parser: tree_sitter.Parser | None = None
    ) -> None:
        """Join ``row`` to the ``numbers`` of the types of nodes; ``parser`` is absent where the trees come from elsewhere."""
        self.row = row
        self.parser = parser
        self._numbers = numbers
        self.accesses: dict[int, Access] = self._by_number(row.accesses)
        self.transparent: dict[int, Place] = self._by_number(row.transparent)
        self.type_wrappers: dict[int, Place] = self._by_number(row.type_wrappers)
        self.typed_values: dict[int, Unwrap] = self._by_number(row.typed_values)
        self.value_type_ids = self._ids(row.value_types)
        self.own_self_ids = self._ids(row.own_selves)
        self.unwraps = self._by_number(row.unwraps)
        self.list_types: dict[int, Place] = self._by_number(row.list_types)
        self.casts: dict[int, Place] = self._by_number(row.casts)
        self.name_wrappers: dict[int, Place] = self._by_number(row.name_wrappers)
        self.name_ids = self._ids(row.names)
        self.path_ids = self._ids(row.paths)
        self.called_ids = self._ids(row.called_names)
        self.literal_ids = self._ids(row.literals)
        self.null_ids = self._ids(row.nulls)
        self.self_ids = self._ids(row.selves)
        self.super_ids = self._ids(row.supers)
        if row.has_member_scopes and parser is not None and parser.language is not None:
            self.self_ids |= _words(parser.language, row.selves)
            self.super_ids |= _words(parser.language, row.supers)
        self.own_ids = self._ids(row.own_members)
        self.bare_ids = self.name_ids - self.self_ids - self.super_ids - self.called_ids
        if row.has_type_names:
            self.bare_ids = frozenset()
        self.special_names = row.selves | row.supers
        self.self_names = row.selves
        self.super_names = row.supers
        self.actions: _Actions = _Actions()
        self._fill()

    def is_spine(self, node: tree_sitter.Node) -> bool:
        """Return True for a name, a member, a call, the instance, or a literal."""
        kind = node.kind_id
        return (
            kind in self.name_ids or kind in self.accesses or kind in self.transparent or kind in self.self_ids
            or kind in self.super_ids or kind in self.literal_ids or kind in self.null_ids or kind in self.own_ids
            or kind in self.casts or kind in self.path_ids
        )  # fmt: skip

    def parse_part(self, data: bytes, node: tree_sitter.Node) -> tree_sitter.Node | None:
        """Return the tree of what ``node`` holds between its brackets, as that of a file; None where it is none."""
        import tree_sitter

        assert self.parser is not None
        start, end = node.children[0], node.children[-1]
        self.parser.included_ranges = [
            tree_sitter.Range(start.end_point, end.start_point, start.end_byte, end.start_byte)
        ]
        try:
            root = self.parser.parse(data).root_node
        finally:
            self.parser.included_ranges = []
        return None if root.has_error else root

    def base_nodes(self, node: tree_sitter.Node) -> tuple[list[tree_sitter.Node], list[tree_sitter.Node]]:
        """Return the nodes of the types in a list of base classes, and those in it that are no types."""
        found: list[tree_sitter.Node] = []
        others: list[tree_sitter.Node] = []
        waiting = [node]
        while waiting:
            at = waiting.pop()
            if self.is_spine(at) or at.kind_id in self.type_wrappers or at.kind_id in self.unwraps:
                found.append(at)
            elif at.type in self.row.enters:
                others.append(at)
            else:
                waiting += at.named_children[::-1]
        return found, others

    def _fill(self) -> None:
        """Set the action of each type of node; a later line wins over an earlier one."""
        row = self.row
        self._set(row.names, "name")
        self._set(row.selves | row.supers, "self")
        self._set(row.comments, "comment")
        self._set(row.skips, "skip")
        self._set(row.accesses, "access")
        self._set(row.own_members, "skip")
        self._set(row.paths, "access")
        for kind in row.functions | row.scopes:
            self._set((kind,), "open", kind in row.functions)
        self._set(row.parameters, "parameters")
        self._set(row.leading, "lead")
        self._set(row.wrappers, "wrap")
        for table, action in (
            (row.enters, "enter"),
            (row.binds, "bind"),
            (row.definitions, "define"),
            (row.special, "special"),
        ):
            for kind, argument in table.items():
                self._set((kind,), action, argument)

    def _set(self, kinds: Iterable[str], action: str, argument: object = None) -> None:
        for kind in kinds:
            for number in self._numbers.get(kind, ()):
                self.actions[number] = (action, argument)

    def _ids(self, kinds: Iterable[str]) -> frozenset[int]:
        return frozenset(number for kind in kinds for number in self._numbers.get(kind, ()))

    def _by_number(self, table: Mapping[str, _Value]) -> dict[int, _Value]:
        return {number: value for kind, value in table.items() for number in self._numbers.get(kind, ())}


def _words(language: tree_sitter.Language, words: Iterable[str]) -> frozenset[int]:
    """Return the numbers of nodes for bare words of the language."""
    return frozenset(number for word in words if (number := language.id_for_node_kind(word, False)))


_KNOWN: Final[dict[tuple[str, str, str], Grammar]] = {}


def grammar_of(row: Language) -> Grammar:
    """Return the grammar of ``row``. Raises NoParser where its wheel is not installed."""
    key = (row.name, row.module, row.entry)
    if key not in _KNOWN:
        _KNOWN[key] = _load(row)
    return _KNOWN[key]


def _load(row: Language) -> Grammar:
    try:
        import tree_sitter

        module = load_grammar(row.module)
    except ImportError as error:
        raise NoParser(row.name) from error
    language = tree_sitter.Language(getattr(module, row.entry)())
    numbers: dict[str, list[int]] = {}
    for number in range(language.node_kind_count):
        if language.node_kind_is_named(number) and (kind := language.node_kind_for_id(number)):
            numbers.setdefault(kind, []).append(number)
    return Grammar(row, numbers, tree_sitter.Parser(language))
