"""Java."""

from __future__ import annotations

__all__ = ["JAVA"]

import re
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Bind, Extraction, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "var String Object Integer Long Short Byte Boolean Character Double Float Number Void Math System Thread Runnable StringBuilder "
    "StringBuffer CharSequence Iterable Comparable Override Deprecated SuppressWarnings FunctionalInterface SafeVarargs Exception "
    "RuntimeException Error Throwable IllegalArgumentException IllegalStateException NullPointerException UnsupportedOperationException "
    "IndexOutOfBoundsException ArrayIndexOutOfBoundsException ClassCastException NumberFormatException AssertionError "
    "InterruptedException CloneNotSupportedException ClassNotFoundException AutoCloseable Cloneable".split()
)
_TESTS: Final = re.compile(r"@(?:[\w.]+\.)?(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate|Theory)\b")
_TEST_CLASS: Final = re.compile(r"(?:Test[A-Z]\w*|\w*(?:Test|Tests|TestCase|IT))")
_CLASSES: Final = frozenset({"class", "interface", "enum", "record", "annotation"})


def _dotted(extraction: Extraction, node: tree_sitter.Node) -> str:
    return "".join(extraction.text(node).split())


def _package(extraction: Extraction, node: tree_sitter.Node) -> None:
    for child in node.named_children:
        if child.type in ("scoped_identifier", "identifier"):
            extraction.add_package(_dotted(extraction, child))
        else:
            extraction.visit(child)


def _import(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``import a.B`` brings ``B`` of ``a``; ``import static a.B.c`` the member ``c`` of ``a.B``."""
    children = node.named_children
    named = next((child for child in children if child.type in ("scoped_identifier", "identifier")), None)
    if named is None:
        return
    dotted = _dotted(extraction, named)
    if any(child.type == "asterisk" for child in children):
        extraction.add_import(named, dotted, "*")
        return
    module, _, name = dotted.rpartition(".")
    last = named.child_by_field_name("name") or named
    extraction.add_import(last, module, name, name)


def _declarators(node: tree_sitter.Node) -> list[tuple[tree_sitter.Node, tree_sitter.Node | None, bool]]:
    """Return name, value, and True for an array, of each variable that a declaration declares."""
    found = []
    for one in node.children_by_field_name("declarator"):
        name = one.child_by_field_name("name")
        if name is not None:
            is_array = one.child_by_field_name("dimensions") is not None
            found.append((name, one.child_by_field_name("value"), is_array))
    return found


def _local_variables(extraction: Extraction, node: tree_sitter.Node) -> None:
    declared = node.child_by_field_name("type")
    variables = _declarators(node)
    for name, value, is_array in variables:
        extraction.bind(extraction.text(name), value, None if is_array else declared)
    extraction.visit(_modifiers(node), declared, *(value for _, value, _ in variables))


def _fields(extraction: Extraction, node: tree_sitter.Node) -> None:
    if extraction.is_in_function:  # of a class without a name, or within a function
        _local_variables(extraction, node)
        return
    declared = node.child_by_field_name("type")
    variables = _declarators(node)
    for name, _, is_array in variables[:-1]:
        extraction.define(node, name, "field", type_=None if is_array else declared)
    extraction.visit(*(value for _, value, _ in variables[:-1]))
    for name, value, is_array in variables[-1:]:
        known = None if is_array else declared
        extraction.define(node, name, "field", type_=known, inside=(_modifiers(node), declared), body=value)


def _modifiers(node: tree_sitter.Node) -> tree_sitter.Node | None:
    return next((child for child in node.named_children[:1] if child.type == "modifiers"), None)


def _parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind a parameter; the components of a record are properties of it."""
    name, declared = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is None:
        return
    if extraction.around == "record":
        extraction.define(node, name, "property", type_=declared)
    else:
        is_array = node.child_by_field_name("dimensions") is not None
        extraction.bind(extraction.text(name), None, None if is_array else declared)
    extraction.visit(_modifiers(node), declared)


def _rest(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind ``Type... name``, an array."""
    for child in node.named_children:
        if child.type == "variable_declarator":
            extraction.bind_pattern(child)
        else:
            extraction.visit(child)


def _caught(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    types = next((child for child in node.named_children if child.type == "catch_type"), None)
    if name is not None and types is not None:
        extraction.bind(extraction.text(name), None, types.named_child(0) if types.named_child_count == 1 else None)
    extraction.visit(types)


def _for_each(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope()
    name, declared = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is not None:
        extraction.bind(extraction.text(name), None, declared)
    extraction.visit(declared, node.child_by_field_name("value"), node.child_by_field_name("body"))


def _lambda(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope(is_function=True)
    parameters, body = node.child_by_field_name("parameters"), node.child_by_field_name("body")
    if parameters is not None and parameters.type == "identifier":
        extraction.bind(extraction.text(parameters))
        extraction.visit(body)
    else:
        extraction.visit(parameters, body)


def _class_body(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Open the scope of a class without a name; the body of a named one stands in its scope already."""
    parent = node.parent if extraction.is_in_function or not extraction.around else None
    if parent is not None and parent.type == "object_creation_expression":
        extraction.open_class(parent.child_by_field_name("type"))
    extraction.visit(*node.named_children)


def _enum_constant(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        others = [child for child in node.named_children if child.id != name.id]
        extraction.define(node, name, "value", inside=others, is_instance=True)


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the parameter to its bound, if it has one."""
    name: tree_sitter.Node | None = None
    bound: tree_sitter.Node | None = None
    for child in node.named_children:
        if child.type == "type_identifier":
            name = child
        elif child.type == "type_bound":
            bound = child
    if name is not None:
        extraction.bind(extraction.text(name), bound.named_child(0) if bound is not None else None)
    extraction.visit(bound)


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    if node.type in ("enum_constant", "formal_parameter"):
        return True
    modifiers = _modifiers(node)
    said = {child.type for child in modifiers.children} if modifiers is not None else set()
    if said & {"public", "protected"}:
        return True
    return "private" not in said and extraction.around in ("interface", "annotation")


def _is_test(name: str, kind: str, decorations: str) -> bool:
    if kind in _CLASSES:
        return kind == "class" and _TEST_CLASS.fullmatch(name) is not None
    return kind == "method" and _TESTS.search(decorations) is not None


_METHOD: Final = Naming("method", type="type")
JAVA: Final = Language(
    "java", (".java",), "tree_sitter_java", "language",
    {
        "class_declaration": Naming("class", bases=("superclass", "interfaces"), is_class=True),
        "interface_declaration": Naming("interface", bases=("=extends_interfaces",), is_class=True),
        "enum_declaration": Naming("enum", bases=("interfaces",), is_class=True),
        "record_declaration": Naming("record", bases=("interfaces",), is_class=True),
        "annotation_type_declaration": Naming("annotation", is_class=True),
        "method_declaration": _METHOD,
        "annotation_type_element_declaration": _METHOD,
        "constructor_declaration": Naming("constructor"),
        "compact_constructor_declaration": Naming("constructor"),
    },
    functions=frozenset(
        {"method_declaration", "constructor_declaration", "compact_constructor_declaration", "static_initializer"}
    ),
    scopes=frozenset(
        {"block", "constructor_body", "for_statement", "try_with_resources_statement", "catch_clause",
         "switch_block"}
    ),
    parameters=frozenset({"formal_parameters", "inferred_parameters"}),
    has_member_scopes=True,
    names=frozenset({"identifier", "type_identifier"}),
    called_names=frozenset({"identifier"}),
    marks_calls=True,
    binds={
        "resource": (Bind("name", "value", "type"),),
        "instanceof_expression": (Bind("name", type="right"),),
        "type_pattern": (Bind(-1, type=0),),
        "record_pattern_component": (Bind(-1, type=0),),
    },
    accesses={
        "field_access": Access("object", "field"),
        "method_invocation": Access("object", "name", "()"),
        "object_creation_expression": Access("type", step="()"),
        "method_reference": Access(0, 1, "()"),
        "array_access": Access("array", step="[]"),
        "generic_type": Access(0),
        "annotated_type": Access(-1),
        "scoped_type_identifier": Access(0, -1),
        "scoped_identifier": Access("scope", "name"),
    },
    transparent={"parenthesized_expression": 0},
    casts={"cast_expression": "type"},
    enters={"element_value_pair": ("value",), "labeled_statement": (1,)},
    skips=frozenset({"break_statement", "continue_statement", "module_declaration"}),
    comments=frozenset({"line_comment", "block_comment"}),
    literals=frozenset(
        {"string_literal", "character_literal", "decimal_integer_literal", "hex_integer_literal", "octal_integer_literal",
         "binary_integer_literal", "decimal_floating_point_literal", "hex_floating_point_literal", "true", "false", "class_literal",
         "array_creation_expression", "array_initializer", "binary_expression", "unary_expression", "update_expression",
         "instanceof_expression"}
    ),
    nulls=frozenset({"null_literal"}),
    inferred=frozenset({"var"}),
    builtins=_BUILTINS,
    special={
        "package_declaration": _package,
        "import_declaration": _import,
        "field_declaration": _fields,
        "constant_declaration": _fields,
        "local_variable_declaration": _local_variables,
        "formal_parameter": _parameter,
        "spread_parameter": _rest,
        "catch_formal_parameter": _caught,
        "enhanced_for_statement": _for_each,
        "lambda_expression": _lambda,
        "class_body": _class_body,
        "enum_constant": _enum_constant,
        "type_parameter": _type_parameter,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    annotations=frozenset({"annotation", "marker_annotation"}),
)  # fmt: skip
