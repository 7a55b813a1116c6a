"""Kotlin."""

from __future__ import annotations

__all__ = ["KOTLIN"]

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Bind, Extraction, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "null true false it field Any Unit Nothing String Int Long Short Byte Boolean Char Double Float Number CharSequence Comparable "
    "Throwable Exception RuntimeException Error IllegalArgumentException IllegalStateException UnsupportedOperationException "
    "IndexOutOfBoundsException NoSuchElementException NullPointerException ClassCastException AssertionError Array IntArray LongArray "
    "ByteArray CharArray BooleanArray DoubleArray FloatArray ShortArray UInt ULong UByte UShort List MutableList Set MutableSet Map "
    "MutableMap Collection MutableCollection Iterable MutableIterable Iterator Sequence Pair Triple StringBuilder Suppress Deprecated "
    "ReplaceWith JvmStatic JvmField JvmOverloads JvmName JvmSynthetic Throws Volatile Synchronized OptIn println print require "
    "requireNotNull check checkNotNull error TODO listOf mutableListOf setOf mutableSetOf mapOf mutableMapOf emptyList emptySet emptyMap "
    "arrayOf intArrayOf byteArrayOf arrayOfNulls listOfNotNull hashMapOf hashSetOf arrayListOf lazy repeat buildString buildList buildMap "
    "sequenceOf maxOf minOf lazyOf synchronized".split()
)
_TESTS: Final = re.compile(
    r"@(?:[\w.]+\.)?(?:Test|ParameterizedTest|RepeatedTest|TestFactory|TestTemplate|Theory|BeforeTest|AfterTest)\b"
)
_TEST_CLASS: Final = re.compile(r"(?:Test[A-Z]\w*|\w*(?:Test|Tests|TestCase|IT))")
_LIKE_AN_OPERATOR: Final = re.compile(rb"^([ \t]*i)n(?=[0-9A-Z_])", re.MULTILINE)
_TYPE_NODES: Final = frozenset(
    {"user_type", "nullable_type", "non_nullable_type", "parenthesized_type", "function_type"}
)
_ACCESSORS: Final = frozenset({"getter", "setter"})


def _one(node: tree_sitter.Node, *kinds: str) -> tree_sitter.Node | None:
    return next((child for child in node.named_children if child.type in kinds), None)


def _dotted(extraction: Extraction, node: tree_sitter.Node) -> str:
    return "".join(extraction.text(node).replace("`", "").split())


def _package(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = _one(node, "qualified_identifier", "identifier")
    if name is not None:
        extraction.add_package(_dotted(extraction, name))


def _import(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``import a.b`` brings a type, a function or a property ``b``; ``import a.b as c`` under the name ``c``."""
    path = _one(node, "qualified_identifier")
    if path is None:
        return
    dotted = _dotted(extraction, path)
    if any(child.type == "*" for child in node.children):
        extraction.add_import(path, dotted, "*")
        return
    module, _, name = dotted.rpartition(".")
    alias = _one(node, "identifier")
    extraction.add_import(
        path.named_children[-1], module, name, extraction.text(alias).strip("`") if alias is not None else name
    )


def _class(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is None:
        extraction.visit(*node.named_children)
        return
    words = {child.type for child in node.children}
    modifiers = _one(node, "modifiers")
    said = {extraction.text(child) for child in modifiers.named_children} if modifiers is not None else set()
    kind = "interface" if "interface" in words else "enum" if "enum" in said or "enum" in words else "class"
    kind = "annotation" if "annotation" in said else kind
    inside = [child for child in node.named_children if child.id != name.id]
    extraction.define(node, name, kind, text=extraction.text(name).strip("`"), inside=inside, is_class=True)


def _object(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name") or _one(node, "identifier")
    is_companion = node.type == "companion_object"
    if name is None and not is_companion:
        extraction.visit(*node.named_children)
        return
    inside = [child for child in node.named_children if name is None or child.id != name.id]
    word = next((child for child in node.children if child.type in ("companion", "object")), node)
    extraction.define(
        node, name or word, "object", text="" if name is not None else "Companion", inside=inside, is_class=True,
        is_shared=is_companion,
    )  # fmt: skip


def _bases(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Note the bases of a class; the arguments of their constructors and delegates are expressions of their own."""
    for one in node.named_children:
        inner = one.named_children[:1] if one.type == "delegation_specifier" else [one]
        if inner and inner[0].type in ("constructor_invocation", "explicit_delegation"):
            inner = inner[0].named_children
        base = next((child for child in inner if child.type in _TYPE_NODES), None)
        if base is not None and extraction.around:
            extraction.extend(base)
            inner = [child for child in inner if child.id != base.id]
        extraction.visit(*inner)


def _object_literal(extraction: Extraction, node: tree_sitter.Node) -> None:
    bases = _one(node, "delegation_specifiers")
    first = bases.named_children[0] if bases is not None and bases.named_child_count else None
    while first is not None and first.type not in _TYPE_NODES:
        first = first.named_children[0] if first.named_child_count else None
    extraction.open_class(first)
    extraction.visit(*node.named_children)


def _class_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define the property that a parameter of a constructor declares with ``val`` or ``var``; else bind it."""
    name, declared = _one(node, "identifier"), _one(node, *_TYPE_NODES)
    if name is None:
        return
    if any(child.type in ("val", "var") for child in node.children):
        extraction.define(node, name, "property", text=extraction.text(name).strip("`"), type_=declared)
    else:
        extraction.bind(extraction.text(name), None, declared)
    extraction.visit(*(child for child in node.named_children if child.id != name.id))


def _receiver(extraction: Extraction, node: tree_sitter.Node, end: int) -> tuple[tree_sitter.Node | None, str]:
    """Return the type that a function or property extends, and its name: the type that stands before its own name."""
    found = next((child for child in node.named_children if child.type in _TYPE_NODES and child.start_byte < end), None)
    bare = found
    while bare is not None and bare.type in ("nullable_type", "parenthesized_type", "non_nullable_type"):
        bare = _one(bare, *_TYPE_NODES)
    if bare is None or bare.type != "user_type":
        return found, ""
    return found, extraction.text([child for child in bare.named_children if child.type == "identifier"][-1])


def _function(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is None:
        extraction.open_scope(is_function=True)
        extraction.visit(*node.named_children)
        return
    receiver, extended = _receiver(extraction, node, name.start_byte)
    children = [child for child in node.named_children if child.id != name.id]
    declared = next(
        (child for child in children if child.type in _TYPE_NODES and child.start_byte > name.start_byte), None
    )
    body = _one(node, "function_body")
    value = next((child for child in body.named_children if child.type != "block"), None) if body is not None else None
    is_member = bool(extraction.around)
    extraction.define(
        node, name, "method" if is_member else "function", text=extraction.text(name).strip("`"), inside=children, type_=declared,
        value=value if declared is None else None, outer=extended,
    )  # fmt: skip
    if receiver is not None:
        extraction.open_receiver(receiver)


def _property(extraction: Extraction, node: tree_sitter.Node) -> None:
    declared = _one(node, "variable_declaration")
    if declared is None or not declared.named_children:  # ``val (a, b) = pair``, or broken
        pattern = _one(node, "multi_variable_declaration")
        if pattern is not None:
            extraction.bind_pattern(pattern)
        extraction.visit(*(child for child in node.named_children if pattern is None or child.id != pattern.id))
        return
    name = next((child for child in declared.named_children if child.type == "identifier"), declared)
    type_ = _one(declared, *_TYPE_NODES)
    value = _value(extraction, node, declared)
    others = [child for child in node.named_children if child.id != declared.id]
    if extraction.is_in_function:
        extraction.bind(extraction.text(name).strip("`"), value, type_)
        extraction.visit(*declared.named_children[1:], *others)
        return
    receiver, extended = _receiver(extraction, node, declared.start_byte)
    extraction.define(
        node, name, "property", text=extraction.text(name).strip("`"), inside=[*others, type_], type_=type_, value=value,
        outer=extended,
    )  # fmt: skip
    if receiver is not None:
        extraction.open_receiver(receiver)


def _value(extraction: Extraction, node: tree_sitter.Node, declared: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the expression that gives a property its value: behind ``=``, in its getter, or the last of ``by lazy { }``."""
    for child in node.named_children:
        if child.start_byte <= declared.start_byte or child.type in ("type_constraints", "setter", "modifiers"):
            continue
        if child.type == "getter":
            body = _one(child, "function_body")
            return next((one for one in body.named_children if one.type != "block"), None) if body is not None else None
        if child.type == "property_delegate":
            return _last_of_lazy(extraction, child)
        return child
    return None


def _last_of_lazy(extraction: Extraction, node: tree_sitter.Node) -> tree_sitter.Node | None:
    call = _one(node, "call_expression")
    lambda_ = _one(call, "annotated_lambda") if call is not None else None
    body = _one(lambda_, "lambda_literal") if lambda_ is not None else None
    if call is None or body is None or not body.named_child_count or not extraction.text(call).startswith("lazy"):
        return None
    return body.named_children[-1]


def _accessor(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope(is_function=True)
    parameter = _one(node, "identifier")
    if parameter is not None:
        extraction.bind(extraction.text(parameter))
    extraction.visit(*(child for child in node.named_children if parameter is None or child.id != parameter.id))


def _constructor(extraction: Extraction, node: tree_sitter.Node) -> None:
    word = next((child for child in node.children if child.type == "constructor"), node)
    extraction.define(node, word, "constructor", text="constructor", inside=node.named_children)


def _enum_entry(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = _one(node, "identifier")
    if name is not None:
        inside = [child for child in node.named_children if child.id != name.id]
        extraction.define(node, name, "value", inside=inside, is_instance=True)


def _alias(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("type")
    if name is not None:
        aliased = _one(node, *_TYPE_NODES)
        others = [child for child in node.named_children if child.id != name.id]
        extraction.define(node, name, "type", type_=aliased, inside=others)


def _lambda(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope(is_function=True)
    extraction.visit(*node.named_children)


def _loop(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope()
    extraction.visit(*node.named_children)


def _catch(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_scope()
    name, declared = _one(node, "identifier"), _one(node, *_TYPE_NODES)
    if name is not None:
        extraction.bind(extraction.text(name), None, declared)
    extraction.visit(*(child for child in node.named_children if name is None or child.id != name.id))


def _subject(extraction: Extraction, node: tree_sitter.Node) -> None:
    children: Sequence[tree_sitter.Node] = node.named_children
    declared = _one(node, "variable_declaration")
    if declared is not None and declared.named_child_count:
        extraction.bind(extraction.text(declared.named_children[0]), children[-1], _one(declared, *_TYPE_NODES))
        children = [child for child in children if child.id != declared.id]
    extraction.visit(*children)


def _without_label(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit what is behind a label; the label itself is no name: ``return@run x``, ``break@loop``."""
    label = node.child_by_field_name("label")
    children = [child for child in node.named_children if label is None or child.id != label.id]
    if node.type == "labeled_expression" and extraction.text(node).startswith(("break@", "continue@")):
        return
    extraction.visit(*children)


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, bound = _one(node, "identifier"), _one(node, *_TYPE_NODES)
    if name is not None:
        extraction.bind(extraction.text(name), bound)
    extraction.visit(bound)


def _infix(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit ``a to b``. The grammar takes some classes for such expressions: ``@A(1) open class Name { }``."""
    parts: list[tree_sitter.Node] = []
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type == "infix_expression":
            waiting += at.named_children[::-1]
        else:
            parts.append(at)
    words = [extraction.text(part) if part.type == "identifier" else "" for part in parts]
    at_word = words.index("class") if "class" in words[:-1] else -1
    name = parts[at_word + 1] if at_word >= 0 else node
    inside: list[tree_sitter.Node] = []
    while name.type == "call_expression" and name.named_child_count:
        for one in name.named_children[1:]:
            body = _one(one, "lambda_literal") if one.type == "annotated_lambda" else None
            inside += body.named_children if body is not None else [one]
        name = name.named_children[0]
    if at_word < 0 or name.type != "identifier":
        extraction.refer(node)
        return
    kind = next((word for word in ("enum", "annotation") if word in words[:at_word]), "class")
    extraction.define(node, name, kind, inside=inside, is_class=True)
    extraction.visit(*parts[at_word + 2 :])


def _repair(data: bytes) -> bytes:
    """Rename what begins a line like an operator: the grammar takes ``in1`` for ``in 1``."""
    return _LIKE_AN_OPERATOR.sub(rb"\1x", data)


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    modifiers = next((child for child in node.named_children[:1] if child.type == "modifiers"), None)
    if modifiers is None:
        return True
    said = [extraction.text(child) for child in modifiers.named_children if child.type == "visibility_modifier"]
    return not {"private", "internal"} & set(said)


def _is_test(name: str, kind: str, decorations: str) -> bool:
    if kind == "class":
        return _TEST_CLASS.fullmatch(name) is not None
    return kind in ("method", "function") and _TESTS.search(decorations) is not None


KOTLIN: Final = Language(
    "kotlin", (".kt", ".kts"), "tree_sitter_kotlin", "language",
    {"function_declaration": Naming("function")},
    functions=frozenset({"anonymous_function", "anonymous_initializer"}),
    scopes=frozenset({"block", "when_expression", "while_statement", "do_while_statement"}),
    parameters=frozenset({"lambda_parameters"}),
    has_member_scopes=True,
    called_names=frozenset({"identifier"}),
    marks_calls=True,
    has_called_values=True,
    has_extensions=True,
    meta_members=frozenset({"class"}),
    paths=frozenset({"user_type"}),
    bodies=frozenset({"function_body", "class_body", "enum_class_body", "block"}),
    binds={
        "parameter": (Bind(0, type=1),),
        "variable_declaration": (Bind(0, type=1),),
    },
    accesses={
        "navigation_expression": Access(0, -1),
        "call_expression": Access(0, step="()", is_merged=True),
        "infix_expression": Access(0, 1, "()"),
        "index_expression": Access(0, step="[]"),
        "callable_reference": Access(-1, step="()"),
    },
    transparent={"parenthesized_expression": 0, "unary_expression": "argument"},
    casts={"as_expression": "right"},
    enters={"value_argument": (-1,)},
    skips=frozenset({"label", "file_annotation", "use_site_target"}),
    comments=frozenset({"line_comment", "block_comment"}),
    literals=frozenset(
        {"string_literal", "multiline_string_literal", "character_literal", "number_literal", "float_literal", "is_expression",
         "in_expression", "range_expression", "collection_literal"}
    ),
    selves=frozenset({"this_expression"}),
    supers=frozenset({"super_expression"}),
    type_wrappers={"nullable_type": 0, "parenthesized_type": 0, "non_nullable_type": 0},
    builtins=_BUILTINS,
    special={
        "package_header": _package,
        "import": _import,
        "class_declaration": _class,
        "object_declaration": _object,
        "companion_object": _object,
        "delegation_specifiers": _bases,
        "delegation_specifier": _bases,
        "infix_expression": _infix,
        "object_literal": _object_literal,
        "class_parameter": _class_parameter,
        "function_declaration": _function,
        "property_declaration": _property,
        "getter": _accessor,
        "setter": _accessor,
        "secondary_constructor": _constructor,
        "enum_entry": _enum_entry,
        "type_alias": _alias,
        "lambda_literal": _lambda,
        "for_statement": _loop,
        "catch_block": _catch,
        "when_subject": _subject,
        "return_expression": _without_label,
        "labeled_expression": _without_label,
        "type_parameter": _type_parameter,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    annotations=frozenset({"annotation"}),
    repair=_repair,
)  # fmt: skip
