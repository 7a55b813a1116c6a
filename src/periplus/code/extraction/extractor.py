"""The facts of a source file from its syntax tree.

The tree is walked once, in the order of the file, with a stack of nodes (no recursion: files may nest deeply). Rows of the table of
languages (`code.languages`) say what a node means. Names are looked up when the walk is over, since a name may be used before its
binding; what the file alone decides is decided here, the rest is left to `code.resolution`.

An expression such as ``a.b(c).d`` is a *spine*: its root ``a`` and the steps ``b``, ``()``, ``d``; each name of it is a reference whose
target is the root with the steps up to it. A local variable whose class is known from its value or its annotation is replaced by that
expression, so that ``x = Store(); x.load()`` refers to ``Store().load``.
"""

from __future__ import annotations

__all__ = ["PARSE_S_MAX", "REFERENCES_MAX", "SYMBOLS_MAX", "TookTooLong", "extract"]

import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from periplus.code.extraction.assembly import Findings, Mention, assemble
from periplus.code.extraction.declarations import Declarations
from periplus.code.extraction.expressions import STEPS_MAX, Expressions
from periplus.code.extraction.grammar import Grammar
from periplus.code.extraction.nodes import after_annotations, child_at, descend, last_line, lead_byte
from periplus.code.extraction.parts import TASK_KIND, WRAPPED_KIND, Draft, Task, Wrapped
from periplus.code.extraction.row_calls import INSIDE_MAX, RowCalls
from periplus.code.extraction.scopes import Chain, Scope, dotted
from periplus.code.extraction.shapes import DEPTH_MAX, SYMBOLS_MAX, Shaping
from periplus.code.languages.table import Bind, Naming
from periplus.code.model import CALL, CALLED, ROLES, Facts, Import, Role

if TYPE_CHECKING:
    import tree_sitter

REFERENCES_MAX: Final = 400_000
PARSE_S_MAX: Final = 3.0
_NODES_PER_LOOK: Final = 8_192
_GAP_BYTES_MAX: Final = 4_096
_CALLED: Final = (CALL,)
_UNKNOWN: Final = Chain("", (), "?")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_CLASSES: Final = frozenset({"class", "interface", "trait", "enum", "struct", "record", "object", "protocol"})
_CALLED_OF_SELF: Final = frozenset({"method", "function", "property"})
_CALLABLE: Final = frozenset({"function", "method"})
_ROLE_NUMBERS: Final = {role: number for number, role in enumerate(ROLES)}

Handler: TypeAlias = "Callable[[_Walk, Any, Any], None]"


class TookTooLong(Exception):  # noqa: N818 - an event between two functions, no error of its own
    """The limit of time or nodes is reached."""


def extract(
    grammar: Grammar, root: tree_sitter.Node, data: bytes, deadline: float, blanked: Sequence[tuple[int, str]] = ()
) -> Facts:
    """Return the facts of the file ``data`` with the syntax tree ``root``; ``blanked`` are names that refer and are not in it. Raises
    TookTooLong after ``deadline`` (monotonic).
    """
    walk = _Walk(grammar, data, deadline)
    walk.run(root)
    for byte, name in blanked:
        walk.refer_at(byte, name)
    return walk.facts(has_errors=root.has_error)


class _Walk(Declarations, Expressions, Shaping, RowCalls):
    """One walk over a tree; the methods without an underscore are what the functions of rows call (`languages.table.Extraction`)."""

    def __init__(self, grammar: Grammar, data: bytes, deadline: float) -> None:
        self.data = data
        self._grammar = grammar
        self._row = grammar.row
        self._deadline = deadline
        self._stack: list[tree_sitter.Node | Scope | Wrapped | Task] = []
        self._scope = Scope(None)
        self._drafts: list[Draft] = []
        self._imports: list[Import] = []
        self._references: list[Mention] = []
        self._types: dict[int, tuple[Scope, Chain]] = {}
        self._bases: dict[int, tuple[Scope, list[Chain]]] = {}
        self._inside_left = INSIDE_MAX
        self._parts: list[tuple[Scope, str, Chain]] = []
        self._attributes: list[tuple[int, str, Scope, Chain]] = []
        self._exports: dict[str, str] = {}
        self._package = ""
        self._leading: tuple[tree_sitter.Node, int] | None = None
        self._comment = (-1, -1)
        self._marks: dict[int, object] = {}
        Declarations.__init__(self)

    # -- the walk ------------------------------------------------------------------------------------------------------

    def run(self, root: tree_sitter.Node) -> None:
        stack = self._stack
        stack.append(root)
        handlers = _handlers_of(self._grammar)
        while stack:
            if time.monotonic() > self._deadline:
                raise TookTooLong
            for _ in range(_NODES_PER_LOOK):
                node = stack.pop()
                handler, argument = handlers[node.kind_id]
                handler(self, node, argument)
                if not stack:
                    return

    def _descend(self, node: tree_sitter.Node, _: object) -> None:
        children = node.named_children
        children.reverse()
        self._stack += children

    def _return(self, scope: Scope, _: object) -> None:
        """Go on in ``scope``: the one around, put there when the inner one began, or one for what comes next."""
        self._scope = scope

    def _run_task(self, task: Task, _: object) -> None:
        task.run()

    def _visit_wrapped(self, item: Wrapped, _: object) -> None:
        node, whole, first = item
        handler, argument = _handlers_of(self._grammar)[node.kind_id]
        if handler is _Walk._define_plain:
            self._define(node, argument, whole, first)
        elif handler is _Walk._wrap:
            self._wrap(node, None, whole, first)
        else:
            self._around = item
            handler(self, node, argument)

    def _wrap(
        self,
        node: tree_sitter.Node,
        _: object,
        whole: tree_sitter.Node | None = None,
        first: tree_sitter.Node | None = None,
    ) -> None:
        if whole is None:
            whole, first = node, self._leading_of(node)
        children = node.named_children
        leading = self._row.leading
        if len(children) == 1 and not leading:
            self._visit_wrapped(Wrapped(children[0], whole, first), None)
            return
        items: list[tree_sitter.Node | Scope | Wrapped] = []
        for child in children:
            if child.type in leading:
                first = first or child
                items.append(child)
            else:
                items.append(Wrapped(child, whole, first))
        self._stack += items[::-1]

    def _lead(self, node: tree_sitter.Node, _: object) -> None:
        first = self._leading_of(node)
        self._leading = (first or node, node.end_byte)
        self._stack += node.named_children[::-1]

    def _leading_of(self, node: tree_sitter.Node) -> tree_sitter.Node | None:
        """Return the first of the attributes directly before ``node``."""
        if self._leading is None:
            return None
        first, end = self._leading
        start = node.start_byte
        if start < end or start - end > _GAP_BYTES_MAX or self.data[end:start].strip():
            return None
        return first

    def _note_comment(self, node: tree_sitter.Node, _: object) -> None:
        start, end = node.start_byte, node.end_byte
        if self.data[self.data.rfind(b"\n", 0, start) + 1 : start].strip():
            return  # behind code on its line: it says nothing of what follows
        before, last = self._comment
        if (
            last >= 0
            and last <= start
            and self.data.count(b"\n", last, start) <= 1
            and not self.data[last:start].strip()
        ):
            start = before
        self._comment = (start, end)

    def _skip(self, node: tree_sitter.Node, _: object) -> None:
        """Visit nothing below ``node``."""

    def _enter(self, node: tree_sitter.Node, places: object) -> None:
        assert isinstance(places, tuple)
        self.visit(*(child_at(node, place) for place in places))

    def _special(self, node: tree_sitter.Node, handler: object) -> None:
        assert callable(handler)
        handler(self, node)

    # -- scopes and definitions ------------------------------------------------------------------------------------------

    def _open(self, node: tree_sitter.Node, is_function: object) -> None:
        inner = Scope(self._scope, is_function=bool(is_function))
        inner.is_block = not is_function
        if node.kind_id in self._grammar.own_self_ids:
            inner.instance = None
        self._push_scope(inner)
        self._stack += node.named_children[::-1]

    def _push_scope(self, scope: Scope) -> None:
        self._stack.append(self._scope)
        self._scope = scope

    def _define_plain(self, node: tree_sitter.Node, naming: object) -> None:
        assert isinstance(naming, Naming)
        self._define(node, naming, None, None)

    def _define(
        self, node: tree_sitter.Node, naming: Naming, whole: tree_sitter.Node | None, first: tree_sitter.Node | None
    ) -> None:
        scope = self._scope
        if naming.is_outer and scope.is_function and node.type not in self._row.functions and _is_plain(naming):
            self._bind_loose(node, naming)
            return
        named = None if scope.depth >= DEPTH_MAX or len(self._drafts) >= SYMBOLS_MAX else self._name_of(node, naming)
        is_function = node.type in self._row.functions
        if named is None:
            if is_function:
                self._push_scope(Scope(scope, is_function=True))
            self._bind_loose(node, naming)
            return
        parts, name_node = named
        children = [child for child in node.named_children if child.id != name_node.id]
        if naming.is_outer and scope.is_function:
            self.bind(parts[-1], child_at(node, naming.value), child_at(node, naming.type))
            self._stack += children[::-1]
            return
        parts[-1] = parts[-1].removeprefix(self._row.sigil)
        qualified = ".".join((scope.prefix, *parts) if scope.prefix else parts)
        inner = Scope(scope, is_function=is_function, prefix=qualified)
        if naming.kind:
            inner = self._draft(node, naming, (qualified, parts[-1], name_node), inner, (whole, first))
        else:  # an ``impl``: members of a type that is defined elsewhere
            inner.instance = Chain(parts[-1], (), "t")
            inner.is_class = True
        self._push_scope(inner)
        if naming.begin is not None and (done := {child.id for child in naming.begin(self, node)}):
            children = [child for child in children if child.id not in done]
        bases: list[tree_sitter.Node] = []
        for place in naming.bases:
            base = child_at(node, place)
            if base is not None:
                bases.append(base)
                self._extend(base, inner.owner)
        seen = {base.id for base in bases}
        self._stack += [child for child in children if child.id not in seen][::-1]

    def _bind_loose(self, node: tree_sitter.Node, naming: Naming) -> None:
        """Visit a node of a defining kind without a plain name: ``a, b = f()``, ``const {x} = y``."""
        pattern = child_at(node, naming.fields[-1]) if naming.fields[-1].isidentifier() else None
        children = node.named_children
        children.reverse()
        if pattern is None or not naming.is_outer:
            self._stack += children
            return
        number = pattern.id
        self._stack += [child for child in children if child.id != number]
        self._bind_to(pattern, child_at(node, naming.value), child_at(node, naming.type))

    def _draft(
        self,
        node: tree_sitter.Node,
        naming: Naming,
        names: tuple[str, str, tree_sitter.Node],
        inner: Scope,
        outside: tuple[tree_sitter.Node | None, tree_sitter.Node | None],
    ) -> Scope:
        qualified, name, name_node = names
        whole, first = outside
        scope = self._scope
        index = len(self._drafts)
        kind = "method" if naming.kind == "function" and scope.is_class else naming.kind
        told = node.child_by_field_name(naming.kind_field) if naming.kinds else None
        if told is not None:
            kind = naming.kinds.get(told.type, kind)
        draft = Draft(name, qualified, kind, scope.owner, name_node.start_byte)
        self.whole = whole = whole or node
        start = first or self._leading_of(whole) or whole
        draft.start, draft.end = start.start_byte, whole.end_byte
        draft.start_line, draft.end_line = start.start_point[0] + 1, last_line(start, whole)
        self._describe(draft, node)
        if told is not None and (brace := self.data.find(b"{", told.start_byte, told.end_byte)) >= 0:
            draft.body = brace
        self._drafts.append(draft)
        is_name = kind not in ("constructor", "extension") and (
            kind != "test" or bool(naming.fields)
        )  # a test that a string names
        if self._row.has_calls_of_self and kind in _CALLED_OF_SELF and scope.class_owner() >= 0:
            is_name = False
        if scope.is_class and not self._row.has_bare_members:
            is_name = False
        if is_name and (scope.prefix + "." + name == qualified or qualified == name):
            is_called = kind in _CALLABLE and self._row.called_names
            scope.bind_symbol(f"{name}()" if is_called else self._row.sigil + name if kind == "value" else name, index)
            if self._row.has_type_names and (naming.is_class or kind == "type"):
                scope.bind_symbol(f"{name}:", index)
        inner.owner = index
        inner.is_class = naming.is_class
        if naming.is_class:
            inner.instance = Chain(index, (), "t")
            inner.is_implicit = True
        self._note_type(index, child_at(node, naming.type), child_at(node, naming.value), inner)
        return inner

    def _note_type(
        self, index: int, declared: tree_sitter.Node | str | None, value: tree_sitter.Node | None, inner: Scope
    ) -> None:
        """Note the type of a definition; where members are in scope, what its scope ``inner`` binds is seen in it."""
        scope = inner if self._row.has_member_scopes else self._scope
        if isinstance(declared, str):
            self._types[index] = (self._scope, dotted(declared).then(_CALLED))
        elif (declared is not None and (found := self._type_chain(declared)) is not None) or (
            value is not None and (found := self._chain(value)) is not None
        ):
            self._types[index] = (scope, found)
        elif declared is None and (documented := self._row.documented_type) is not None:
            name = documented(self._drafts[index].kind, self._doc_of(index))
            if name:
                self._types[index] = (self._scope, dotted(name).then(_CALLED))

    def _doc_of(self, index: int) -> str:
        draft = self._drafts[index]
        return self.data[draft.doc : draft.start][:_GAP_BYTES_MAX].decode("utf-8", "replace") if draft.doc >= 0 else ""

    def _describe(self, draft: Draft, node: tree_sitter.Node) -> None:
        """Find signature and doc, and whether others see the definition."""
        row = self._row
        body = node.child_by_field_name("body")
        if body is None and row.bodies:
            body = next((child for child in node.named_children if child.type in row.bodies), None)
        draft.head = (
            after_annotations(node, row.annotations)
            if row.annotations
            else lead_byte(self.data, node.start_byte, row.lead_words)
        )
        draft.body = body.start_byte if body is not None else node.end_byte
        doc = row.doc(self, node) if row.doc is not None else None
        if doc is not None:
            draft.doc = doc.start_byte
        elif self._comment[1] >= 0:
            start, end = self._comment
            between = self.data[end : draft.start] if end <= draft.start <= end + _GAP_BYTES_MAX else b"?"
            if between.count(b"\n") <= 1 and between.strip() in row.lead_words:
                draft.doc = start
        if row.is_exported is not None:
            draft.is_exported = row.is_exported(self, node, draft.name)
        if row.is_test is not None:
            start = draft.doc if row.documented_type is not None and draft.doc >= 0 else draft.start
            end = draft.head if row.annotations else draft.name_byte
            decorations = self.data[start:end][:_GAP_BYTES_MAX]
            draft.is_test = row.is_test(draft.name, draft.kind, decorations.decode("utf-8", "replace"))

    def _name_of(self, node: tree_sitter.Node, naming: Naming) -> tuple[list[str], tree_sitter.Node] | None:
        """Return the parts of the name that ``node`` defines, and the node of the last; None where it is no name."""
        parts: list[str] = []
        last: tree_sitter.Node | None = None
        for step in naming.fields:
            at: tree_sitter.Node | None = node
            for field in step.split("/"):
                at = descend(at, field) if at is not None else None
            if at is None or at.type in naming.not_names:
                if step == naming.fields[-1]:
                    return None
                continue
            text = self.text(at).strip("\"'`")
            if text:
                parts += text.partition("<")[0].split(naming.separator) if naming.separator else [text]
                last = at
        return (parts, last) if parts and last is not None else None

    def _extend(self, node: tree_sitter.Node, owner: int, role: Role = "extends") -> None:
        """Note the classes in ``node`` as the bases of the definition ``owner``."""
        scope = self._scope
        scope.has_bases = True
        bases, others = self._grammar.base_nodes(node)
        known = {base.id for base in bases}
        if self._row.has_member_scopes:
            self._stack += others[::-1]
            if scope.outer is not None:  # members of the class are not in scope here
                self._scope = Scope(scope.outer)
                self._scope.owner = owner
        elif node.id not in known:
            self._stack += [child for child in node.named_children[::-1] if child.id not in known]
        for base in bases:
            found = self._type_chain(base, is_instance=False)
            if found is not None and owner >= 0 and found.root_kind in ("", "f", "p", "y"):
                self._bases.setdefault(owner, (self._scope, []))[1].append(found)
            bare = self._bare_type(base)
            if bare.id != base.id:
                self._stack += [child for child in base.named_children[::-1] if child.id != bare.id]
            if self._grammar.is_spine(bare):
                self._spine(bare, role)
        self._scope = scope

    # -- bindings ------------------------------------------------------------------------------------------------------

    def _bind_fields(self, node: tree_sitter.Node, binds: object) -> None:
        assert isinstance(binds, tuple)
        bound: set[int] = set()
        for bind in binds:
            assert isinstance(bind, Bind)
            pattern = child_at(node, bind.pattern)
            if pattern is not None:
                bound.add(pattern.id)
        self._stack += [child for child in node.named_children[::-1] if child.id not in bound]
        for bind in binds:
            pattern = child_at(node, bind.pattern)
            if pattern is not None:
                self._bind_to(pattern, child_at(node, bind.value), child_at(node, bind.type), bind.steps)

    def _bind_to(
        self,
        pattern: tree_sitter.Node,
        value: tree_sitter.Node | None,
        declared: tree_sitter.Node | None,
        steps: tuple[str, ...] = (),
    ) -> None:
        """Bind ``pattern``: one name with the class that its value or declaration tells, a member of the instance, or all names in it."""
        if pattern.kind_id in self._grammar.name_ids:
            self.bind(self.text(pattern), value, declared, steps)
            return
        if self._grammar.is_spine(pattern):
            self._note_attribute(self._chain(pattern), value, declared)
            self.visit(pattern)
            return
        self.bind_pattern(pattern)

    def _note_attribute(
        self, chain: Chain | None, value: tree_sitter.Node | None, declared: tree_sitter.Node | None
    ) -> None:
        """Note what ``self.name = value`` tells of the instances of the class around."""
        owner = self._scope.class_owner()
        if chain is None or owner < 0 or len(chain.steps) != 1 or not self._is_instance(chain):
            return
        found = (
            self._type_chain(declared) if declared is not None else self._chain(value) if value is not None else None
        )
        if found is not None or self._row.notes_unknown:
            self._attributes.append((owner, chain.steps[0], self._scope, found or _UNKNOWN))

    def _parameters(self, node: tree_sitter.Node, _: object) -> None:
        actions = self._grammar.actions
        for child in node.named_children:
            action = actions[child.kind_id]
            if action is not None and action[0] in ("bind", "special", "define", "lead", "comment"):
                _HANDLERS[action[0]](self, child, action[1])
            else:
                self.bind_pattern(child)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def _name(self, node: tree_sitter.Node, _: object) -> None:
        start = node.start_byte
        self._refer(start, 0, self.data[start : node.end_byte].decode("utf-8", "replace"))

    def _self(self, node: tree_sitter.Node, _: object) -> None:
        """Visit nothing: the bare instance is no reference."""

    def _refer(self, byte: int, role: int, chain: Chain | str) -> None:
        if len(self._references) < REFERENCES_MAX:
            scope = self._scope
            self._references.append((byte, scope.owner, scope, role, chain))

    def _access(self, node: tree_sitter.Node, _: object) -> None:
        self._spine(node, "reference")

    def _spine(self, node: tree_sitter.Node, role: Role) -> None:
        """Note a reference for each name of the expression ``node``; the other parts of it are visited."""
        spine = self._unwind(node)
        if spine.others:
            self._stack += spine.others[::-1]
        root, links = spine.root, spine.links
        if root is not None and root.root_kind in ("l", "n"):
            return
        steps = root.steps if root is not None else ()
        last = len(links) - 1
        renamed = self._row.renamed
        for at, link in enumerate(links):
            if link.name in self._row.meta_members and not (at == 0 and spine.is_named):
                return
            number = 1 if link.suffix[:1] == _CALLED else _ROLE_NUMBERS[role] if at == last else 0
            if at == 0 and spine.is_named:
                assert root is not None
                chain = root
            elif root is None or len(steps) >= STEPS_MAX:
                chain = Chain("", (link.name,), "?")
                if link.name in self._row.identities:
                    continue
            else:
                chain = Chain(root.root, (*steps, link.name), root.root_kind)
            if renamed and link.name in renamed:
                chain = chain.renamed(link.name, renamed[link.name])
            if not link.name[:1].isdigit():  # a position in a tuple
                is_marked = number == 1 and self._row.marks_calls
                self._refer(link.byte, number, chain.then((CALLED,)) if is_marked else chain)
            steps += self._steps_of(link, is_root=at == 0 and spine.is_named)

    # -- what the functions of rows call -----------------------------------------------------------------------------------

    def visit(self, *nodes: tree_sitter.Node | None) -> None:
        self._stack += [node for node in nodes[::-1] if node is not None]

    def bind(
        self,
        name: str,
        value: tree_sitter.Node | None = None,
        type_: tree_sitter.Node | str | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        self._scope.bind_local(name, self._value_chain(value, type_, steps))

    def bind_outer(self, node: tree_sitter.Node) -> None:
        name = self.text(node)
        outer = self._scope.outer
        self._scope.names[name] = Chain(name, _CALLED)
        if outer is not None:
            self._references.append((node.start_byte, self._scope.owner, outer, 0, Chain(name, ())))

    def narrow(self, name: str, type_: tree_sitter.Node, inside: tree_sitter.Node | None) -> None:
        chain = self._type_chain(type_)
        scope = self._scope
        if chain is None or isinstance(scope.names.get(name), int):
            self.visit(inside)
        elif inside is not None:
            self._stack += [scope, inside, scope.narrowed(name, chain)]
        elif name in scope.names:
            scope.names[name] = chain

    def refer_text(self, text: str, byte: int) -> None:
        for match in _DOTTED.finditer(text):
            root, *others = match[0].split(".")
            at, before = byte + len(text[: match.start()].encode()), root
            self._refer(at, 0, Chain(root, ()))
            for number, name in enumerate(others, 1):
                at += len(before.encode()) + 1
                self._refer(at, 0, Chain(root, tuple(others[:number])))
                before = name

    def bind_pattern(self, pattern: tree_sitter.Node) -> None:
        grammar = self._grammar
        waiting = [pattern]
        while waiting:
            node = waiting.pop()
            if node.kind_id in grammar.name_ids:
                self._scope.bind_local(self.text(node), None)
                continue
            action = grammar.actions[node.kind_id]
            if action is None:
                waiting += node.named_children
            elif action[0] == "bind":
                self._bind_fields(node, action[1])
            else:
                self._stack.append(node)

    def add_import(
        self,
        node: tree_sitter.Node,
        module: str,
        name: str = "",
        local: str = "",
        *,
        is_reexport: bool = False,
        is_inner: bool = False,
    ) -> None:
        index = len(self._imports)
        scope = self._scope
        self._imports.append(
            Import(module, name, local, node.start_point[0] + 1, not (is_inner or scope.is_function), is_reexport)
        )
        if local and not is_reexport:
            scope.bind_import(local, index)
        if name == "*":
            return
        self._references.append((node.start_byte, scope.owner, scope, _ROLE_NUMBERS["import"], Chain(index, (), "i")))

    def add_package(self, name: str) -> bool:
        is_new = not self._scope.prefix and self._package in ("", name)
        self._package = self._package or name
        return is_new

    def define(
        self,
        node: tree_sitter.Node,
        name: tree_sitter.Node,
        kind: str,
        *,
        text: str = "",
        body: tree_sitter.Node | None = None,
        whole: tree_sitter.Node | None = None,
        type_: tree_sitter.Node | str | None = None,
        value: tree_sitter.Node | None = None,
        inside: Sequence[tree_sitter.Node | None] = (),
        bases: Sequence[tree_sitter.Node] = (),
        outer: str = "",
        first: tree_sitter.Node | None = None,
        is_member: bool = False,
        is_class: bool = False,
        is_instance: bool = False,
        is_shared: bool = False,
    ) -> None:
        around = self._scope
        scope = (around.class_scope() if is_member else None) or around
        said = text or self.text(name)
        if len(self._drafts) < SYMBOLS_MAX and scope.depth < DEPTH_MAX:
            qualified = ".".join(part for part in (scope.prefix, outer, said) if part)
            is_class = is_class or kind in _CLASSES or (kind == "module" and self._row.has_calls_of_self)
            inner = Scope(scope, is_function=kind != "module" and not is_class, prefix=qualified)
            self._scope = scope
            self._draft(node, Naming(kind, (), is_class=is_class), (qualified, said, name), inner, (whole, first))
            self._scope = around
            self._drafts[inner.owner].kind = kind
            self._note_type(inner.owner, type_, value, scope)
            if is_instance and (owner := scope.class_owner()) >= 0:
                self._types[inner.owner] = (scope, Chain(owner, _CALLED, "s"))
            if is_shared and scope.is_class:
                self._bases.setdefault(scope.owner, (scope, []))[1].append(Chain(inner.owner, (), "s"))
                scope.has_bases = True
            for base in bases:
                self._extend(base, inner.owner)
            if body is not None or inside:
                self._push_scope(inner)
        self.visit(*inside, body)

    def assign(self, pattern: tree_sitter.Node, value: tree_sitter.Node | None) -> None:
        self._bind_to(pattern, value, None)

    def mention(self, node: tree_sitter.Node, name: str, *, is_call: bool = False) -> None:
        self._refer(node.start_byte, int(is_call), dotted(name))

    def mention_inherited(self, node: tree_sitter.Node) -> None:
        owner, around = self._scope.owner, self._scope.class_owner()
        if owner > around >= 0:
            self._refer(node.start_byte, 1, Chain(around, (self._drafts[owner].name,), "u"))

    def mark(self, node: tree_sitter.Node, value: object = True) -> None:  # noqa: FBT002 - a value, no switch
        self._marks[node.id] = value

    def marked(self, node: tree_sitter.Node) -> object:
        return self._marks.get(node.id)

    def take_class_as_self(self) -> None:
        owner = self._scope.class_owner()
        if owner >= 0:
            self._scope.instance = Chain(owner, (), "s")

    def open(self, node: tree_sitter.Node) -> None:
        self._open(node, node.type in self._row.functions)

    def extend(self, *nodes: tree_sitter.Node) -> None:
        for node in nodes:
            self._extend(node, self._scope.owner)

    def refer(self, node: tree_sitter.Node) -> None:
        self._spine(node, "reference")

    @property
    def doc(self) -> str:
        return self._doc_of(self._scope.owner) if self._scope.owner >= 0 else ""

    def facts(self, *, has_errors: bool) -> Facts:
        return assemble(
            Findings(
                self.data, self._row, self._drafts, self._imports, self._references, self._types, self._bases, self._parts,
                self._attributes, self._exports, self._exported, self._package,
            ),
            has_errors=has_errors,
        )  # fmt: skip


def _is_plain(naming: Naming) -> bool:
    return len(naming.fields) == 1 and naming.fields[0].isidentifier() and not naming.separator


_HANDLERS: Final[dict[str, Handler]] = {
    "access": _Walk._access,  # noqa: SLF001 - the class of this module
    "bind": _Walk._bind_fields,  # noqa: SLF001
    "comment": _Walk._note_comment,  # noqa: SLF001
    "define": _Walk._define_plain,  # noqa: SLF001
    "enter": _Walk._enter,  # noqa: SLF001
    "lead": _Walk._lead,  # noqa: SLF001
    "name": _Walk._name,  # noqa: SLF001
    "open": _Walk._open,  # noqa: SLF001
    "parameters": _Walk._parameters,  # noqa: SLF001
    "self": _Walk._self,  # noqa: SLF001
    "skip": _Walk._skip,  # noqa: SLF001
    "special": _Walk._special,  # noqa: SLF001
    "wrap": _Walk._wrap,  # noqa: SLF001
}


class _Handlers(dict[int, tuple[Handler, Any]]):
    """The handler of a node by the number of its type; a node without one has its children visited."""

    def __missing__(self, number: int) -> tuple[Handler, Any]:
        found = self[number] = (_Walk._descend, None)  # noqa: SLF001
        return found


@cache
def _handlers_of(grammar: Grammar) -> _Handlers:
    found = _Handlers()
    for number, action in grammar.actions.items():
        if action is not None:
            found[number] = (_HANDLERS[action[0]], action[1])
    found[Scope.kind_id] = (_Walk._return, None)  # noqa: SLF001
    found[WRAPPED_KIND] = (_Walk._visit_wrapped, None)  # noqa: SLF001
    found[TASK_KIND] = (_Walk._run_task, None)  # noqa: SLF001
    return found
