"""Go."""

from __future__ import annotations

__all__ = ["GO"]

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Extraction, Language, Local, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "append cap close complex copy delete imag len make new panic print println real recover bool byte complex64 complex128 error float32 "
    "float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr true false nil iota any comparable _".split()
)
_TEST: Final = re.compile(r"(?:Test|Benchmark|Example|Fuzz)(?![a-z])")
_MAJOR_VERSION: Final = re.compile(r"v\d+\Z")
_NAMED_TYPES: Final = frozenset({"type_identifier", "qualified_type", "generic_type"})


def _package_name(path: str) -> str:
    """Return the name under which a file most likely sees the package ``path``: its last part without version and marks."""
    parts = path.split("/")
    last = parts[-1]
    if _MAJOR_VERSION.match(last) and len(parts) > 1:
        last = parts[-2]
    last = re.sub(r"\.v\d+\Z", "", last)
    last = last.removeprefix("go-").removesuffix("-go").removesuffix(".go")
    return re.split(r"[-.]", last)[-1] if re.search(r"[-.]", last) else last


def _import(extraction: Extraction, node: tree_sitter.Node) -> None:
    source, name = node.child_by_field_name("path"), node.child_by_field_name("name")
    if source is None:
        return
    module = extraction.text(source).strip('"`')
    if name is None:
        extraction.add_import(source, module, "", _package_name(module))
    elif name.type == "dot":
        extraction.add_import(source, module, "*")
    else:
        extraction.add_import(source, module, "", extraction.text(name) if name.type == "package_identifier" else "")


def _package(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.named_child(0)
    if name is not None:
        extraction.add_package(extraction.text(name))


def _pointed(type_: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return what a pointer points to."""
    while type_ is not None and type_.type in ("pointer_type", "parenthesized_type"):
        type_ = type_.named_child(0)
    return type_


def _receiver(extraction: Extraction, node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """Bind the receiver to the instance, and the parameters of its type."""
    receiver = node.child_by_field_name("receiver")
    declared = receiver.named_child(0) if receiver is not None else None
    type_ = declared.child_by_field_name("type") if declared is not None else None
    if receiver is None or declared is None or type_ is None:
        return ()
    type_ = _pointed(type_)
    if type_ is not None and type_.type == "generic_type":
        arguments = type_.child_by_field_name("type_arguments")
        for argument in arguments.named_children if arguments is not None else ():
            extraction.bind(extraction.text(argument))
        type_ = type_.child_by_field_name("type")
    name = declared.child_by_field_name("name")
    if type_ is not None:
        if name is not None:
            extraction.bind_instance_of(extraction.text(name), extraction.text(type_))
        extraction.visit(type_)
    return (receiver,)


def _parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    type_ = node.child_by_field_name("type")
    declared = node if node.type == "variadic_parameter_declaration" else type_
    names = [Local(extraction.text(name), None, declared) for name in node.children_by_field_name("name")]
    extraction.bind_after(names, type_)


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the parameters of a type to the type that constrains them."""
    constraint = node.child_by_field_name("type")
    only = constraint.named_child(0) if constraint is not None and constraint.named_child_count == 1 else None
    for name in node.children_by_field_name("name"):
        extraction.bind(extraction.text(name), only)
    extraction.visit(constraint)


def _field(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define the fields of a struct; an embedded type is a field of its name, and a base."""
    type_ = node.child_by_field_name("type")
    names = node.children_by_field_name("name")
    if type_ is None:
        return
    if extraction.is_in_function:
        extraction.visit(type_)
        return
    if not names:
        bare: tree_sitter.Node | None = type_
        while bare is not None and bare.type in ("generic_type", "pointer_type", "qualified_type"):
            bare = bare.child_by_field_name("name" if bare.type == "qualified_type" else "type") or bare.named_child(0)
        extraction.extend(type_)
        if bare is not None:
            extraction.define(node, bare, "field", type_=type_)
        return
    for name in names[:-1]:
        extraction.define(node, name, "field", type_=type_)
    extraction.define(node, names[-1], "field", type_=type_, inside=(type_,))


def _interface(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Take the types that stand in an interface as its bases; a union is none."""
    for child in node.named_children:
        if child.type == "type_elem" and child.named_child_count == 1:
            extraction.extend(child)
        else:
            extraction.visit(child)


def _assertion(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit ``x.(T)``: its value has the class T, but nothing is called."""
    extraction.visit(*node.named_children)


def _values(node: tree_sitter.Node | None) -> list[tree_sitter.Node]:
    if node is None:
        return []
    return node.named_children if node.type == "expression_list" else [node]


def _bind_each(
    extraction: Extraction,
    names: Sequence[tree_sitter.Node],
    values: Sequence[tree_sitter.Node],
    *before: tree_sitter.Node | None,
) -> None:
    """Bind names to values; of one call with several results the first has the class that is known."""
    bound: list[Local] = []
    for at, name in enumerate(names):
        if name.type != "identifier":
            before = (*before, name)
        elif (text := extraction.text(name)) != "_":
            value = values[at] if len(values) == len(names) or at == 0 < len(values) else None
            is_received = value is not None and value.type == "unary_expression" and value.children[0].type == "<-"
            bound.append(Local(text, value, _made(extraction, value), is_received))
    extraction.bind_after(bound, *before)


def _made(extraction: Extraction, value: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return the type of ``new(T)``."""
    if value is None or value.type != "call_expression":
        return None
    function, arguments = value.child_by_field_name("function"), value.child_by_field_name("arguments")
    is_new = function is not None and function.type == "identifier" and extraction.text(function) == "new"
    return arguments.named_child(0) if is_new and arguments is not None else None


def _short_variables(extraction: Extraction, node: tree_sitter.Node) -> None:
    right = node.child_by_field_name("right")
    values = _values(right)
    _bind_each(extraction, _values(node.child_by_field_name("left")), values, *values)


def _range(extraction: Extraction, node: tree_sitter.Node) -> None:
    names, right = _values(node.child_by_field_name("left")), node.child_by_field_name("right")
    bound = [
        Local(extraction.text(name), right if at else None, None, bool(at))
        for at, name in enumerate(names)
        if name.type == "identifier"
    ]
    extraction.bind_after(bound, *(name for name in names if name.type != "identifier"), right)


def _type_switch(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Open no scope for a case: the alias has another class in each of them."""
    alias = node.child_by_field_name("alias")
    _bind_each(extraction, _values(alias), ())
    extraction.visit(*(child for child in node.named_children if alias is None or child.id != alias.id))


def _spec(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define the constants and variables of a package; inside of a function they are local."""
    names = [name for name in node.children_by_field_name("name") if name.type == "identifier"]
    type_, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    values = _values(value)
    if extraction.is_in_function:
        if type_ is None:
            _bind_each(extraction, names, values, value)
        else:
            extraction.bind_after([Local(extraction.text(name), None, type_) for name in names], type_, value)
        return
    inside = [one for one in (type_, value) if one is not None]
    for at, name in enumerate(names):
        own = values[at] if len(values) == len(names) or at == 0 < len(values) else None
        declared = type_ or _made(extraction, own)
        extraction.define(
            node, name, "value", type_=declared, value=own, inside=inside if at == len(names) - 1 else ()
        )  # fmt: skip


def _composite(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit a literal of a struct, a map or a list; the keys of a struct are fields of its type."""
    type_ = node.child_by_field_name("type")
    body = node.child_by_field_name("body")
    extraction.visit(type_)
    if body is not None:
        _literal(extraction, body, type_)


def _bare_literal(extraction: Extraction, node: tree_sitter.Node) -> None:
    _literal(extraction, node, None)


def _literal(extraction: Extraction, body: tree_sitter.Node, type_: tree_sitter.Node | None) -> None:
    waiting: list[tuple[tree_sitter.Node, tree_sitter.Node | None]] = [(body, type_)]
    visited: list[tree_sitter.Node] = []
    while waiting:
        at, type_ = waiting.pop()
        type_ = _pointed(type_)
        is_struct = type_ is None or type_.type in _NAMED_TYPES
        inner = None
        if type_ is not None and not is_struct:
            inner = type_.child_by_field_name("element") or type_.child_by_field_name("value")
        for element in at.named_children:
            value = element
            if element.type == "keyed_element":
                key, value = element.named_children[0], element.named_children[-1]
                is_name = any(child.type == "identifier" for child in key.named_children[:1])
                if is_name and is_struct:
                    extraction.reach(key.named_children[0], type_)
                elif not is_name or type_ is None or type_.type != "struct_type":  # its fields are no definitions
                    visited.append(key)
            only = value.named_child(0) if value.type == "literal_element" else None
            if only is not None and only.type == "literal_value":
                waiting.append((only, inner))
            else:
                visited.append(value)
    extraction.visit(*visited)


def _is_exported(_extraction: Extraction, _node: tree_sitter.Node, name: str) -> bool:
    return name[:1].isupper()


def _is_test(name: str, kind: str, _decorations: str) -> bool:
    return kind == "function" and _TEST.match(name) is not None


GO: Final = Language(
    "go", (".go",), "tree_sitter_go", "language",
    {
        "function_declaration": Naming("function", type="result"),
        "method_declaration": Naming(
            "method", ("receiver/~type_identifier", "name"), type="result", begin=_receiver
        ),
        "method_elem": Naming("method", type="result"),
        "type_spec": Naming(
            "type", is_outer=True, is_class=True, type="type",
            kinds={"struct_type": "struct", "interface_type": "interface"},
        ),
        "type_alias": Naming("type", is_outer=True, type="type"),
    },
    functions=frozenset({"function_declaration", "method_declaration", "method_elem", "func_literal"}),
    scopes=frozenset(
        {"block", "function_type", "if_statement", "for_statement", "expression_switch_statement", "expression_case", "default_case",
         "type_case", "communication_case"}
    ),
    has_bare_members=False,
    names=frozenset({"identifier", "type_identifier", "package_identifier"}),
    accesses={
        "selector_expression": Access("operand", "field"),
        "qualified_type": Access("package", "name"),
        "call_expression": Access("function", step="()"),
        "index_expression": Access("operand", step="[]"),
        "slice_expression": Access("operand", step="[]"),
        "composite_literal": Access("type", step="()"),
        "type_assertion_expression": Access("type", step="()"),
        "type_conversion_expression": Access("type", step="()"),
        "generic_type": Access("type"),
        "type_instantiation_expression": Access("type"),
    },
    transparent={"parenthesized_expression": 0, "parenthesized_type": 0, "unary_expression": "operand", "pointer_type": 0},
    literals=frozenset(
        {"interpreted_string_literal", "raw_string_literal", "int_literal", "float_literal", "imaginary_literal", "rune_literal", "true",
         "false", "func_literal", "iota"}
    ),
    nulls=frozenset({"nil"}),
    selves=frozenset(),
    supers=frozenset(),
    skips=frozenset({"label_name", "interpreted_string_literal", "raw_string_literal"}),
    type_wrappers={
        "pointer_type": 0, "parenthesized_type": 0, "generic_type": "type", "parameter_list": 0, "parameter_declaration": "type",
        "type_elem": 0,
    },
    list_types={"slice_type": "element", "array_type": "element", "map_type": "value", "channel_type": "value", "variadic_parameter_declaration": "type"},
    builtins=_BUILTINS,
    special={
        "package_clause": _package,
        "import_spec": _import,
        "parameter_declaration": _parameter,
        "variadic_parameter_declaration": _parameter,
        "type_parameter_declaration": _type_parameter,
        "field_declaration": _field,
        "interface_type": _interface,
        "short_var_declaration": _short_variables,
        "receive_statement": _short_variables,
        "type_assertion_expression": _assertion,
        "range_clause": _range,
        "type_switch_statement": _type_switch,
        "const_spec": _spec,
        "var_spec": _spec,
        "composite_literal": _composite,
        "literal_value": _bare_literal,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    lead_words=frozenset({b"", b"type", b"const", b"var"}),
)  # fmt: skip
