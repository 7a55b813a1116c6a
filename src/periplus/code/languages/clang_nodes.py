"""Names, types and declarators of C and C++ in their syntax trees."""

from __future__ import annotations

__all__ = [
    "DECLARATORS_MAX",
    "NAMES",
    "TYPES",
    "class_type",
    "declared_name",
    "define",
    "is_member",
    "is_static",
    "name_text",
    "nth_child",
    "split_name",
    "visit_type",
]

from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Extraction, Shape

if TYPE_CHECKING:
    import tree_sitter

_PLAIN: Final = Shape()
TYPES: Final = frozenset({"struct_specifier", "union_specifier", "class_specifier", "enum_specifier"})
# A value is one where its struct has no name.
_CLASS_KINDS: Final = frozenset({"class", "struct", "union", "field", "value"})
_PLAIN_TYPES: Final = frozenset({"primitive_type", "sized_type_specifier"})
NAMES: Final = frozenset(
    {"identifier", "field_identifier", "type_identifier", "operator_name", "destructor_name", "operator_cast", "qualified_identifier",
     "template_function", "template_method", "structured_binding_declarator", "primitive_type"}
)  # fmt: skip
_POINTERS: Final = frozenset({"unique_ptr", "shared_ptr", "weak_ptr", "scoped_refptr", "intrusive_ptr", "optional"})
DECLARATORS_MAX: Final = 50


def declared_name(node: tree_sitter.Node | None) -> tuple[tree_sitter.Node | None, tree_sitter.Node | None]:
    """Return the node of the name that a declarator declares, and the declarator of the function if it is one."""
    function: tree_sitter.Node | None = None
    for _ in range(DECLARATORS_MAX):
        if node is None or node.type in NAMES:
            return node, function
        if node.type == "function_declarator":
            function = node
        elif node.type not in ("parenthesized_declarator", "attributed_declarator"):
            function = None
        inner = node.child_by_field_name("declarator")
        if inner is None:
            children = node.named_children
            inner = next(
                (child for child in children if child.type in NAMES or child.type.endswith("declarator")), None
            )
        node = inner
    return None, None


def split_name(
    extraction: Extraction, node: tree_sitter.Node
) -> tuple[tuple[str, ...], tree_sitter.Node, list[tree_sitter.Node]]:
    """Return the names before the last ``::`` of ``node``, its last name, and the nodes before it."""
    outer: list[str] = []
    scopes: list[tree_sitter.Node] = []
    while node.type == "qualified_identifier":
        scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
        if scope is not None:
            scopes.append(scope)
            outer.append(extraction.text(scope.child_by_field_name("name") or scope))
        if name is None:
            break
        node = name
    if node.type in ("template_function", "template_method", "template_type"):
        node = node.child_by_field_name("name") or node
    return tuple(outer), node, scopes


def name_text(extraction: Extraction, node: tree_sitter.Node) -> str:
    text = extraction.text(node)
    if node.type == "operator_cast":
        at: tree_sitter.Node | None = node
        while at is not None and at.child_by_field_name("parameters") is None:
            at = at.child_by_field_name("declarator")
        listed = at.child_by_field_name("parameters") if at is not None else None
        return " ".join(text[: listed.start_byte - node.start_byte if listed is not None else None].split())
    if text.startswith("operator") or node.type == "destructor_name":
        rest = text[8:].strip() if text.startswith("operator") else ""
        return f"operator {rest}" if rest[:1].isalpha() else "".join(text.split())
    return text


def nth_child(node: tree_sitter.Node, number: int) -> tree_sitter.Node | None:
    return next(iter(node.named_children[number : number + 1]), None)


def define(
    extraction: Extraction,
    node: tree_sitter.Node,
    name: tree_sitter.Node,
    kind: str,
    *,
    text: str = "",
    shape: Shape = _PLAIN,
) -> None:
    extraction.define_shape(node, name, kind, text or extraction.text(name), shape)


def visit_type(extraction: Extraction, node: tree_sitter.Node | None) -> None:
    """Visit a type where it is used; ``struct a`` alone refers to ``a``."""
    if node is not None and node.type in TYPES and node.child_by_field_name("body") is None:
        node = node.child_by_field_name("name")
    extraction.visit(node)


def class_type(extraction: Extraction, node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return the type whose members a value of the type ``node`` has; None for one of the language. Of a smart pointer it is the inner one."""
    if node is None or node.type in _PLAIN_TYPES:
        return None
    at = node
    while at.type == "qualified_identifier" and (name := at.child_by_field_name("name")) is not None:
        at = name
    if at.type != "template_type":
        return node
    name, arguments = at.child_by_field_name("name"), at.child_by_field_name("arguments")
    if name is None or arguments is None or extraction.text(name) not in _POINTERS:
        return node
    return nth_child(arguments, 0)


def is_static(extraction: Extraction, node: tree_sitter.Node) -> bool:
    for child in node.named_children[:4]:
        if child.type == "storage_class_specifier" and extraction.text(child) == "static":
            return True
    return False


def is_member(extraction: Extraction) -> bool:
    return extraction.kind_around in _CLASS_KINDS
