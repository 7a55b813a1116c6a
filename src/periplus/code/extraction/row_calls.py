"""Calls of the functions of rows that need little more of a walk than its scopes: bindings that begin later, modules, bases, members."""

from __future__ import annotations

__all__ = ["INSIDE_MAX", "RowCalls"]

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.extraction.grammar import Grammar
from periplus.code.extraction.parts import Draft, Task, Wrapped
from periplus.code.extraction.scopes import Chain, Scope, Unbound
from periplus.code.languages.table import Local
from periplus.code.model import CALLED, ELEMENT, FIELD, PERHAPS, Role

if TYPE_CHECKING:
    import tree_sitter

INSIDE_MAX: Final = 500
_RENEWALS_MAX: Final = 200
_STEPS_MAX: Final = 12


class RowCalls:
    """A part of `languages.table.Extraction`; the walk over the tree is the rest."""

    data: bytes
    _stack: list[tree_sitter.Node | Scope | Wrapped | Task]
    _scope: Scope
    _drafts: list[Draft]
    _parts: list[tuple[Scope, str, Chain]]
    _types: dict[int, tuple[Scope, Chain]]
    _bases: dict[int, tuple[Scope, list[Chain]]]
    _inside_left: int
    _grammar: Grammar
    _exports: dict[str, str]
    _attributes: list[tuple[int, str, Scope, Chain]]

    def bind_after(
        self,
        names: Sequence[Local],
        *before: tree_sitter.Node | None,
    ) -> None:
        self.bind_in_order([(names, before)])

    def bind_in_order(self, clauses: Sequence[tuple[Sequence[Local], Sequence[tree_sitter.Node | None]]]) -> None:
        scope = self._scope
        items: list[tree_sitter.Node | Scope | Wrapped] = []
        for names, before in clauses:
            found = [(one.name, self._local_chain(one)) for one in names]
            items += [node for node in before if node is not None]
            if scope.renewals < _RENEWALS_MAX and any(
                self._is_renewed(scope, name, chain, before) for name, chain in found
            ):
                scope = Scope(scope)
                scope.renewals += 1
                items.append(scope)
            for name, chain in found:
                scope.bind_local(name, chain)
        self._stack += items[::-1]

    def _local_chain(self, one: Local) -> Chain | None:
        chain = self._value_chain(one.value, one.type)
        return chain.then((ELEMENT,)) if one.is_element and chain is not None else chain

    def _is_renewed(
        self, scope: Scope, name: str, chain: Chain | None, before: Sequence[tree_sitter.Node | None]
    ) -> bool:
        """Return True where ``name`` has another meaning in ``before`` than it gets by ``chain``."""
        known = scope.lookup(name, with_classes=False)
        if isinstance(known, Unbound):
            said = name.encode()
            return any(node is not None and said in self.data[node.start_byte : node.end_byte] for node in before)
        return known is not None or chain is not None

    def bind_instance_of(self, name: str, class_name: str) -> None:
        self._scope.names[name] = Chain(class_name, (), "t")

    def extend_named(self, name: str, node: tree_sitter.Node) -> None:
        self._extend(node, -1)
        chain = self._type_chain(node, is_instance=False)
        if chain is not None and chain.root_kind in ("", "p"):
            self._parts.append((self._scope, name, chain))

    def note_attribute(self, name: str, type_: tree_sitter.Node) -> None:
        owner, chain = self._scope.class_owner(), self._type_chain(type_)
        if owner >= 0 and chain is not None:
            self._attributes.append((owner, name, self._scope, chain))

    def refer_to(
        self, node: tree_sitter.Node, names: Sequence[str], *, is_call: bool, is_certain: bool, is_path: bool
    ) -> None:
        marks = () if is_certain else (PERHAPS,)
        last = (CALLED,) if is_call else ()
        chain = Chain(names[0], (*marks, *names[1:], *last), "p" if is_path else "")
        if len(names) <= _STEPS_MAX:
            self._refer(node.start_byte, int(is_call), chain)

    def parse_inside(self, node: tree_sitter.Node) -> tree_sitter.Node | None:
        self._inside_left -= 1
        return self._grammar.parse_part(self.data, node) if self._inside_left >= 0 else None

    def declare(self, type_: tree_sitter.Node) -> None:
        chain = self._type_chain(type_)
        if chain is not None and self._scope.owner >= 0:
            self._types[self._scope.owner] = (self._scope, chain)

    def open_scope(self, *, is_function: bool = False) -> None:
        self._push_scope(Scope(self._scope, is_function=is_function))

    def open_class(self, base: tree_sitter.Node | None) -> None:
        inner = Scope(self._scope)
        inner.is_class = inner.has_bases = True
        inner.instance = self._type_chain(base) if base is not None else None
        self._push_scope(inner)

    def open_receiver(self, type_: tree_sitter.Node) -> None:
        scope = self._scope
        scope.is_class = scope.has_bases = scope.is_implicit = True
        scope.instance = self._type_chain(type_)
        found = self._type_chain(type_, is_instance=False)
        if found is not None and not found.root_kind and scope.outer is not None:
            self._bases.setdefault(scope.owner, (scope, []))[1].append(found)

    def note_receiver(self, type_: tree_sitter.Node) -> None:
        found = self._type_chain(type_, is_instance=False) or Chain("", (), "?")
        self._bases.setdefault(self._scope.owner, (self._scope, []))[1].append(found)

    def refer_types(self, *nodes: tree_sitter.Node | None) -> None:
        grammar = self._grammar
        waiting = list(nodes)
        while waiting:
            at = waiting.pop()
            if at is None:
                continue
            if at.kind_id in grammar.name_ids:
                self._refer(at.start_byte, 0, Chain(self.text(at), (), "y"))
            elif grammar.is_spine(at) and at.kind_id not in grammar.name_wrappers:
                self._spine(at, "reference")
            else:
                waiting += at.named_children

    @property
    def around(self) -> str:
        scope = self._scope
        return self._drafts[scope.owner].kind if scope.is_class and scope.class_owner() >= 0 else ""

    def bind_module(self, name: str, level: int) -> None:
        owner = self._scope.owner
        for _ in range(level):
            owner = self._drafts[owner].parent if owner >= 0 else -1
        self._scope.names[name] = Chain(owner, (), "s") if owner >= 0 else Chain("self", (), "f")

    @property
    def modules(self) -> list[str]:
        found: list[str] = []
        owner = self._scope.owner
        while owner >= 0:
            draft = self._drafts[owner]
            if draft.kind == "module":
                found.append(draft.name)
            owner = draft.parent
        return found[::-1]

    def binds(self, name: str) -> bool:
        return name in self._scope.names

    def reach(self, name: tree_sitter.Node, owner: tree_sitter.Node | None) -> None:
        chain = self._type_chain(owner, is_instance=False) if owner is not None else None
        if chain is None or chain.root_kind in ("l", "n"):
            chain = Chain("", (), "?")
        marks = (FIELD,) if self._grammar.row.marks_calls else ()
        self._refer(name.start_byte, 0, chain.then((self.text(name), *marks)))

    def bind_instance(self, name: str, *, is_class: bool = False) -> None:
        owner = self._scope.class_owner()
        if owner < 0 and self._scope.instance is not None:
            self._scope.names[name] = self._scope.instance
        else:
            self._scope.names[name] = Chain(owner, (), "s" if is_class else "t") if owner >= 0 else None

    def unbind(self, name: str) -> None:
        self._scope.unbound.add(name)

    def add_export(self, name: str, local: str) -> None:
        self._exports[name] = local

    @property
    def is_in_function(self) -> bool:
        return self._scope.is_function

    @property
    def is_method(self) -> bool:
        outer = self._scope.outer
        return self._scope.is_function and outer is not None and outer.is_class

    # -- the walk ------------------------------------------------------------------------------------------------------

    def text(self, node: tree_sitter.Node) -> str:
        raise NotImplementedError

    def visit(self, *nodes: tree_sitter.Node | None) -> None:
        raise NotImplementedError

    def _refer(self, byte: int, role: int, chain: Chain | str) -> None:
        raise NotImplementedError

    def _spine(self, node: tree_sitter.Node, role: Role) -> None:
        raise NotImplementedError

    def _extend(self, node: tree_sitter.Node, owner: int) -> None:
        raise NotImplementedError

    def _push_scope(self, scope: Scope) -> None:
        raise NotImplementedError

    def _type_chain(self, node: tree_sitter.Node, *, is_instance: bool = True) -> Chain | None:
        raise NotImplementedError

    def _value_chain(
        self, value: tree_sitter.Node | None, type_: tree_sitter.Node | str | None, steps: tuple[str, ...] = ()
    ) -> Chain | None:
        raise NotImplementedError
