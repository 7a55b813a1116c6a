"""Modules of JavaScript and TypeScript: imports, exports, CommonJS.

Others see a default export as ``default`` and the value of a whole CommonJS module (``module.exports =``, ``export =``) as ``=``:
`Facts.exports` maps both to the local name. A default export without a name is a definition called ``default``, the value of
``module.exports = …`` without one a definition called ``exports``.
"""

from __future__ import annotations

__all__ = ["assign", "assignment", "export_statement", "import_alias", "import_statement"]

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from periplus.code.languages.script_values import (
    FUNCTION_VALUES,
    MODULE,
    define_value,
    export_as,
    exports_path,
    field,
    first_child,
    first_named,
    load_of,
    plain_name,
    string_of,
    without,
)
from periplus.code.languages.table import Declaration, Extraction

if TYPE_CHECKING:
    import tree_sitter

_PATH: Final = re.compile(r"[\w$]{1,60}(?:\.[\w$]{1,60}){0,4}")


def import_statement(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Imports of a statement: ``import d, {a as b} from "m"``, ``import * as n from "m"``, ``import n = require("m")``."""
    extraction.add_package(MODULE)
    clause = first_named(node)
    module = string_of(extraction, field(node, "source"))
    if clause is None:
        return
    if clause.type == "import_require_clause":
        module = string_of(extraction, field(clause, "source"))
        name = first_named(clause)
        if name is not None:
            extraction.add_import(name, module, "", extraction.text(name))
        return
    if clause.type != "import_clause":
        extraction.add_import(node, module)
        return
    for child in clause.named_children:
        if child.type == "identifier":
            extraction.add_import(child, module, "default", extraction.text(child))
        elif child.type == "namespace_import":
            name = first_named(child)
            if name is not None:
                extraction.add_import(name, module, "", extraction.text(name))
        else:
            _specifiers(extraction, child, module)


def _specifiers(extraction: Extraction, clause: tree_sitter.Node, module: str, *, is_reexport: bool = False) -> None:
    for child in clause.named_children:
        name = field(child, "name")
        if name is not None:
            alias = field(child, "alias") or name
            extraction.add_import(
                name, module, plain_name(extraction, name), plain_name(extraction, alias), is_reexport=is_reexport
            )


def import_alias(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``import a = b.c``: a local name for a member."""
    if len(node.named_children) > 1:
        name, value = node.named_children[:2]
        extraction.bind(extraction.text(name), value)
        extraction.visit(value)


def export_statement(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.add_package(MODULE)
    source = field(node, "source")
    if source is not None:
        _reexport(extraction, node, string_of(extraction, source))
        return
    declared, value = field(node, "declaration"), field(node, "value")
    default = first_child(node, "default")
    if declared is not None:
        name = field(declared, "name")
        if default is None or name is not None:
            if name is not None and (default is not None or name.type == "identifier"):
                export_as(
                    extraction, "default" if default is not None else extraction.text(name), extraction.text(name)
                )
            extraction.wrap(node)
            return
        value = declared
    assigned = first_child(node, "=")
    if value is None and assigned is not None:
        value = node.named_children[-1]
    if value is not None:
        name, text = (default, "default") if default is not None else (assigned, "=")
        if value.type == "identifier":
            export_as(extraction, text, extraction.text(value))
            extraction.visit(value)
        elif name is not None:
            own = field(value, "name")
            export_as(extraction, text, extraction.text(own) if own is not None else "default")
            define_value(extraction, node, own or name, value, text="" if own is not None else "default")
        return
    for clause in node.named_children:
        if clause.type != "export_clause":
            extraction.visit(clause)
            continue
        for child in clause.named_children:
            name = field(child, "name")
            if name is not None:
                alias = field(child, "alias") or name
                export_as(extraction, plain_name(extraction, alias), extraction.text(name))
                extraction.visit(name)


def _reexport(extraction: Extraction, node: tree_sitter.Node, module: str) -> None:
    for clause in node.named_children:
        if clause.type == "export_clause":
            _specifiers(extraction, clause, module, is_reexport=True)
            return
        if clause.type == "namespace_export":
            name = first_named(clause)
            if name is not None:
                extraction.add_import(name, module, "", plain_name(extraction, name), is_reexport=True)
            return
    extraction.add_import(node, module, "*", is_reexport=True)


def assign(extraction: Extraction, node: tree_sitter.Node, assignment: tree_sitter.Node) -> None:
    """Define or export what a statement ``a.b = c`` names."""
    left, right = field(assignment, "left"), field(assignment, "right")
    while right is not None and right.type == "assignment_expression":
        if left is not None and left.type == "identifier" and exports_path(extraction, left) != "=":
            extraction.visit(left)
            left = field(right, "left")
        elif (further := field(right, "left")) is not None and exports_path(extraction, further) != "=":
            extraction.visit(further)
        right = field(right, "right")
    if left is None or right is None:
        extraction.visit(*node.named_children)
        return
    path = "" if extraction.is_in_function else exports_path(extraction, left)
    if path == "=":
        _export_whole(extraction, node, left, right)
    elif path:
        _export_name(extraction, node, left, path, right)
    elif left.type == "member_expression":
        _assign_member(extraction, node, left, right)
    else:
        extraction.visit(left, right)


def _note_assigned(extraction: Extraction, left: tree_sitter.Node | None, right: tree_sitter.Node | None) -> None:
    if left is None:
        return
    if left.type == "member_expression":
        inner, name = field(left, "object"), field(left, "property")
        if inner is not None and name is not None and inner.type == "this":
            extraction.note_value(extraction.text(name), right, None)


def assignment(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit an assignment inside of an expression."""
    left, right = field(node, "left"), field(node, "right")
    _note_assigned(extraction, left, right)
    extraction.visit(left, right)


def _export_whole(
    extraction: Extraction, node: tree_sitter.Node, left: tree_sitter.Node, right: tree_sitter.Node
) -> None:
    """``module.exports = value``."""
    extraction.add_package(MODULE)
    module, member = load_of(extraction, right)
    if module:
        extraction.add_import(right, module, member, "=", is_reexport=True)
    elif right.type == "identifier":
        export_as(extraction, "=", extraction.text(right))
        extraction.visit(right)
    elif right.type == "object":
        _export_members(extraction, right)
    else:
        own = field(right, "name")
        last = field(left, "property") or left
        export_as(extraction, "=", extraction.text(own) if own is not None else extraction.text(last))
        define_value(extraction, node, own or last, right)


def _export_members(extraction: Extraction, value: tree_sitter.Node) -> None:
    """Export the members of the object that is the value of a module."""
    extraction.later(*(partial(_export_member, extraction, child) for child in value.named_children))


def _export_member(extraction: Extraction, child: tree_sitter.Node) -> None:
    if child.type == "shorthand_property_identifier":
        export_as(extraction, extraction.text(child), extraction.text(child))
        extraction.visit(child)
    elif child.type == "pair" and (key := field(child, "key")) is not None and key.type != "computed_property_name":
        inner = field(child, "value")
        if inner is not None:
            _export_name(extraction, child, key, plain_name(extraction, key), inner)
    elif child.type == "spread_element" and (module := load_of(extraction, first_named(child))[0]):
        extraction.add_import(child, module, "*", is_reexport=True)
    else:
        extraction.visit(child)


def _export_name(
    extraction: Extraction, node: tree_sitter.Node, left: tree_sitter.Node, name: str, right: tree_sitter.Node
) -> None:
    """``exports.name = value``."""
    extraction.add_package(MODULE)
    module, member = load_of(extraction, right)
    if module:
        extraction.add_import(right, module, member, name, is_reexport=True)
    elif right.type == "identifier" and (text := extraction.text(right)) != "undefined":
        export_as(extraction, name, text)
        extraction.visit(right)
    else:
        export_as(extraction, name, name)
        place = field(left, "property") or left
        define_value(extraction, node, place, right, text=name, outer=-2, is_bound=False)


def _assign_member(
    extraction: Extraction, node: tree_sitter.Node, left: tree_sitter.Node, right: tree_sitter.Node
) -> None:
    """``Foo.prototype.bar = function``, ``app.use = function``: members of what the file defines."""
    inner, name = field(left, "object"), field(left, "property")
    if inner is None or name is None:
        extraction.visit(left, right)
        return
    is_prototype = False
    if inner.type == "member_expression" and extraction.text(inner).endswith(".prototype"):
        is_prototype = True
        inner = field(inner, "object")
    elif extraction.text(name) == "prototype" and right.type == "object" and inner.type == "identifier":
        _prototype(extraction, inner, right)
        return
    outer = extraction.defined(extraction.text(inner)) if inner is not None and inner.type == "identifier" else -1
    if (
        outer >= 0
        and inner is not None
        and (is_prototype or right.type in FUNCTION_VALUES or right.type in ("class", "object"))
    ):
        if is_prototype:
            extraction.set_kind(outer, "class")
        define_value(extraction, node, name, right, outer=outer, is_bound=False)
        extraction.visit(inner)
        return
    _note_assigned(extraction, left, right)
    written = extraction.text(inner) if inner is not None else ""
    if right.type in FUNCTION_VALUES and name.type == "property_identifier" and _PATH.fullmatch(written):
        owner = extraction.self_owner() if written == "this" else -1
        if owner >= 0:
            define_value(extraction, node, name, right, outer=owner, is_bound=False)
        elif written != "this":
            define_value(extraction, node, name, right, is_bound=False, path=written)
        if owner >= 0 or written != "this":
            extraction.visit(left)
            return
    extraction.visit(left, right)


def _prototype(extraction: Extraction, owner: tree_sitter.Node, value: tree_sitter.Node) -> None:
    """``Foo.prototype = {…}``."""
    outer = extraction.defined(extraction.text(owner))
    extraction.visit(owner)
    if outer < 0:
        extraction.visit(value)
        return
    extraction.set_kind(outer, "class")
    extraction.later(*(partial(_prototype_member, extraction, outer, child) for child in value.named_children))


def _prototype_member(extraction: Extraction, outer: int, child: tree_sitter.Node) -> None:
    key = field(child, "name" if child.type == "method_definition" else "key")
    if key is None or key.type == "computed_property_name":
        extraction.visit(child)
    elif child.type == "method_definition":
        shape = Declaration("method", outer=outer, is_bound=False, self="outer", type=field(child, "return_type"))
        extraction.declare_as(child, key, shape, without(child, key))
    else:
        define_value(extraction, child, key, field(child, "value"), outer=outer, is_bound=False)
