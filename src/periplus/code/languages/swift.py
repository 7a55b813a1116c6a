"""Swift."""

from __future__ import annotations

__all__ = ["SWIFT"]

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Extraction, Language, Local, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "_ Any AnyObject Never Void print debugPrint fatalError precondition preconditionFailure assert assertionFailure min max abs zip type "
    "stride swap withUnsafePointer withUnsafeMutablePointer withUnsafeBytes withExtendedLifetime numericCast unsafeBitCast newValue oldValue "
    "error true false nil defer objc available discardableResult main escaping autoclosure testable frozen inlinable usableFromInline dynamicMemberLookup "
    "propertyWrapper resultBuilder preconcurrency Sendable unchecked retroactive convention objcMembers IBOutlet IBAction".split()
)
_WRAPPERS: Final = frozenset({"Optional", "Result", "Published", "Binding", "EventLoopFuture"})
_LISTS: Final = frozenset({"Array", "Set", "ContiguousArray", "ArraySlice", "AsyncStream", "AsyncThrowingStream"})
_TEST_ATTRIBUTE: Final = re.compile(r"@Test\b")
_TEST: Final = re.compile(r"test(?![a-z])")
_NAMELESS: Final = ("$0", "$1", "$2", "$3")
_PRIVATE: Final = ("private", "fileprivate")


def _import(extraction: Extraction, node: tree_sitter.Node) -> None:
    path = next((child for child in node.named_children if child.type == "identifier"), None)
    if path is None:
        return
    parts = [extraction.text(part) for part in path.named_children]
    first = path.named_children[0]
    extraction.add_import(first, parts[0], "", parts[0])
    if len(parts) > 1:  # import struct Module.Name
        extraction.add_import(path.named_children[-1], parts[0], parts[-1], parts[-1])


def _begin_type(extraction: Extraction, node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """Bind ``Self`` and note the bases. What an extension extends is one too, so that it has the members of that."""
    extraction.bind_instance("Self", is_class=True)
    name = node.child_by_field_name("name")
    written = [child for child in node.named_children if child.type == "inheritance_specifier"]
    bases = [base for child in written if (base := child.child_by_field_name("inherits_from")) is not None]
    if name is not None and name.type == "user_type":
        bases.insert(0, name)
    extraction.extend(*bases)
    return (*written, *bases)


def _begin_function(extraction: Extraction, node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """Note the type that is returned: the second of the nodes in the field of the name."""
    types = [child for child in node.children_by_field_name("name") if child.type.endswith("type")]
    if types:
        extraction.declare(types[-1])
    return ()


def _begin_alias(extraction: Extraction, node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    types = node.children_by_field_name("name")[1:]
    if types:
        extraction.declare(types[0])
    return ()


def _special_method(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define what has a keyword for its name: ``init``, ``deinit``, ``subscript``."""
    kind = "constructor" if node.type == "init_declaration" else "method"
    word = node.type.partition("_")[0]
    keyword = next((child for child in node.children if child.type == word), None)
    types = [child for child in node.children_by_field_name("name") if child.is_named]
    body = node.child_by_field_name("body")
    inside = [child for child in node.named_children if body is None or child.id != body.id]
    extraction.define(
        node, keyword or node, kind, text=word, body=body, inside=inside, type_=types[-1] if types else None
    )


def _parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    names = node.children_by_field_name("name")
    type_ = names[1] if len(names) > 1 else None
    if names:
        extraction.bind(extraction.text(names[0]), None, type_)
    extraction.visit(type_)


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    bound = node.child_by_field_name("name")
    for child in node.named_children[:1]:
        extraction.bind(extraction.text(child), bound)
    extraction.visit(bound)


def _user_type(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Refer to a type; ``Outer.Inner`` has its names side by side."""
    names: list[str] = []
    for child in node.named_children:
        if child.type == "type_identifier":
            names.append(extraction.text(child))
            if names[0] != "Self" or len(names) > 1:
                extraction.refer_to(child, names, is_call=False, is_certain=True, is_path=False)
        else:
            extraction.visit(child)


def _unwrap(extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """Return the type that ``Optional<T>`` wraps, or that ``Array<T>`` lists."""
    names = [child for child in node.named_children if child.type == "type_identifier"]
    arguments = node.named_children[-1] if node.named_children else node
    name = extraction.text(names[-1]) if names else ""
    if arguments.type == "type_arguments" and (name in _WRAPPERS or name in _LISTS):
        return arguments.child_by_field_name("name"), name in _LISTS
    return (names[-1] if names else None), False


def _unwrap_dictionary(_extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    types = node.named_children
    return (types[-1] if types else None), True


def _property(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define the properties of a type and the values of a file; those of a function are local."""
    entries: list[tuple[tree_sitter.Node, list[tree_sitter.Node]]] = []
    before: list[tree_sitter.Node] = []
    for child in node.named_children:
        if child.type == "pattern":
            entries.append((child, []))
        elif entries:
            entries[-1][1].append(child)
        elif child.type != "value_binding_pattern":
            before.append(child)
    is_local = extraction.is_in_function and not extraction.binds("Self")
    kind = "property" if extraction.binds("Self") else "value"
    extraction.visit(*before)
    for pattern, inside in entries:
        name = pattern.child_by_field_name("bound_identifier")
        declared = next((one.named_child(0) for one in inside if one.type == "type_annotation"), None)
        value = next((one for one in inside if one.type not in _NO_VALUES), None)
        if is_local or name is None:
            _bind(extraction, pattern, value, declared, *inside)
        else:
            extraction.define(node, name, kind, type_=declared, value=value, inside=inside if len(entries) == 1 else ())

    if len(entries) > 1 and not is_local:
        extraction.visit(*(one for pattern, inside in entries if _is_plain(pattern) for one in inside))


def _is_plain(pattern: tree_sitter.Node) -> bool:
    return pattern.child_by_field_name("bound_identifier") is not None


def _protocol_property(extraction: Extraction, node: tree_sitter.Node) -> None:
    pattern = node.child_by_field_name("name")
    name = pattern.child_by_field_name("bound_identifier") if pattern is not None else None
    annotation = next((child for child in node.named_children if child.type == "type_annotation"), None)
    if name is not None:
        type_ = annotation.named_child(0) if annotation is not None else None
        extraction.define(node, name, "property", type_=type_, inside=[annotation] if annotation is not None else [])


def _enum_entry(extraction: Extraction, node: tree_sitter.Node) -> None:
    names = [child for child in node.children_by_field_name("name") if child.type == "simple_identifier"]
    for name in names:
        extraction.define(node, name, "value")
    known = {name.id for name in names}
    extraction.visit(*(child for child in node.named_children if child.id not in known))


def _labelled_types(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit the types of a tuple or an enum case, not their labels."""
    extraction.visit(*(child for child in node.named_children if child.type != "simple_identifier"))


def _taken_apart(
    extraction: Extraction, pattern: tree_sitter.Node, names: list[str], others: list[tree_sitter.Node], *, binds: bool
) -> None:
    """Gather the names that ``pattern`` binds; the name of an enum case is a member of an unknown class."""
    waiting = [(pattern, binds)]
    while waiting:
        node, is_bound = waiting.pop()
        children = node.children
        is_bound = is_bound or any(child.type == "value_binding_pattern" for child in children)
        is_case = any(child.type == "pattern" for child in children)
        last = ""
        for child in children:
            if child.type == "pattern":
                waiting.append((child, is_bound))
            elif child.type == "simple_identifier":
                if last == "." or is_case:
                    extraction.reach(child, None)
                elif is_bound:
                    names.append(extraction.text(child))
                else:
                    others.append(child)
            elif child.is_named and child.type not in ("value_binding_pattern", "wildcard_pattern"):
                others.append(child)
            last = child.type


def _bind(
    extraction: Extraction,
    pattern: tree_sitter.Node,
    value: tree_sitter.Node | None,
    declared: tree_sitter.Node | None,
    *before: tree_sitter.Node | None,
    is_element: bool = False,
) -> None:
    names: list[str] = []
    others: list[tree_sitter.Node] = []
    is_whole = [child.type for child in pattern.named_children] == ["simple_identifier"]
    _taken_apart(extraction, pattern, names, others, binds=True)
    found = [Local(name, value, declared, is_element) if is_whole else Local(name) for name in names]
    extraction.bind_after(found, *others, *before)


def _conditions(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the names of ``if let``, ``guard let`` and ``while let``; but for ``guard`` they end with the statement."""
    if node.type != "guard_statement":
        extraction.open_scope()
    clauses: list[tuple[list[Local], list[tree_sitter.Node]]] = [([], [])]
    after: list[tree_sitter.Node] = []
    name = ""
    last = ""
    binds = False
    conditions = {child.id for child in node.children_by_field_name("condition")}
    bound_names = {child.id for child in node.children_by_field_name("bound_identifier")}
    for child in node.children:
        kind = child.type
        binds = kind == "value_binding_pattern" or (binds and kind != "=")
        is_condition = child.id in conditions
        if child.id in bound_names:
            name = extraction.text(child)
        elif kind == "simple_identifier" and is_condition and last == ".":
            extraction.reach(child, None)
        elif kind == "pattern":
            names: list[str] = []
            _taken_apart(extraction, child, names, clauses[-1][1], binds=binds)
            clauses[-1][0].extend(Local(one) for one in names)
        elif is_condition and child.is_named and kind != "value_binding_pattern":
            if name and name != "self":
                clauses[-1][0].append(Local(name, child))
            name = ""
            clauses[-1][1].append(child)
            clauses.append(([], []))
        elif child.is_named and kind != "value_binding_pattern":
            after.append(child)
        last = kind
    extraction.visit(*after)
    extraction.bind_in_order(clauses)


def _for(extraction: Extraction, node: tree_sitter.Node) -> None:
    item, collection = node.child_by_field_name("item"), node.child_by_field_name("collection")
    known = {one.id for one in (item, collection) if one is not None}
    extraction.open_scope()
    extraction.visit(*(child for child in node.named_children if child.id not in known))
    if item is not None:
        _bind(extraction, item, collection, None, collection, is_element=True)
    else:
        extraction.visit(collection)


def _pattern(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the names of a pattern of ``switch`` or ``catch``."""
    names: list[str] = []
    others: list[tree_sitter.Node] = []
    _taken_apart(extraction, node, names, others, binds=False)
    extraction.bind_after([Local(name) for name in names], *others)


def _captured(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is not None and value is not None:
        extraction.bind_after([Local(extraction.text(name), value)], value)


def _prefix(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``.name`` is a member of the type that is expected here."""
    target = node.child_by_field_name("target")
    if target is not None and node.children[0].type == "." and target.type == "simple_identifier":
        extraction.reach(target, None)
    else:
        extraction.visit(target)


def _attribute(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Refer to a wrapper or a macro; attributes of the language begin with a small letter."""
    if node.named_children and extraction.text(node.named_children[0])[:1].isupper():
        extraction.visit(*(child for child in node.named_children if child.type != "simple_identifier"))


def _macro(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Refer to ``#name``, which may be a macro of another package whatever else has its name."""
    for name in node.named_children[:1]:
        extraction.refer_to(name, [extraction.text(name)], is_call=True, is_certain=False, is_path=False)
    extraction.visit(*node.named_children[1:])


def _closure(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Open the scope of a closure; its parameters may be without names."""
    extraction.open(node)
    for name in _NAMELESS:
        extraction.bind(name)


def _transfer(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit what is returned or thrown; the labels of ``break`` and ``continue`` are no names."""
    if node.children and node.children[0].type not in ("break", "continue"):
        extraction.visit(*node.named_children)


def _cast(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit ``x as T``: its value has the class T, but nothing is called."""
    extraction.visit(*node.named_children)


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    modifiers = node.named_child(0) if node.named_child_count else node
    if modifiers.type != "modifiers":
        return True
    return not any(
        child.type == "visibility_modifier" and extraction.text(child) in _PRIVATE for child in modifiers.named_children
    )


def _is_test(name: str, kind: str, decorations: str) -> bool:
    if kind not in ("function", "method"):
        return False
    return (kind == "method" and _TEST.match(name) is not None) or _TEST_ATTRIBUTE.search(decorations) is not None


_NO_VALUES: Final = frozenset(
    {"type_annotation", "computed_property", "willset_didset_block", "type_constraints", "modifiers", "attribute", "comment",
     "multiline_comment"}
)  # fmt: skip
_KINDS: Final = {"class": "class", "struct": "struct", "enum": "enum", "actor": "class", "extension": "extension"}
SWIFT: Final = Language(
    "swift", (".swift",), "tree_sitter_swift", "language",
    {
        "class_declaration": Naming("class", is_class=True, separator=".", kinds=_KINDS, kind_field="declaration_kind", begin=_begin_type),
        "protocol_declaration": Naming("protocol", is_class=True, begin=_begin_type),
        "function_declaration": Naming("function", begin=_begin_function),
        "protocol_function_declaration": Naming("method", begin=_begin_function),
        "associatedtype_declaration": Naming("type"),
        "typealias_declaration": Naming("type", begin=_begin_alias),
        "macro_declaration": Naming("macro", ("~simple_identifier",)),
    },
    functions=frozenset(
        {"function_declaration", "protocol_function_declaration", "lambda_literal", "computed_property", "computed_getter", "computed_setter",
         "willset_clause", "didset_clause"}
    ),
    scopes=frozenset({"switch_entry", "do_statement", "catch_block", "repeat_while_statement"}),
    has_implicit_this=True,
    names=frozenset({"simple_identifier", "type_identifier"}),
    accesses={
        "navigation_expression": Access("target", "suffix", sigil="."),
        "call_expression": Access(0, step="()", is_subscript=True),
        "constructor_expression": Access("constructed_type", step="()"),
        "as_expression": Access("name", step="()"),
    },
    transparent={
        "try_expression": "expr", "await_expression": "expr", "postfix_expression": "target", "tuple_expression": "value", "user_type": 0,
        "directly_assignable_expression": 0, "optional_type": "wrapped",
    },
    skips=frozenset({"value_argument_label", "directive", "availability_condition", "line_str_text", "custom_operator", "operator_declaration"}),
    comments=frozenset({"comment", "multiline_comment"}),
    literals=frozenset(
        {"line_string_literal", "multi_line_string_literal", "raw_string_literal", "integer_literal", "real_literal", "boolean_literal",
         "array_literal", "dictionary_literal", "lambda_literal", "hex_literal", "regex_literal"}
    ),
    nulls=frozenset({"nil_literal"}),
    selves=frozenset({"self_expression"}),
    supers=frozenset({"super_expression"}),
    type_wrappers={
        "optional_type": "wrapped", "opaque_type": 0, "existential_type": 0, "protocol_composition_type": 0, "type_annotation": "name",
        "parenthesized_type": 0, "inheritance_specifier": "inherits_from",
    },
    list_types={"array_type": "name"},
    unwraps={"user_type": _unwrap, "dictionary_type": _unwrap_dictionary},
    builtins=_BUILTINS,
    special={
        "import_declaration": _import,
        "init_declaration": _special_method,
        "deinit_declaration": _special_method,
        "subscript_declaration": _special_method,
        "parameter": _parameter,
        "lambda_parameter": _parameter,
        "type_parameter": _type_parameter,
        "user_type": _user_type,
        "property_declaration": _property,
        "protocol_property_declaration": _protocol_property,
        "enum_entry": _enum_entry,
        "enum_type_parameters": _labelled_types,
        "tuple_type_item": _labelled_types,
        "if_statement": _conditions,
        "guard_statement": _conditions,
        "while_statement": _conditions,
        "for_statement": _for,
        "pattern": _pattern,
        "capture_list_item": _captured,
        "prefix_expression": _prefix,
        "as_expression": _cast,
        "attribute": _attribute,
        "control_transfer_statement": _transfer,
        "lambda_literal": _closure,
        "macro_invocation": _macro,
    },
    is_exported=_is_exported,
    is_test=_is_test,
)  # fmt: skip
