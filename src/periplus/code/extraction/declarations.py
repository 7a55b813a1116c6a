"""Definitions, scopes and references that functions of rows make where no line of a table says it."""

from __future__ import annotations

__all__ = ["Declarations"]

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from periplus.code.extraction.parts import Draft, Task, Wrapped
from periplus.code.extraction.scopes import Chain, Scope
from periplus.code.languages.table import Declaration, Language, Naming
from periplus.code.model import CALL, ELEMENT, ROLES, Import, Role

if TYPE_CHECKING:
    import tree_sitter

    from periplus.code.languages.table import Extraction

_DEPTH_MAX: Final = 100
_STEPS_MAX: Final = 12
_SYMBOLS_MAX: Final = 50_000
_CALLABLE: Final = frozenset({"function", "method", "constructor", "test", "route"})
_IMPORT_ROLE: Final = ROLES.index("import")
_ABSENT: Final = object()
Expected: TypeAlias = Chain


class Declarations:
    """A part of the walk (`extractor`), which has the attributes and the methods named here."""

    _scope: Scope
    _stack: list[tree_sitter.Node | Scope | Wrapped | Task]
    _drafts: list[Draft]
    _types: dict[int, tuple[Scope, Chain]]
    _attributes: list[tuple[int, str, Scope, Chain]]
    _imports: list[Import]
    _package: str
    _exports: dict[str, str]
    _row: Language
    data: bytes

    def __init__(self) -> None:
        self._loaded: dict[tuple[int, int], int] = {}
        self._around: Wrapped | None = None
        self._exported: set[str] = set()
        self._expected: dict[int, Chain] = {}
        self._elements: dict[int, Chain] = {}

    if TYPE_CHECKING:  # defined in the walk

        def text(self, node: tree_sitter.Node) -> str: ...

        def visit(self, *nodes: tree_sitter.Node | None) -> None: ...

        def add_import(self, node: tree_sitter.Node, module: str) -> None: ...

        def _push_scope(self, scope: Scope) -> None: ...

        def _refer(self, byte: int, role: int, chain: Chain) -> None: ...

        def _spine(self, node: tree_sitter.Node, role: Role) -> None: ...

        def _type_chain(self, node: tree_sitter.Node, *, is_instance: bool = True) -> Chain | None: ...

        def _value_chain(
            self, value: tree_sitter.Node | None, type_: tree_sitter.Node | str | None, steps: tuple[str, ...] = ()
        ) -> Chain | None: ...

        def _extend(self, node: tree_sitter.Node, owner: int, role: Role = "extends") -> None: ...

        def _wrap(
            self,
            node: tree_sitter.Node,
            _: object,
            whole: tree_sitter.Node | None = None,
            first: tree_sitter.Node | None = None,
        ) -> None: ...

        def _draft(
            self,
            node: tree_sitter.Node,
            naming: Naming,
            names: tuple[str, str, tree_sitter.Node],
            inner: Scope,
            outside: tuple[tree_sitter.Node | None, tree_sitter.Node | None],
        ) -> Scope: ...

    # -- definitions ---------------------------------------------------------------------------------------------------

    def declare_as(
        self,
        node: tree_sitter.Node,
        name: tree_sitter.Node,
        shape: Declaration,
        inside: Sequence[tree_sitter.Node | None] | None = (),
    ) -> None:
        scope = self._scope
        said = (shape.text or self.text(name)).strip(" .\x1f")
        if not said or len(self._drafts) >= _SYMBOLS_MAX or scope.depth >= _DEPTH_MAX:
            self.visit(*(inside or ()))
            return
        inner = self._declared(node, name, shape, said)
        if shape.self == "own":
            inner.instance = Chain(inner.owner, (), "t")
        elif shape.self == "outer" and shape.outer >= 0:
            inner.instance = Chain(shape.outer, (), "t")
        elif shape.self == "none":
            inner.instance = None
        found = self._value_chain(shape.value, shape.type)
        if found is not None and found.root_kind not in ("l", "n"):
            self._types[inner.owner] = (inner if shape.is_generic else scope, found)
        if shape.binds_inside:
            inner.names[said] = inner.owner
        if inside is not None:
            self._push_scope(inner)
            for base in shape.bases:
                self._extend(base, inner.owner, shape.base_role)
            self.visit(*inside)

    def _declared(self, node: tree_sitter.Node, name: tree_sitter.Node, shape: Declaration, said: str) -> Scope:
        """Draft the definition, and return the scope in it."""
        scope = self._scope
        outer = shape.outer if shape.outer >= 0 else scope.owner if shape.outer == -1 else -1
        prefix = self._drafts[outer].qualified if outer >= 0 else ""
        qualified = ".".join(part for part in (prefix, shape.path, said) if part)
        inner = Scope(scope, is_function=shape.kind in _CALLABLE, prefix=qualified)
        around = self._around_of(node)
        whole, first = (around.whole, around.first) if around is not None else (None, None)
        bound = scope.names.get(said, _ABSENT)
        naming = Naming(shape.kind, is_class=shape.is_class)
        inner = self._draft(node, naming, (qualified, said, name), inner, (whole, first))
        self._drafts[inner.owner].parent = outer
        if not shape.is_bound:
            if bound is _ABSENT:
                scope.names.pop(said, None)
            else:
                assert bound is None or isinstance(bound, (int, Chain))
                scope.names[said] = bound
        return inner

    def add_member(
        self, node: tree_sitter.Node, name: tree_sitter.Node, kind: str, type_: tree_sitter.Node | None
    ) -> None:
        inner = self._scope
        scope = inner.outer
        if scope is None or not scope.is_class or len(self._drafts) >= _SYMBOLS_MAX:
            return
        said = self.text(name)
        self._scope = scope
        made = self._draft(
            node, Naming(kind), (f"{scope.prefix}.{said}", said, name), Scope(scope, prefix="-"), (None, None)
        )
        self._scope = inner
        inner.names[said] = made.owner
        if type_ is not None and (found := self._type_chain(type_)) is not None:
            self._types[made.owner] = (scope, found)

    def defined(self, name: str) -> int:
        found = self._scope.lookup(name, with_classes=False)
        return found if isinstance(found, int) and found >= 0 else -1

    def self_owner(self) -> int:
        instance = self._scope.instance
        is_known = instance is not None and instance.root_kind == "t" and isinstance(instance.root, int)
        return int(instance.root) if instance is not None and is_known else -1

    def mark_exported(self, name: str) -> None:
        self._exported.add(name)

    def set_kind(self, index: int, kind: str) -> None:
        self._drafts[index].kind = kind

    def note_value(self, name: str, value: tree_sitter.Node | None, type_: tree_sitter.Node | None) -> None:
        instance = self._scope.instance
        found = self._value_chain(value, type_)
        if instance is not None and instance.root_kind == "t" and isinstance(instance.root, int) and found is not None:
            self._attributes.append((instance.root, name, self._scope, found))

    # -- the walk ------------------------------------------------------------------------------------------------------

    def _around_of(self, node: tree_sitter.Node) -> Wrapped | None:
        around = self._around
        return around if around is not None and around.node.id == node.id else None

    def wrapper_of(self, node: tree_sitter.Node) -> str:
        around = self._around_of(node)
        return around.whole.type if around is not None else ""

    def wrap(self, node: tree_sitter.Node) -> None:
        around = self._around_of(node)
        if around is not None:
            self._wrap(node, None, around.whole, around.first)
        else:
            self._wrap(node, None)

    def later(self, *tasks: Callable[[], None]) -> None:
        self._stack += [Task(task) for task in tasks[::-1]]

    def open_function(
        self,
        *,
        has_self: bool = True,
        is_block: bool = False,
        is_signature: bool = False,
        node: tree_sitter.Node | None = None,
    ) -> None:
        inner = Scope(self._scope, is_function=True)
        inner.is_block = is_block
        inner.is_signature = is_signature
        if not has_self:
            inner.instance = None
        if node is not None and (expected := self._expected.get(node.id)) is not None:
            inner.returns = expected.then((CALL,))
        self._push_scope(inner)

    @property
    def is_class_body(self) -> bool:
        return self._scope.is_class

    # -- names ---------------------------------------------------------------------------------------------------------

    def bind_hoisted(self, name: str, value: tree_sitter.Node | None, type_: tree_sitter.Node | None) -> None:
        scope = self._scope
        while scope.is_block and scope.outer is not None:
            scope = scope.outer
        scope.bind_local(name, self._value_chain(value, type_))

    def bind_generic(self, name: str, constraint: tree_sitter.Node | None = None) -> None:
        chain = self._type_chain(constraint, is_instance=False) if constraint is not None else None
        scope = self._scope
        if scope.is_class and scope.outer is not None:
            scope.outer = Scope(scope.outer)
            scope.outer.names[name] = chain
        else:
            scope.bind_local(name, chain)

    def bind_expected(self, name: str, expected: Expected | None) -> None:
        self._scope.bind_local(name, expected)

    # -- what a value is expected to be ----------------------------------------------------------------------------------

    def expect(
        self,
        node: tree_sitter.Node,
        *,
        type_: tree_sitter.Node | None = None,
        value: tree_sitter.Node | None = None,
        of: Expected | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        chain = of if of is not None else self._value_chain(value, type_)
        if chain is not None and chain.root_kind not in ("l", "n", "?") and len(chain.steps) + len(steps) < _STEPS_MAX:
            self._expected[node.id] = chain.then(steps)

    def expect_elements(self, node: tree_sitter.Node, value: tree_sitter.Node) -> None:
        chain = self._value_chain(value, None)
        if chain is not None and chain.root_kind not in ("l", "n", "?"):
            self._elements[node.id] = chain.then((ELEMENT,))

    def expect_parameter(self, node: tree_sitter.Node, type_: tree_sitter.Node) -> None:
        chain = self._type_chain(type_)
        if chain is not None and chain.root_kind not in ("l", "n", "?"):
            self._elements[node.id] = chain

    def expected(self, node: tree_sitter.Node) -> Expected | None:
        return self._expected.get(node.id)

    def expected_parameter(self, node: tree_sitter.Node, position: int) -> Expected | None:
        if (element := self._elements.get(node.id)) is not None:
            return element if position == 0 else None
        found = self._expected.get(node.id)
        if found is None:
            return None
        if found.steps and found.steps[-1][0] == "(" and found.steps[-1] != CALL:
            return Chain(found.root, (*found.steps[:-1], f"{found.steps[-1]}({position})"), found.root_kind)
        return found.then((f"({position})",))

    def expected_return(self) -> Expected | None:
        scope: Scope | None = self._scope
        while scope is not None and scope.is_block:
            scope = scope.outer
        return scope.returns if scope is not None else None

    def set_return(self, type_: tree_sitter.Node) -> None:
        self._scope.returns = self._type_chain(type_)

    def note_returned(self, value: tree_sitter.Node) -> None:
        scope: Scope | None = self._scope
        while scope is not None and scope.is_block:
            scope = scope.outer
        if scope is None or not scope.is_function or scope.returns is not None or not self._is_own(scope):
            return
        found = self._value_chain(value, None)
        if found is not None and found.root_kind not in ("l", "n", "?"):
            self._types.setdefault(scope.owner, (self._scope, found))

    def note_parameter(self, step: str, type_: tree_sitter.Node) -> None:
        scope = self._scope
        if scope.is_signature and scope.outer is not None and self._is_own(scope.outer):
            if self._drafts[scope.owner].kind in _CALLABLE:
                return
        elif not self._is_own(scope):
            return
        found = self._type_chain(type_)
        if found is not None and found.root_kind not in ("l", "n"):
            self._attributes.append((scope.owner, step, scope, found))

    def _is_own(self, scope: Scope) -> bool:
        """Return True for the outermost scope of a definition."""
        return scope.owner >= 0 and (scope.outer is None or scope.outer.owner != scope.owner)

    # -- references ------------------------------------------------------------------------------------------------------

    def _load(self, call: tree_sitter.Node) -> int:
        """Return the index of the import that ``call`` (``require("x")``) makes; -1 where it makes none."""
        if not self.data.startswith(self._row.load_words, call.start_byte):
            return -1
        place = (call.start_byte, call.end_byte)
        known = self._loaded.get(place)
        if known is None:
            loader = self._row.loader
            module = loader(cast("Extraction", self), call) if loader is not None else ""
            known = self._loaded[place] = len(self._imports) if module else -1
            if module:
                self.add_import(call, module)
        return known

    def refer_as(self, node: tree_sitter.Node, role: Role) -> None:
        self._spine(node, role)

    def refer_members(
        self,
        keys: Sequence[tuple[tree_sitter.Node, str]],
        value: tree_sitter.Node | None = None,
        type_: tree_sitter.Node | None = None,
        *,
        of: Expected | None = None,
    ) -> None:
        chain = of if of is not None else self._value_chain(value, type_)
        if chain is None or chain.root_kind == "n" or len(chain.steps) >= _STEPS_MAX:
            chain = Chain("", (), "?")
        for key, local in keys:
            reached = chain.then((self.text(key).strip("\"'"),))
            if chain.root_kind != "l":
                self._refer(key.start_byte, 0, reached)
            if local:
                self._scope.bind_local(local, None if chain.root_kind in ("?", "l") else reached)
