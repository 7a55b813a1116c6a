"""Expressions taken apart: what they begin with, and the names and steps after it."""

from __future__ import annotations

__all__ = ["STEPS_MAX", "Expressions"]

from typing import TYPE_CHECKING, Final, cast

from periplus.code.extraction.grammar import Grammar
from periplus.code.extraction.nodes import child_at, child_of, split_path, unwrap_name
from periplus.code.extraction.parts import Link, Spine, nested_links
from periplus.code.extraction.scopes import Chain, ChainRoot, Scope, dotted
from periplus.code.languages.table import Extraction, Language, Unwrap
from periplus.code.model import CALL, ELEMENT, LIST

if TYPE_CHECKING:
    import tree_sitter

_OPERANDS_MAX: Final = 60
STEPS_MAX: Final = 12
_NAME_BYTES_MAX: Final = 300
_BRACKET: Final = ord("[")
_CALLED: Final = (CALL,)


class Expressions:
    """The part of a walk that reads expressions and types, in the scope where the walk is."""

    data: bytes
    _grammar: Grammar
    _row: Language
    _scope: Scope

    def text(self, node: tree_sitter.Node) -> str:
        start, end = node.byte_range
        if end - start > _NAME_BYTES_MAX:
            end = start + _NAME_BYTES_MAX
        return self.data[start:end].decode("utf-8", "replace")

    def _is_instance(self, chain: Chain) -> bool:
        if chain.root_kind == "t":
            return True
        if not isinstance(chain.root, str):
            return False
        found = self._scope.lookup(chain.root, with_classes=False)
        return isinstance(found, Chain) and found.root_kind == "t" and not found.steps

    def _steps_of(self, link: Link, *, is_root: bool) -> tuple[str, ...]:
        """Return the steps that ``link`` adds to an expression."""
        if is_root:
            return link.suffix
        if link.suffix[:1] == _CALLED and link.name in self._row.identities:
            return link.suffix[1:]
        return (link.name, *link.suffix)

    def _unwind(self, node: tree_sitter.Node) -> Spine:
        """Take the expression ``node`` apart."""
        grammar = self._grammar
        links: list[Link] = []
        others: list[tree_sitter.Node] = []
        suffix: tuple[str, ...] = ()
        is_path = is_type = False
        at: tree_sitter.Node | None = node
        while at is not None:
            access = grammar.accesses.get(at.kind_id)
            if access is not None and access.is_loader and (loaded := self._load(at)) >= 0:
                return Spine(Chain(loaded, suffix, "i"), links[::-1], others[::-1])
            if access is None:
                inside = grammar.transparent.get(at.kind_id)
                if inside is None and at.kind_id in grammar.path_ids:
                    at, suffix = self._unwind_path(at, links, others, suffix)
                    break
                if inside is None:
                    break
                at = child_at(at, inside)
                continue
            children = at.named_children
            reached, name = child_of(at, access.object, children), child_of(at, access.name, children)
            is_type = is_type or access.is_type
            is_left = len(children) > 2 or name is None or reached is None
            keep = (reached.id if reached is not None else 0, name.id if name is not None else 0) if is_left else ()
            if name is not None and name.kind_id in grammar.name_wrappers:  # ``a.B<C>``, ``a?.B``
                name, rest = unwrap_name(name, grammar.name_wrappers)
                others += rest[::-1]
                suffix = (ELEMENT, *suffix) if name is None else suffix
            elif (
                name is not None
                and name.kind_id in grammar.self_ids
                and reached is not None
                and self._row.has_member_scopes
            ):
                suffix, at = (CALL, *suffix), reached  # ``Outer.this``
                continue
            if is_left:
                others += [child for child in reversed(children) if child.id not in keep]
            if access.step and not (access.is_merged and suffix[:1] == _CALLED):
                is_element = access.is_subscript and self.data[children[-1].start_byte] == _BRACKET
                suffix = (ELEMENT if is_element else access.step, *suffix)
            if name is not None and reached is not None:
                if name.kind_id in grammar.accesses:
                    links += nested_links(name, grammar.accesses, self.text, others, suffix)
                else:
                    said = self.text(name)
                    if access.sigil:
                        said = said.removeprefix(access.sigil)
                    elif access.is_quoted:
                        said = said.strip("\"'")
                    links.append(Link(said, name.start_byte, suffix))
                suffix = ()
            is_path = access.is_path
            if reached is None and name is not None and access.is_global:
                links.append(Link(self.text(name), name.start_byte, suffix))
                return Spine(Chain(self.text(name), (), "f"), links[::-1], others[::-1], is_named=True)
            at = reached if reached is not None else name
        others.reverse()
        if at is None:
            links.reverse()
            return Spine(None, links, others)
        spine = self._rooted(at, links, others, suffix, is_type=is_type and not links)
        if is_path and spine.is_named and spine.root is not None:
            return Spine(spine.root._replace(root_kind="p"), spine.links, spine.others, is_named=True)
        return spine

    def _unwind_path(
        self, at: tree_sitter.Node, links: list[Link], others: list[tree_sitter.Node], suffix: tuple[str, ...]
    ) -> tuple[tree_sitter.Node | None, tuple[str, ...]]:
        """Add the names of a path but the first, from the last one on; return the first, and the steps after it."""
        names, rest = split_path(at, self._grammar.name_ids)
        others += rest[::-1]
        for one in names[:0:-1]:
            links.append(Link(self.text(one), one.start_byte, suffix))
            suffix = ()
        return names[0] if names else None, suffix

    def _rooted(
        self,
        at: tree_sitter.Node,
        links: list[Link],
        others: list[tree_sitter.Node],
        suffix: tuple[str, ...],
        *,
        is_type: bool,
    ) -> Spine:
        """Return the expression with the names ``links`` (from the last to the first) and the root ``at``."""
        grammar = self._grammar
        kind = at.kind_id
        root: Chain | None = None
        if kind in grammar.bare_ids:
            text = self.text(at)
            if text not in grammar.special_names:
                links.append(Link(text, at.start_byte, suffix))
                links.reverse()
                return Spine(Chain(text, ()), links, others, is_named=True)
        if kind in grammar.name_ids or kind in grammar.self_ids or kind in grammar.super_ids:
            text = self.text(at)
            if kind in grammar.self_ids or text in grammar.self_names:
                root = self._scope.instance
                label = self.text(at.named_children[0]) if self._row.has_member_scopes and at.named_child_count else ""
                if label:  # ``this@Outer``
                    root = Chain(label, _CALLED) if label[:1].isupper() else None
            elif kind in grammar.super_ids or text in grammar.super_names:
                owner = self._scope.class_owner()
                root = Chain(owner, (), "u") if owner >= 0 else None
            else:
                links.append(Link(text, at.start_byte, suffix))
                links.reverse()
                return Spine(
                    Chain(text, (), self._root_kind(kind, suffix, is_type=is_type)), links, others, is_named=True
                )
        elif kind in grammar.own_ids:
            instance = self._scope.instance
            root = instance.then((self.text(at), *suffix)) if instance is not None else None
        else:
            others.append(at)
            if kind in grammar.casts and (written := child_at(at, grammar.casts[kind])) is not None:
                root = self._type_chain(written)
                root = root.then(suffix) if root is not None else None
            elif kind in grammar.null_ids:
                root = Chain("", (), "n")
            elif kind in grammar.literal_ids:
                root = Chain("", (), "l")
        links.reverse()
        return Spine(root, links, others)

    def _root_kind(self, kind: int, suffix: tuple[str, ...], *, is_type: bool) -> ChainRoot:
        """Return the kind of a name at the root of an expression: of a type, of what is called, or of anything."""
        if is_type and self._row.has_type_names:
            return "y"
        return "c" if suffix[:1] == _CALLED and kind in self._grammar.called_ids else ""

    def _chain(self, node: tree_sitter.Node) -> Chain | None:
        """Return what the expression ``node`` names, None where that is not known; of ``a or b`` the first part that names something."""
        if self._grammar.is_spine(node):
            return self._chain_of_spine(node)
        waiting = [node]
        for _ in range(_OPERANDS_MAX):
            if not waiting:
                break
            at = waiting.pop()
            if self._grammar.is_spine(at):
                found = self._chain_of_spine(at)
                if found is not None and found.root_kind != "n":
                    return found
            elif (parts := self._row.values.get(at.type)) is not None:
                waiting += list(parts(at))[::-1]
        return None

    def _chain_of_spine(self, node: tree_sitter.Node) -> Chain | None:
        spine = self._unwind(node)
        root = spine.root
        if root is None or root.root_kind in ("l", "n"):
            return root if not spine.links else None
        steps: tuple[str, ...] = root.steps
        for at, link in enumerate(spine.links):
            steps += self._steps_of(link, is_root=at == 0 and spine.is_named)
        return Chain(root.root, steps, root.root_kind) if len(steps) <= STEPS_MAX else None

    def _bare_type(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """Return the node of the name of the type that ``node`` writes."""
        return self._unwrapped(node)[0]

    def _unwrapped(self, node: tree_sitter.Node) -> tuple[tree_sitter.Node, int]:
        """Return the node of the name of a type, and how many lists are around it."""
        grammar = self._grammar
        lists = 0
        for _ in range(STEPS_MAX):
            kind = node.kind_id
            if (unwrap := grammar.unwraps.get(kind)) is not None:
                inner, is_list = unwrap(cast("Extraction", self), node)
                lists += is_list
            else:
                place = grammar.type_wrappers.get(kind)
                if place is None and (place := grammar.list_types.get(kind)) is not None:
                    lists += 1
                inner = child_at(node, place) if place is not None else None
            if inner is None:
                break
            node = inner
        return node, lists

    def _type_chain(self, node: tree_sitter.Node, *, is_instance: bool = True) -> Chain | None:
        """Return the target of an instance of the type that ``node`` writes (of the type itself without ``is_instance``)."""
        if self._row.named_type is not None:
            named = self._row.named_type(self.text(node))
            if named is not None and (is_instance or named[1] == _CALLED):
                return self._chain_of(named[0], named[1] if is_instance else ())
            if is_instance:
                return None
        bare, lists = self._unwrapped(node)
        found = self._chain(bare)
        if found is None or found.root_kind == "l":
            return found
        if not found.steps and found.root in self._row.inferred:
            return None
        if not found.steps and not found.root_kind and self._row.has_type_names:
            found = found._replace(root_kind="y")
        if bare.kind_id in self._grammar.value_type_ids:
            return found.then((LIST,) * lists)
        return found.then((CALL, *(LIST,) * lists)) if is_instance else found

    def _chain_of(self, name: str, steps: tuple[str, ...]) -> Chain:
        """Return the expression for the dotted name of a type and the steps after it."""
        instance = self._scope.instance
        if name == self._row.self_type and instance is not None:
            return instance.then(steps[1:])
        return dotted(name).then(steps)

    def _value_chain(
        self, value: tree_sitter.Node | None, type_: tree_sitter.Node | str | None, steps: tuple[str, ...] = ()
    ) -> Chain | None:
        if isinstance(type_, str):
            return dotted(type_).then(_CALLED)
        chain = self._type_chain(type_) if type_ is not None else None
        if chain is not None or value is None:
            return chain
        typed = self._grammar.typed_values.get(value.kind_id)
        chain = (self._written(typed, value) if typed is not None else None) or self._chain(value)
        return chain.then(steps) if steps and chain is not None and chain.root_kind != "n" else chain

    def _written(self, typed: Unwrap, value: tree_sitter.Node) -> Chain | None:
        """Return the class of a value in which it is written."""
        written, is_list = typed(cast("Extraction", self), value)
        made = self._type_chain(written) if written is not None else None
        return made.then((LIST,) * is_list) if made is not None and made.root_kind != "l" else made

    def _load(self, call: tree_sitter.Node) -> int:
        raise NotImplementedError
