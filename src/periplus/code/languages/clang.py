"""C and C++.

Both grammars name most nodes alike, so the rows share their functions. A header is C++ where its contents say so (`header_row`), else C.
A prototype is a definition without a body: what calls it through a header refers to both, see `code.resolution.rules.clang`.
"""

from __future__ import annotations

__all__ = ["CPP", "HEADER", "C", "header_row"]

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.code.languages.clang_nodes import (
    DECLARATORS_MAX,
    NAMES,
    TYPES,
    class_type,
    declared_name,
    define,
    is_member,
    is_static,
    name_text,
    nth_child,
    split_name,
    visit_type,
)
from periplus.code.languages.clang_text import blank_unreadable
from periplus.code.languages.table import Access, Extraction, Language, Place, Shape

if TYPE_CHECKING:
    import tree_sitter

_TEXT_NAMES: Final = re.compile(
    rb"(?<![\w.])([A-Za-z_]\w*)(\s*\()?|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|->\s*\w+"
)
_MACRO_BYTES_MAX: Final = 4_096
_WORDS: Final = frozenset(
    b"alignas alignof and asm auto bool break case catch char class const const_cast constexpr continue decltype default defined delete do "
    b"double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not "
    b"nullptr operator or private protected public register reinterpret_cast restrict return short signed sizeof static static_assert "
    b"static_cast struct switch template this throw true try typedef typeid typename union unsigned using virtual void volatile while "
    b"NULL __VA_ARGS__ __FILE__ __LINE__ __func__ __attribute__ __asm__ __extension__ __typeof__ typeof __inline __inline__ __restrict "
    b"__builtin_expect __VA_OPT__ _Bool _Static_assert _Alignas _Alignof _Generic _Noreturn _Thread_local _Atomic".split()
)
_KEYWORDS: Final = frozenset(
    {"if", "else", "for", "while", "switch", "return", "sizeof", "catch", "do", "case", "defined"}
)
_TEST_MACRO: Final = re.compile(r"(?:\w+_)?TEST(?:_[A-Z]+)*|SCENARIO|BENCHMARK(?:_[A-Z]+)*")
_CPLUSPLUS: Final = re.compile(
    rb"^[ \t]*(?:class\s+(?:\w+\s+){0,4}\w+\s*(?:final\s*)?[:{;]|namespace\b[^;=()]{0,200}\{|template\s*<|using\s+[\w:]+\s*[;=]|using\s+namespace\b"
    rb"|(?:public|private|protected)\s*:|inline\s+namespace\b|(?:virtual|explicit|constexpr)\s)|\bstd::\w|\boperator\s*[^\w\s]",
    re.MULTILINE,
)


# -- functions -------------------------------------------------------------------------------------------------------------


def _function(
    extraction: Extraction,
    node: tree_sitter.Node,
    whole: tree_sitter.Node | None = None,
    parameters: tuple[tree_sitter.Node, ...] = (),
) -> None:
    """Define the function of a ``function_definition``."""
    name, function = declared_name(node.child_by_field_name("declarator"))
    type_ = node.child_by_field_name("type")
    is_local = extraction.is_in_function and not is_member(extraction)
    if name is None or is_local or extraction.text(name) in _KEYWORDS:
        extraction.visit(*parameters, *node.named_children)
        return
    is_type = type_ is not None and type_.type in TYPES and type_.child_by_field_name("body") is None
    if is_type and function is None and type_ is not None and _class_behind_macro(extraction, node, type_, name):
        return
    if (
        type_ is None
        and function is not None
        and _TEST_MACRO.fullmatch(extraction.text(name))
        and _test(extraction, node, name, function)
    ):
        return
    _define_function(extraction, node, name, function, whole, parameters)


def _define_function(
    extraction: Extraction,
    node: tree_sitter.Node,
    name: tree_sitter.Node,
    function: tree_sitter.Node | None,
    whole: tree_sitter.Node | None,
    parameters: tuple[tree_sitter.Node, ...],
) -> None:
    """Define a function with or without a body, and have its parts visited."""
    outer, last, scopes = split_name(extraction, name)
    text = name_text(extraction, last)
    in_class = is_member(extraction)
    around = outer[-1] if outer else extraction.name_around if in_class else ""
    kind = "constructor" if around == text else "method" if outer or in_class else "function"
    type_, body = node.child_by_field_name("type"), node.child_by_field_name("body")
    trailing = next(
        (
            child
            for child in (function.named_children if function is not None else ())
            if child.type == "trailing_return_type"
        ),
        None,
    )
    returned = nth_child(trailing, 0) if trailing is not None else type_
    is_exported = in_class or not is_static(extraction, node)
    shape = Shape(outer, whole, type=class_type(extraction, returned), body=body, is_exported=is_exported)
    define(extraction, node, last, kind, text=text, shape=shape)
    inside = function.named_children[1:] if function is not None else ()
    kept = [
        child
        for child in node.named_children
        if child.type in ("field_initializer_list", "declaration", "requires_clause")
    ]
    extraction.visit(*parameters, *scopes, *inside, *kept, body)
    visit_type(extraction, type_)


def _test(extraction: Extraction, node: tree_sitter.Node, name: tree_sitter.Node, function: tree_sitter.Node) -> bool:
    """Define a test of a framework of macros: ``TEST(Suite, Name) {…}``."""
    parameters = function.child_by_field_name("parameters")
    said = [extraction.text(child) for child in parameters.named_children] if parameters is not None else []
    if not 1 <= len(said) <= 3:
        return False
    body = node.child_by_field_name("body")
    if len(said) > 1 and extraction.text(name) != "TEST":  # the test is a member of a class that extends the fixture
        define(extraction, node, name, "test", text=said[1], shape=Shape((said[0],), body=body))
    else:
        define(extraction, node, name, "test", text=".".join(said[:2]).strip('"'), shape=Shape(body=body))
    extraction.visit(
        *(parameters.named_children[:1] if parameters is not None else ()), node.child_by_field_name("body")
    )
    return True


def _statement(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define a test whose macro reads as a call before a block: ``TEST_CASE("name") {…}``."""
    call = nth_child(node, 0)
    name = call.child_by_field_name("function") if call is not None and call.type == "call_expression" else None
    if name is not None and not extraction.is_in_function and _TEST_MACRO.fullmatch(extraction.text(name)):
        body = extraction.take_next("compound_statement")
        arguments = call.child_by_field_name("arguments") if call is not None else None
        said = nth_child(arguments, 0) if arguments is not None else None
        if body is not None and said is not None:
            text = extraction.text(said).strip('"').replace("\n", " ")
            define(extraction, node, name, "test", text=text, shape=Shape(body=body))
            extraction.visit(body)
            return
        extraction.visit(body)
    extraction.visit(call)


def _class_behind_macro(
    extraction: Extraction, node: tree_sitter.Node, type_: tree_sitter.Node, name: tree_sitter.Node
) -> bool:
    """Define ``class MACRO Name : Base {…}``, which the grammar reads as a function ``Name``."""
    body = node.child_by_field_name("body")
    if body is None or name.type != "identifier":
        return False
    kind = type_.type.partition("_")[0]
    define(extraction, node, name, kind, shape=Shape(is_class=True, body=body))
    extraction.visit(type_.child_by_field_name("name"), body)
    return True


def _parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the parameters of a function; the types of those of a prototype refer."""
    is_bound = extraction.is_in_function
    for child in node.named_children:
        type_, value = child.child_by_field_name("type"), child.child_by_field_name("default_value")
        name, function = declared_name(child if child.type == "identifier" else child.child_by_field_name("declarator"))
        if name is not None and is_bound and name.type == "identifier":
            extraction.bind(extraction.text(name), None, class_type(extraction, type_) if function is None else None)
        inner = child.child_by_field_name("declarator")
        _visit_types_of(extraction, inner)
        extraction.visit(value)
        visit_type(extraction, type_)


def _visit_types_of(extraction: Extraction, declarator: tree_sitter.Node | None) -> None:
    """Visit what a declarator refers to besides its name: the types of parameters, the sizes of arrays."""
    at = declarator
    for _ in range(DECLARATORS_MAX):
        if at is None or at.type in NAMES:
            return
        inner = at.child_by_field_name("declarator")
        if at.type in (
            "function_declarator",
            "array_declarator",
            "abstract_function_declarator",
            "abstract_array_declarator",
        ):
            extraction.visit(*(child for child in at.named_children if inner is None or child.id != inner.id))
        at = inner


# -- values and types --------------------------------------------------------------------------------------------------------


def _declaration(
    extraction: Extraction,
    node: tree_sitter.Node,
    whole: tree_sitter.Node | None = None,
    parameters: tuple[tree_sitter.Node, ...] = (),
) -> None:
    """Define or bind the names of a ``declaration`` or a ``field_declaration``."""
    type_ = node.child_by_field_name("type")
    in_class = is_member(extraction)
    is_local = extraction.is_in_function and not in_class
    body = type_.child_by_field_name("body") if type_ is not None and type_.type in TYPES else None
    if body is not None and type_ is not None and type_.child_by_field_name("name") is None and not is_local:
        declared, function = declared_name(node.child_by_field_name("declarator"))
        if declared is not None and function is None and type_.type != "enum_specifier":
            kind = "field" if in_class else "value"
            shape = Shape(body=body, is_class=True, is_exported=in_class or not is_static(extraction, node))
            define(extraction, node, declared, kind, shape=shape)
            extraction.visit(body)
            return
    if body is not None:
        extraction.visit(type_)
    _visit_rest(extraction, node, type_, is_local=is_local)
    for declarator in node.children_by_field_name("declarator"):
        name, function = declared_name(declarator)
        value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
        if name is None:
            continue
        if name.type == "structured_binding_declarator":
            extraction.bind_pattern(name)
        elif name.type == "operator_cast":
            _prototype(extraction, node, (name, name), whole, parameters)
        elif is_local:
            type_of_class = class_type(extraction, type_)
            extraction.bind(extraction.text(name), value if type_of_class is not None else None, type_of_class)
        elif function is not None:
            _prototype(extraction, node, (name, function), whole, parameters)
        else:
            _value(extraction, node, name, value, whole)


def _visit_rest(
    extraction: Extraction, node: tree_sitter.Node, type_: tree_sitter.Node | None, *, is_local: bool
) -> None:
    """Visit the type and the values of a declaration."""
    for declarator in node.children_by_field_name("declarator")[::-1]:
        value = declarator.child_by_field_name("value") if declarator.type == "init_declarator" else None
        extraction.visit(value)
        inner = declarator.child_by_field_name("declarator") if declarator.type == "init_declarator" else declarator
        if is_local or declared_name(inner)[1] is None:
            _visit_types_of(extraction, inner)
    extraction.visit(*node.children_by_field_name("default_value"))
    if type_ is not None and (type_.type not in TYPES or type_.child_by_field_name("body") is None):
        visit_type(extraction, type_)


def _prototype(
    extraction: Extraction,
    node: tree_sitter.Node,
    declared: tuple[tree_sitter.Node, tree_sitter.Node],
    whole: tree_sitter.Node | None,
    parameters: tuple[tree_sitter.Node, ...],
) -> None:
    name, function = declared
    outer, last, _ = split_name(extraction, name)
    text = name_text(extraction, last)
    in_class = is_member(extraction)
    kind = (
        "constructor" if in_class and extraction.name_around == text else "method" if in_class or outer else "function"
    )
    is_exported = in_class or not is_static(extraction, node)
    type_ = class_type(extraction, node.child_by_field_name("type"))
    shape = Shape(outer, whole, type=type_, is_exported=is_exported, is_leaf=True)
    define(extraction, node, last, kind, text=text, shape=shape)
    # Names of parameters bind nothing outside of the prototype: only the types are visited.
    listed = function.child_by_field_name("parameters")
    for child in listed.named_children if listed is not None else ():
        visit_type(extraction, child.child_by_field_name("type"))
    extraction.visit(*parameters)


def _value(
    extraction: Extraction,
    node: tree_sitter.Node,
    name: tree_sitter.Node,
    value: tree_sitter.Node | None,
    whole: tree_sitter.Node | None,
) -> None:
    outer, last, _ = split_name(extraction, name)
    type_ = node.child_by_field_name("type")
    in_class = is_member(extraction)
    type_of_class = class_type(extraction, type_)
    shape = Shape(
        outer, whole, type=type_of_class, value=value if type_of_class is not None else None, body=value,
        is_exported=in_class or not is_static(extraction, node), is_leaf=True,
    )  # fmt: skip
    define(extraction, node, last, "field" if in_class else "value", text=name_text(extraction, last), shape=shape)


def _type_definition(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define the names of a ``typedef``; an anonymous struct has the first of them."""
    type_ = node.child_by_field_name("type")
    names = [
        name for child in node.children_by_field_name("declarator") if (name := declared_name(child)[0]) is not None
    ]
    anonymous = type_ is not None and type_.type in TYPES and type_.child_by_field_name("name") is None
    first = names[0] if anonymous and names else None
    for child in node.children_by_field_name("declarator"):
        _visit_types_of(extraction, child)
    for name in names:
        if first is not None and name.id == first.id:
            continue
        shape = Shape(type=first or class_type(extraction, type_), is_leaf=True)
        define(extraction, node, name, "type", shape=shape)
    if first is not None and type_ is not None:
        if type_.type == "enum_specifier":
            _define_enum(extraction, node, type_, first)
        else:
            _define_class(extraction, node, type_, first, None)
    elif type_ is not None and type_.type in TYPES and type_.child_by_field_name("body") is not None:
        extraction.visit(type_)
    else:
        visit_type(extraction, type_)


def _class(
    extraction: Extraction,
    node: tree_sitter.Node,
    whole: tree_sitter.Node | None = None,
    parameters: tuple[tree_sitter.Node, ...] = (),
) -> None:
    """Define a struct, a union or a class where it has a body; the members of an anonymous one are those of what is around."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if body is None:
        return
    if name is None:
        extraction.visit(body)
        return
    _define_class(extraction, whole or node, node, name, whole, parameters)


def _define_class(
    extraction: Extraction,
    node: tree_sitter.Node,
    written: tree_sitter.Node,
    name: tree_sitter.Node,
    whole: tree_sitter.Node | None,
    parameters: tuple[tree_sitter.Node, ...] = (),
) -> None:
    outer, last, scopes = split_name(extraction, name)
    kind = written.type.partition("_")[0]
    body = written.child_by_field_name("body")
    shape = Shape(outer, whole, body=body, is_class=True, is_shared=kind != "class" and is_member(extraction))
    define(extraction, node, last, kind, shape=shape)
    for child in written.named_children:
        if child.type == "base_class_clause":
            extraction.extend(child)
    arguments = name.child_by_field_name("arguments") if name.type == "template_type" else None
    extraction.visit(*parameters, *scopes, arguments, body)


def _enum(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if body is not None:
        _define_enum(extraction, node, node, name)


def _define_enum(
    extraction: Extraction, node: tree_sitter.Node, written: tree_sitter.Node, name: tree_sitter.Node | None
) -> None:
    """Define an enum and its constants, which stand in the scope around it but for ``enum class``."""
    body = written.child_by_field_name("body")
    is_scoped = any(child.type in ("class", "struct") for child in written.children[:3])
    if name is not None:
        outer, last, _ = split_name(extraction, name)
        shape = Shape(outer, body=body, is_class=True, is_shared=is_member(extraction))
        define(extraction, node, last, "enum", shape=shape)
    waiting = body.named_children[::-1] if body is not None else []
    values: list[tree_sitter.Node | None] = []
    while waiting:
        child = waiting.pop()
        if child.type == "enumerator":
            constant = child.child_by_field_name("name")
            if constant is not None:
                shape = Shape(is_leaf=True, is_shared=name is not None and not is_scoped)
                define(extraction, child, constant, "constant", shape=shape)
            values.append(child.child_by_field_name("value"))
        elif child.type.startswith("preproc_if") or child.type in ("preproc_else", "preproc_elif", "ERROR"):
            waiting += child.named_children[::-1]
        elif child.type in ("preproc_def", "preproc_function_def"):
            _macro(extraction, child)
    extraction.visit(*values)


def _type_descriptor(extraction: Extraction, node: tree_sitter.Node) -> None:
    type_ = node.child_by_field_name("type")
    _visit_types_of(extraction, node.child_by_field_name("declarator"))
    visit_type(extraction, type_)


# -- the preprocessor ----------------------------------------------------------------------------------------------------------


def _include(extraction: Extraction, node: tree_sitter.Node) -> None:
    path = node.child_by_field_name("path")
    if path is not None and path.type in ("string_literal", "system_lib_string"):
        extraction.add_import(path, extraction.text(path), "*")


def _macro(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define a macro; the names in its text refer."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None:
        return
    define(extraction, node, name, "macro", shape=Shape(body=value, is_global=True))
    parameters = node.child_by_field_name("parameters")
    for child in parameters.named_children if parameters is not None else ():
        if child.type == "identifier":
            extraction.bind(extraction.text(child))
    if value is None:
        return
    start = value.start_byte
    for match in _TEXT_NAMES.finditer(extraction.data, start, min(value.end_byte, start + _MACRO_BYTES_MAX)):
        word = match[1]
        if word is not None and word not in _WORDS:
            extraction.refer_at(match.start(1), word.decode("utf-8", "replace"), is_call=match[2] is not None)


# -- C++ -----------------------------------------------------------------------------------------------------------------------


def _template(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define what a template declares; its parameters are bound within it."""
    parameters: list[tree_sitter.Node] = []
    at = node
    for _ in range(DECLARATORS_MAX):
        inner = next((child for child in at.named_children if child.type == "template_declaration"), None)
        parameters += [
            child for child in at.named_children if child.type in ("template_parameter_list", "requires_clause")
        ]
        if inner is None:
            break
        at = inner
    found = tuple(parameters)
    for child in at.named_children:
        if child.type == "function_definition":
            _function(extraction, child, node, found)
        elif child.type in ("declaration", "field_declaration"):
            _declaration(extraction, child, node, found)
        elif child.type in ("struct_specifier", "union_specifier", "class_specifier"):
            _class(extraction, child, node, found)
        elif child.type == "alias_declaration":
            _alias(extraction, child, node)
        elif child.type not in ("template_parameter_list", "requires_clause"):
            extraction.visit(child)


def _template_parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    for child in node.named_children:
        if child.type in ("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration"):
            name = declared_name(child.child_by_field_name("declarator"))[0]
            extraction.visit(child.child_by_field_name("type"), child.child_by_field_name("default_value"))
        else:
            name = child.child_by_field_name("name") or nth_child(child, 0)
            extraction.visit(child.child_by_field_name("default_type"))
        if name is not None and name.type in ("identifier", "type_identifier") and extraction.kind_around:
            extraction.bind(extraction.text(name))


def _alias(extraction: Extraction, node: tree_sitter.Node, whole: tree_sitter.Node | None = None) -> None:
    name, type_ = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is not None:
        if extraction.is_in_function and not is_member(extraction):
            extraction.bind(extraction.text(name))
        else:
            define(extraction, node, name, "type", shape=Shape(whole=whole, type=type_, is_leaf=True))
    extraction.visit(type_)


def _using(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``using namespace a::b`` opens a namespace, ``using a::b`` brings one name."""
    name = nth_child(node, 0)
    if name is None:
        return
    text = "".join(extraction.text(name).split()).lstrip(":")
    if any(child.type == "namespace" for child in node.children):
        extraction.add_import(name, text, "*")
    elif not is_member(extraction):
        last = text.rpartition("::")[2]
        extraction.add_import(name, text, last, last)


def _namespace(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None:
        extraction.visit(body)
        return
    outer: tuple[str, ...] = ()
    if name.type == "nested_namespace_specifier":
        parts = [part for part in "".join(extraction.text(name).split()).removeprefix("inline").split("::") if part]
        outer, text = tuple(parts[:-1]), parts[-1] if parts else ""
    else:
        text = extraction.text(name)
    define(extraction, node, name, "namespace", text=text, shape=Shape(outer, body=body, is_class=True))
    extraction.visit(body)


def _namespace_alias(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    target = nth_child(node, 1)
    if name is not None and target is not None:
        module = "".join(extraction.text(target).split()).lstrip(":")
        extraction.add_import(target, module, module.rpartition("::")[2], extraction.text(name))


def _range_loop(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the variable of ``for (auto x : values)``."""
    type_, right, body = (node.child_by_field_name(field) for field in ("type", "right", "body"))
    name, _ = declared_name(node.child_by_field_name("declarator"))
    if name is not None and name.type == "structured_binding_declarator":
        extraction.bind_pattern(name)
    elif name is not None and extraction.is_in_function:
        extraction.bind(extraction.text(name), None, type_)
    visit_type(extraction, type_)
    extraction.visit(right, body)


def _member_value(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``: name(value)`` of a constructor refers to a member or a base."""
    children = node.named_children
    if children and children[0].type in ("field_identifier", "identifier"):
        extraction.refer_at(children[0].start_byte, extraction.text(children[0]))
        children = children[1:]
    extraction.visit(*children)


def _concept(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        define(extraction, node, name, "type")
    extraction.visit(*(child for child in node.named_children if name is None or child.id != name.id))


def _is_test(name: str, kind: str, _decorations: str) -> bool:
    return kind == "test" or (kind in ("function", "method") and name.startswith("test_"))


def header_row(data: bytes) -> Language:
    """Return the row for a header: C++ where it has what only C++ has."""
    return CPP if _CPLUSPLUS.search(data) is not None else _c_row(data)


_C_SPECIAL: Final[dict[str, Callable[[Extraction, tree_sitter.Node], None]]] = {
    "preproc_include": _include,
    "preproc_def": _macro,
    "preproc_function_def": _macro,
    "function_definition": _function,
    "declaration": _declaration,
    "field_declaration": _declaration,
    "type_definition": _type_definition,
    "struct_specifier": _class,
    "union_specifier": _class,
    "enum_specifier": _enum,
    "parameter_list": _parameters,
    "type_descriptor": _type_descriptor,
    "expression_statement": _statement,
}
_TRANSPARENT: Final[dict[str, Place]] = {
    "parenthesized_expression": 0,
    "pointer_expression": "argument",
    "type_descriptor": "type",
    "struct_specifier": "name",
    "union_specifier": "name",
    "enum_specifier": "name",
}
_MACRO_WITH_BODY: Final = re.compile(rb"^[A-Z_][A-Z0-9_]*\([\w\s,]*\)\s*\{", re.MULTILINE)


def _c_row(data: bytes) -> Language:
    """Return the row for a file of C. Where macros with bodies define functions or tests, the grammar of C++ reads it better."""
    return _MACRO_C if _MACRO_WITH_BODY.search(data) is not None else _PLAIN_C


_PLAIN_C: Final = Language(
    "c", (".c",), "tree_sitter_c", "language", {}, frozenset(),
    scopes=frozenset({"compound_statement", "for_statement"}),
    names=frozenset({"identifier", "type_identifier"}),
    accesses={
        "field_expression": Access("argument", "field"),
        "call_expression": Access("function", step="()"),
        "subscript_expression": Access("argument"),
        "compound_literal_expression": Access("type", step="()"),
    },
    transparent=_TRANSPARENT,
    casts={"cast_expression": "type"},
    literals=frozenset({"string_literal", "concatenated_string", "number_literal", "char_literal", "true", "false"}),
    nulls=frozenset({"null"}),
    selves=frozenset(),
    supers=frozenset(),
    type_wrappers={
        "type_descriptor": "type", "struct_specifier": "name", "union_specifier": "name", "enum_specifier": "name",
    },
    builtins=frozenset(word.decode() for word in _WORDS) - {"and", "or", "not"},
    special=_C_SPECIAL,
    is_test=_is_test,
    prepare=blank_unreadable,
)  # fmt: skip
_MACRO_C: Final = _PLAIN_C._replace(module="tree_sitter_cpp")
C: Final = _PLAIN_C._replace(choose=_c_row)
CPP: Final = _PLAIN_C._replace(
    name="cpp",
    extensions=(".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".tpp", ".tcc", ".txx"),
    module="tree_sitter_cpp",
    functions=frozenset({"lambda_expression"}),
    scopes=_PLAIN_C.scopes
    | {"catch_clause", "if_statement", "while_statement", "switch_statement", "requires_expression"},
    has_implicit_this=True,
    names=_PLAIN_C.names | {"namespace_identifier"},
    accesses={
        **_PLAIN_C.accesses,
        "qualified_identifier": Access("scope", "name"),
        "template_type": Access("name"),
        "template_function": Access("name"),
        "template_method": Access("name"),
        "new_expression": Access("type", step="()"),
    },
    transparent={**_TRANSPARENT, "class_specifier": "name", "dependent_type": 0, "dependent_name": 0},
    literals=_PLAIN_C.literals | {"raw_string_literal", "user_defined_literal", "lambda_expression"},
    selves=frozenset({"this"}),
    type_wrappers={**_PLAIN_C.type_wrappers, "class_specifier": "name", "dependent_type": 0},
    builtins=_PLAIN_C.builtins | {"std"},
    special={
        **_C_SPECIAL,
        "class_specifier": _class,
        "template_declaration": _template,
        "template_parameter_list": _template_parameters,
        "alias_declaration": _alias,
        "using_declaration": _using,
        "namespace_definition": _namespace,
        "namespace_alias_definition": _namespace_alias,
        "for_range_loop": _range_loop,
        "field_initializer": _member_value,
        "concept_definition": _concept,
    },
)
HEADER: Final = _PLAIN_C._replace(extensions=(".h",), choose=header_row)
