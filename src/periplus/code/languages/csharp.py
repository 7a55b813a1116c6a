"""C#."""

from __future__ import annotations

__all__ = ["CSHARP"]

import re
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Bind, Extraction, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "nameof var dynamic value _ String Object Int32 Int64 Boolean Double Decimal Char Byte Math Console Convert Environment GC Guid "
    "DateTime DateTimeOffset TimeSpan Type Enum Array Exception ArgumentException ArgumentNullException ArgumentOutOfRangeException "
    "InvalidOperationException NotSupportedException NotImplementedException FormatException IndexOutOfRangeException "
    "NullReferenceException InvalidCastException OverflowException ObjectDisposedException OperationCanceledException TimeoutException "
    "IDisposable IComparable IEquatable IFormatProvider Action Func Predicate Task ValueTask Obsolete Flags Serializable Attribute".split()
)
_TESTS: Final = re.compile(
    r"\[\s*(?:[\w.]+\.)?(?:Fact|Theory|Test|TestCase|TestCaseSource|TestMethod|DataTestMethod|Benchmark)(?:Attribute)?\b"
)
_TEST_CLASS: Final = re.compile(r"\[\s*(?:[\w.]+\.)?(?:TestFixture|TestClass)\b")
_TEST_NAME: Final = re.compile(r"\w+Tests?")
_DIRECTIVE: Final = re.compile(
    rb"^[ \t]*#[ \t]*(?:if|elif|else|endif|pragma|region|endregion|nullable)\b[^\r\n]*", re.MULTILINE
)
_AWAITABLE: Final = frozenset({"Task", "ValueTask"})
_VISIBLE: Final = frozenset({"public", "protected"})


def _dotted(extraction: Extraction, node: tree_sitter.Node) -> str:
    """Return a name without the arguments of generic types."""
    return re.sub(r"<.*", "", "".join(extraction.text(node).split())).removeprefix("global::")


def _using(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``using A.B`` brings all of a namespace, ``using static A.B`` all of a type, ``using C = A.B`` one of them. Those of ``global using``
    are for other files too.
    """
    alias = node.child_by_field_name("name")
    target = next((child for child in node.named_children if alias is None or child.id != alias.id), None)
    if target is None or target.type not in ("identifier", "qualified_name", "alias_qualified_name", "generic_name"):
        return
    words = {child.type for child in node.children}
    dotted = _dotted(extraction, target)
    if alias is None:
        extraction.add_import(target, dotted, "*", is_reexport="global" in words)
        return
    module, _, name = dotted.rpartition(".")
    extraction.add_import(target, module, name, extraction.text(alias), is_reexport="global" in words)


def _namespace(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Note the namespace of the file, the largest where there are several; one within it, or another beside it, is a definition."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None:
        return
    inside = body.named_children if body is not None else []
    around = node.parent
    while around is not None and around.type.startswith("preproc"):
        around = around.parent
    beside = around.named_children if around is not None and around.type == "compilation_unit" else []
    sizes = [one.end_byte - one.start_byte for one in beside if one.type == "namespace_declaration"]
    is_largest = node.end_byte - node.start_byte >= max(sizes, default=0)
    if is_largest and extraction.add_package(_dotted(extraction, name)):
        extraction.visit(*inside)
    else:
        extraction.define(node, name, "namespace", text=_dotted(extraction, name), inside=inside, is_class=True)


def _bases(extraction: Extraction, node: tree_sitter.Node) -> None:
    for one in node.named_children:
        if one.type == "argument_list":
            extraction.visit(one)
        elif one.type == "primary_constructor_base_type":
            base = one.child_by_field_name("type") or one.named_children[0]
            extraction.extend(base)
            extraction.visit(*(child for child in one.named_children if child.id != base.id))
        else:
            extraction.extend(one)


def _declarators(node: tree_sitter.Node) -> list[tuple[tree_sitter.Node, tree_sitter.Node | None]]:
    """Return the name, or the pattern, and the value of each variable that a declaration declares."""
    found = []
    for one in node.named_children:
        if one.type == "variable_declarator" and one.named_child_count:
            name = one.child_by_field_name("name") or one.named_children[0]
            value = one.named_children[-1]
            found.append((name, value if value.id != name.id and value.type != "bracketed_argument_list" else None))
    return found


def _local_variables(extraction: Extraction, node: tree_sitter.Node) -> None:
    declared = node.child_by_field_name("type")
    variables = _declarators(node)
    for name, value in variables:
        if name.type == "identifier":
            extraction.bind(extraction.text(name), value, declared)
        else:
            extraction.bind_pattern(name)
    extraction.refer_types(declared)
    extraction.visit(*(value for _, value in variables))


def _fields(extraction: Extraction, node: tree_sitter.Node) -> None:
    declaration = next((child for child in node.named_children if child.type == "variable_declaration"), None)
    if declaration is None:
        return
    declared = declaration.child_by_field_name("type")
    variables = [(name, value) for name, value in _declarators(declaration) if name.type == "identifier"]
    extraction.visit(*(child for child in node.named_children if child.type == "attribute_list"))
    for number, (name, value) in enumerate(variables):
        is_last = number == len(variables) - 1
        extraction.define(node, name, "field", type_=declared, inside=(value,) if is_last else ())
        if is_last:
            extraction.refer_types(declared)
        else:
            extraction.visit(value)


def _property(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, declared = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is None:
        return
    known = {name.id, declared.id if declared is not None else 0}
    inside = [child for child in node.named_children if child.id not in known]
    extraction.define(node, name, "property", type_=declared, inside=inside)
    extraction.refer_types(declared)


def _awaited(extraction: Extraction, node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return the type that a method gives when it is awaited."""
    if node is None or node.type != "generic_name" or extraction.text(node.named_children[0]) not in _AWAITABLE:
        return node
    arguments = node.named_children[-1]
    return arguments.named_children[0] if arguments.named_child_count == 1 else node


def _method(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    declared = node.child_by_field_name("returns") or node.child_by_field_name("type")
    if name is None:
        return
    known = {name.id, declared.id if declared is not None else 0}
    inside = [child for child in node.named_children if child.id not in known]
    kind = "function" if node.type == "local_function_statement" else "method"
    extraction.define(node, name, kind, type_=_awaited(extraction, declared), inside=inside)
    extraction.refer_types(declared)
    parameters = node.child_by_field_name("parameters")
    first = parameters.named_children[0] if parameters is not None and parameters.named_child_count else None
    if first is not None and any(
        child.type == "modifier" and extraction.text(child) == "this" for child in first.named_children
    ):
        extended = first.child_by_field_name("type")
        if extended is not None:
            extraction.note_receiver(extended)


def _operator(extraction: Extraction, node: tree_sitter.Node) -> None:
    sign = node.child_by_field_name("operator")
    if sign is None:
        extraction.open_scope(is_function=True)
        extraction.visit(*node.named_children)
        return
    word = next((child for child in node.children if child.type == "operator"), sign)
    inside = [child for child in node.named_children if child.type != "modifier" and child.id != sign.id]
    extraction.define(node, word, "method", text=f"operator {extraction.text(sign)}", inside=inside)


def _destructor(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        inside = [child for child in node.named_children if child.id != name.id]
        extraction.define(node, name, "method", text=f"~{extraction.text(name)}", inside=inside)


def _parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind a parameter; those of a record are properties of it."""
    name, declared = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is None:
        return
    if extraction.around == "record":
        extraction.define(node, name, "property", type_=declared)
    else:
        extraction.bind(extraction.text(name), None, declared)
    extraction.refer_types(declared)
    known = {name.id, declared.id if declared is not None else 0}
    extraction.visit(*(child for child in node.named_children if child.id not in known))


def _parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit parameters; the last one after ``params`` has no node of its own."""
    for child in node.named_children:
        if child.type == "identifier":
            extraction.bind(extraction.text(child))
    extraction.visit(*(child for child in node.named_children if child.type != "identifier"))


def _lambda(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope(is_function=True)
    parameters = node.child_by_field_name("parameters")
    if parameters is not None and parameters.type in ("implicit_parameter", "identifier"):
        extraction.bind(extraction.text(parameters))
        extraction.visit(*(child for child in node.named_children if child.id != parameters.id))
    else:
        extraction.visit(*node.named_children)


def _for_each(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope()
    left, declared = node.child_by_field_name("left"), node.child_by_field_name("type")
    if left is not None:
        if left.type == "identifier":
            extraction.bind(extraction.text(left), None, declared)
        else:
            extraction.bind_pattern(left)
    extraction.refer_types(declared)
    known = {one.id for one in (left, declared) if one is not None}
    extraction.visit(*(child for child in node.named_children if child.id not in known))


def _initializer(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit ``{ Name = value }`` behind ``new``: the names are members of the new object."""
    around = node.parent
    type_ = around.child_by_field_name("type") if around is not None else None
    for child in node.named_children:
        left = child.child_by_field_name("left") if child.type == "assignment_expression" else None
        if left is not None and left.type == "identifier":
            extraction.reach(left, type_)
            extraction.visit(child.child_by_field_name("right"))
        else:
            extraction.visit(child)


def _members(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit ``with { Name = value }``, ``{ Name: pattern }`` and ``new { Name = value }``."""
    children = node.children
    for number, child in enumerate(children):
        if not child.is_named:
            continue
        after = children[number + 1].type if number + 1 < len(children) else ""
        if child.type == "identifier" and after in ("=", ":"):
            if node.type != "anonymous_object_creation_expression":
                extraction.reach(child, None)
        else:
            extraction.visit(child)


def _enum_member(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        inside = [child for child in node.named_children if child.id != name.id]
        extraction.define(node, name, "value", inside=inside, is_instance=True)


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        extraction.bind(extraction.text(name))


def _repair(data: bytes) -> bytes:
    """Blank the lines of directives: within a list of bases or arguments the grammar does not expect them."""
    return _DIRECTIVE.sub(lambda match: b" " * (match.end() - match.start()), data)


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    if node.type in ("enum_member_declaration", "parameter", "namespace_declaration"):
        return True
    said = {extraction.text(child) for child in node.named_children if child.type == "modifier"}
    return bool(said & _VISIBLE) or (extraction.around == "interface" and "private" not in said)


def _is_test(name: str, kind: str, decorations: str) -> bool:
    if kind == "class":
        return _TEST_CLASS.search(decorations) is not None or _TEST_NAME.fullmatch(name) is not None
    return kind == "method" and _TESTS.search(decorations) is not None


CSHARP: Final = Language(
    "csharp", (".cs", ".csx"), "tree_sitter_c_sharp", "language",
    {
        "class_declaration": Naming("class", is_class=True),
        "struct_declaration": Naming("struct", is_class=True),
        "interface_declaration": Naming("interface", is_class=True),
        "record_declaration": Naming("record", is_class=True),
        "enum_declaration": Naming("enum", is_class=True),
        "delegate_declaration": Naming("type"),
        "constructor_declaration": Naming("constructor"),
    },
    functions=frozenset(
        {"constructor_declaration", "accessor_declaration", "anonymous_method_expression", "indexer_declaration", "delegate_declaration"}
    ),
    scopes=frozenset(
        {"block", "for_statement", "using_statement", "switch_section", "switch_expression_arm", "catch_clause", "query_expression",
         "fixed_statement"}
    ),
    has_member_scopes=True,
    has_extensions=True,
    has_type_names=True,
    name_wrappers={"generic_name": 0, "member_binding_expression": "name", "element_binding_expression": ""},
    binds={
        "declaration_pattern": (Bind("name", type="type"),),
        "recursive_pattern": (Bind("name", type="type"),),
        "var_pattern": (Bind("name"),),
        "declaration_expression": (Bind("name", type="type"),),
        "catch_declaration": (Bind("name", type="type"),),
        "from_clause": (Bind("name", type="type"),),
        "let_clause": (Bind(0),),
        "join_clause": (Bind(0),),
    },
    accesses={
        "member_access_expression": Access("expression", "name"),
        "conditional_access_expression": Access("condition", -1),
        "invocation_expression": Access("function", step="()"),
        "object_creation_expression": Access("type", step="()", is_type=True),
        "element_access_expression": Access("expression", step="[]"),
        "qualified_name": Access("qualifier", "name"),
        "generic_name": Access(0),
    },
    transparent={"parenthesized_expression": 0, "await_expression": 0, "alias_qualified_name": "name", "postfix_unary_expression": 0},
    casts={"cast_expression": "type", "as_expression": "right"},
    enters={"argument": (-1,), "attribute_argument": (-1,), "labeled_statement": (-1,), "tuple_element": ("type",)},
    skips=frozenset({"goto_statement", "implicit_parameter", "extern_alias_directive"}),
    literals=frozenset(
        {"string_literal", "verbatim_string_literal", "raw_string_literal", "interpolated_string_expression", "character_literal",
         "integer_literal", "real_literal", "boolean_literal", "typeof_expression", "sizeof_expression", "array_creation_expression",
         "implicit_array_creation_expression", "is_pattern_expression", "is_expression", "predefined_type"}
    ),
    nulls=frozenset({"null_literal"}),
    selves=frozenset({"this"}),
    supers=frozenset({"base"}),
    type_wrappers={"nullable_type": "type", "ref_type": "type", "scoped_type": "type"},
    inferred=frozenset({"var", "dynamic"}),
    builtins=_BUILTINS,
    special={
        "using_directive": _using,
        "namespace_declaration": _namespace,
        "file_scoped_namespace_declaration": _namespace,
        "base_list": _bases,
        "field_declaration": _fields,
        "event_field_declaration": _fields,
        "variable_declaration": _local_variables,
        "property_declaration": _property,
        "event_declaration": _property,
        "method_declaration": _method,
        "local_function_statement": _method,
        "operator_declaration": _operator,
        "conversion_operator_declaration": _operator,
        "destructor_declaration": _destructor,
        "parameter": _parameter,
        "parameter_list": _parameters,
        "lambda_expression": _lambda,
        "foreach_statement": _for_each,
        "initializer_expression": _initializer,
        "with_initializer": _members,
        "subpattern": _members,
        "anonymous_object_creation_expression": _members,
        "enum_member_declaration": _enum_member,
        "type_parameter": _type_parameter,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    annotations=frozenset({"attribute_list"}),
    repair=_repair,
)  # fmt: skip
