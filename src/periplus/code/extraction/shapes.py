"""Definitions that a function of a row takes apart by itself, and the place where it stands: the part of a walk that serves it."""

from __future__ import annotations

__all__ = ["DEPTH_MAX", "SYMBOLS_MAX", "Shaping"]

from typing import TYPE_CHECKING, Final

from periplus.code.extraction.nodes import last_line
from periplus.code.extraction.parts import Draft, Task, Wrapped
from periplus.code.extraction.scopes import Chain, Scope
from periplus.code.languages.table import Naming, Shape

if TYPE_CHECKING:
    import tree_sitter

DEPTH_MAX: Final = 100
SYMBOLS_MAX: Final = 50_000
_CALL_ROLE: Final = 1
_PLAIN: Final = Shape()


class Shaping:
    """The methods of a walk for rows that define names by functions; what the walk itself brings stands first."""

    _stack: list[tree_sitter.Node | Scope | Wrapped | Task]
    _scope: Scope
    _drafts: list[Draft]
    _types: dict[int, tuple[Scope, Chain]]

    def _chain(self, node: tree_sitter.Node) -> Chain | None:
        raise NotImplementedError

    def _type_chain(self, node: tree_sitter.Node, *, is_instance: bool = True) -> Chain | None:
        raise NotImplementedError

    def _refer(self, byte: int, role: int, chain: Chain | str) -> None:
        raise NotImplementedError

    def _draft(
        self,
        node: tree_sitter.Node,
        naming: Naming,
        names: tuple[str, str, tree_sitter.Node],
        inner: Scope,
        outside: tuple[tree_sitter.Node | None, tree_sitter.Node | None],
    ) -> Scope:
        raise NotImplementedError

    def define_shape(
        self, node: tree_sitter.Node, name: tree_sitter.Node, kind: str, said: str, shape: Shape = _PLAIN
    ) -> None:
        scope = self._scope
        around = scope
        while shape.is_global and around.outer is not None:
            around = around.outer
        if around.depth >= DEPTH_MAX or len(self._drafts) >= SYMBOLS_MAX:
            return
        qualified = ".".join((*((around.prefix,) if around.prefix else ()), *shape.outer, said))
        inner = Scope(
            Scope(around) if shape.outer else around,
            is_function=kind not in ("module", "namespace") and not shape.is_class,
            prefix=qualified,
        )
        self._scope = around
        self._draft(node, Naming(kind), (qualified, said, name), inner, (shape.whole, None))
        self._fit(shape, inner, kind)
        self._scope = scope
        if not shape.is_leaf:
            self._stack.append(scope)
            self._scope = inner

    def _fit(self, shape: Shape, inner: Scope, kind: str) -> None:
        """Note what ``shape`` tells of the definition that was added last; ``inner`` is its scope."""
        index = inner.owner
        draft = self._drafts[index]
        draft.kind = kind
        if shape.outer:
            draft.parent = -1
        if shape.is_exported is not None:
            draft.is_exported = shape.is_exported
        if shape.body is not None:
            draft.body = shape.body.start_byte
            if shape.body.end_byte > draft.end:
                draft.end, draft.end_line = shape.body.end_byte, last_line(shape.body, shape.body)
        if shape.is_shared and self._scope.outer is not None:
            self._scope.outer.bind_symbol(draft.name, index)
        instance = inner if shape.is_class else inner.outer if shape.outer else None
        if instance is not None:
            instance.is_class = True
            instance.owner = index
            inner.instance = instance.instance = Chain(index, (), "t")
        found = self._type_chain(shape.type) if shape.type is not None else None
        if found is None and shape.value is not None:
            found = self._chain(shape.value)
        if found is not None:
            self._types[index] = (self._scope, found)

    def take_next(self, kind: str) -> tree_sitter.Node | None:
        top = self._stack[-1] if self._stack else None
        if top is None or isinstance(top, Scope | Task | Wrapped) or top.type != kind:
            return None
        self._stack.pop()
        return top

    def refer_at(self, byte: int, name: str, *, is_call: bool = False) -> None:
        self._refer(byte, _CALL_ROLE if is_call else 0, Chain(name, ()))

    @property
    def kind_around(self) -> str:
        return self._drafts[self._scope.owner].kind if self._scope.owner >= 0 else ""

    @property
    def name_around(self) -> str:
        return self._drafts[self._scope.owner].name if self._scope.owner >= 0 else ""

    @property
    def is_in_class(self) -> bool:
        return self._scope.class_owner() >= 0

    @property
    def is_class_self(self) -> bool:
        instance = self._scope.instance
        return instance is not None and instance.root_kind == "s"
