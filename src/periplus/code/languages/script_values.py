"""Values of JavaScript and TypeScript: functions, classes, objects and patterns to definitions and local names."""

from __future__ import annotations

__all__ = [
    "FUNCTION_VALUES",
    "MODULE",
    "bind_parameters",
    "bind_pattern",
    "declarator",
    "declare_class",
    "define_value",
    "export_as",
    "exports_path",
    "field",
    "first_child",
    "first_named",
    "load_of",
    "loaded_module",
    "plain_name",
    "string_of",
    "told_value",
    "visit_function",
    "without",
]

from typing import TYPE_CHECKING, Final, Literal

from periplus.code.languages.table import Declaration, Expected, Extraction

if TYPE_CHECKING:
    import tree_sitter

MODULE: Final = "module"
_COMPONENT_MAKERS: Final = frozenset({"memo", "forwardRef", "observer"})
_COMPONENT_TYPES: Final = frozenset({"FC", "FunctionComponent", "VFC", "SFC"})
_REACT_CLASSES: Final = frozenset({"Component", "PureComponent"})
FUNCTION_VALUES: Final = frozenset({"arrow_function", "function_expression", "generator_function"})


def field(node: tree_sitter.Node | None, name: str) -> tree_sitter.Node | None:
    return node.child_by_field_name(name) if node is not None else None


def first_named(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the first named child."""
    children = node.named_children
    return children[0] if children else None


def export_as(extraction: Extraction, name: str, local: str) -> None:
    """Note that others see the local name ``local`` as ``name``."""
    extraction.mark_exported(local)
    if name != local:
        extraction.add_export(name, local)


def string_of(extraction: Extraction, node: tree_sitter.Node | None) -> str:
    """Return the text of a string literal; empty for another expression."""
    if node is None or node.type not in ("string", "template_string"):
        return ""
    text = extraction.text(node)[1:]
    return text[:-1] if text[-1:] in "\"'`" else text


def plain_name(extraction: Extraction, node: tree_sitter.Node) -> str:
    """Return the name at ``node``, which may be written as a string."""
    return string_of(extraction, node) or extraction.text(node)


def first_child(node: tree_sitter.Node, kind: str) -> tree_sitter.Node | None:
    return next((child for child in node.children if child.type == kind), None)


def without(node: tree_sitter.Node, *left_out: tree_sitter.Node | None) -> list[tree_sitter.Node]:
    ids = {one.id for one in left_out if one is not None}
    return [child for child in node.named_children if child.id not in ids]


def loaded_module(extraction: Extraction, call: tree_sitter.Node) -> str:
    """Return the module that ``require("m")`` or ``import("m")`` loads."""
    function = field(call, "function")
    if function is None or (function.type != "import" and extraction.text(function) != "require"):
        return ""
    arguments = field(call, "arguments")
    module = string_of(extraction, first_named(arguments)) if arguments is not None else ""
    if module and function.type != "import":
        extraction.add_package(MODULE)
    return module


def load_of(extraction: Extraction, value: tree_sitter.Node | None) -> tuple[str, str]:
    """Return module and name for ``require("m")``, ``require("m").name`` and the same with ``await import``; empty for another value."""
    name = ""
    for _ in range(4):
        if value is None:
            break
        if value.type == "call_expression":
            return loaded_module(extraction, value), name
        if value.type == "member_expression" and not name:
            named = field(value, "property")
            name = extraction.text(named) if named is not None else ""
            value = field(value, "object")
        elif value.type in ("await_expression", "parenthesized_expression"):
            value = first_named(value)
        else:
            break
    return "", ""


def define_value(
    extraction: Extraction,
    node: tree_sitter.Node,
    name: tree_sitter.Node,
    value: tree_sitter.Node | None,
    *,
    text: str = "",
    kind: str = "value",
    outer: int = -1,
    is_bound: bool = True,
    type_: tree_sitter.Node | None = None,
    path: str = "",
) -> None:
    """Define ``name`` as what ``value`` is: a function, a class, an object with members, or another value."""
    wrapped = _component(extraction, value) if value is not None and value.type == "call_expression" else None
    if wrapped is not None and value is not None:
        extraction.visit(field(value, "function"), field(value, "type_arguments"))
        value = wrapped
    shape = Declaration(kind, text, outer, None, type_, is_bound=is_bound, path=path)
    vtype = value.type if value is not None else ""
    if value is None:
        extraction.declare_as(node, name, shape, (type_,))
    elif vtype in FUNCTION_VALUES or vtype in ("function_declaration", "generator_function_declaration"):
        is_member = outer >= 0 or bool(path) or extraction.is_class_body
        body = field(value, "body")
        returned = body if vtype == "arrow_function" and body is not None and body.type != "statement_block" else None
        shape = shape._replace(
            kind="method" if is_member else "function",
            type=field(value, "return_type"),
            value=returned,
            self=_self_of(extraction, vtype, outer, path),
            is_generic=True,
        )
        properties = _expect_type(extraction, value, type_) if type_ is not None else None
        extraction.declare_as(node, name, shape, (type_,))
        if properties is not None:
            extraction.note_parameter("(0)", properties)
        own = field(value, "name")
        if own is not None and own.id != name.id and extraction.text(own) != (text or extraction.text(name)):
            extraction.declare_as(value, own, Declaration("function"), None)
        visit_function(extraction, value, value, own)
    elif vtype in ("class", "class_declaration"):
        declare_class(extraction, node, name, value, shape._replace(kind="class"))
    elif vtype == "object":
        if type_ is not None:
            extraction.expect(value, type_=type_)
        shape = shape._replace(is_class=True, self="own")
        extraction.declare_as(node, name, shape, (type_, value))
    else:
        if type_ is not None:
            extraction.expect(value, type_=type_)
        extraction.declare_as(node, name, shape._replace(value=value), (type_, value))


def _self_of(extraction: Extraction, kind: str, outer: int, path: str) -> Literal["same", "own", "outer", "none"]:
    """Return the instance inside of a function that is put somewhere."""
    if kind == "arrow_function" or (extraction.is_class_body and outer < 0 and not path):
        return "same"
    return "outer" if outer >= 0 else "none" if path else "own"


def _expect_type(extraction: Extraction, value: tree_sitter.Node, type_: tree_sitter.Node) -> tree_sitter.Node | None:
    """Expect of a function what its declared type says; return the type of the properties of a component of React."""
    inner = first_named(type_)
    if inner is not None and inner.type == "generic_type":
        name, arguments = field(inner, "name"), field(inner, "type_arguments")
        if name is not None and arguments is not None and extraction.text(name).rpartition(".")[2] in _COMPONENT_TYPES:
            extraction.expect_parameter(value, arguments.named_children[0])
            return arguments.named_children[0]
    extraction.expect(value, type_=type_)
    return None


def told_value(value: tree_sitter.Node) -> tree_sitter.Node:
    """Return the part of ``a ?? b`` and ``c ? a : b`` whose class tells that of the whole."""
    for _ in range(4):
        if value.type == "ternary_expression":
            parts = (field(value, "consequence"), field(value, "alternative"))
        elif value.type == "binary_expression":
            parts = (
                (field(value, "left"), None)
                if (field(value, "operator") or value).type in ("??", "||")
                else (None, None)
            )
        elif value.type == "parenthesized_expression":
            parts = (first_named(value), None)
        else:
            break
        told = next((one for one in parts if one is not None and one.type not in ("null", "undefined", "object")), None)
        if told is None:
            break
        value = told
    return value


def _component(extraction: Extraction, value: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the function that ``memo(…)`` or ``forwardRef(…)`` wraps; None for another value."""
    for _ in range(3):
        callee, arguments = field(value, "function"), field(value, "arguments")
        if callee is None or arguments is None or extraction.text(callee).rpartition(".")[2] not in _COMPONENT_MAKERS:
            return None
        inner = first_named(arguments)
        if inner is None:
            return None
        if inner.type in FUNCTION_VALUES:
            declared = field(value, "type_arguments")
            if declared is not None and (own := declared.named_children):
                extraction.expect_parameter(inner, own[-1])
            return inner
        value = inner
    return None


def visit_function(
    extraction: Extraction, node: tree_sitter.Node, expected: tree_sitter.Node, *left_out: tree_sitter.Node | None
) -> None:
    """Bind the parameters of ``node``, whose scope was opened, and visit it; its parameters are what is expected of ``expected``."""
    parameters, parameter, body = field(node, "parameters"), field(node, "parameter"), field(node, "body")
    type_ = field(node, "return_type")
    if type_ is not None:
        extraction.set_return(type_)
    if body is not None and body.type != "statement_block" and (returned := extraction.expected_return()) is not None:
        extraction.expect(body, of=returned)
    left = (field(node, "name"), parameters, parameter, *left_out)
    extraction.visit(*without(node, *left))
    if parameter is not None:
        extraction.bind_expected(extraction.text(parameter), extraction.expected_parameter(expected, 0))
    if parameters is not None:
        bind_parameters(extraction, parameters, expected)


def bind_parameters(extraction: Extraction, parameters: tree_sitter.Node, function: tree_sitter.Node | None) -> None:
    """Bind parameters; those without a type are what is expected of those of ``function``."""
    for position, one in enumerate(child for child in parameters.named_children if child.type != "comment"):
        if one.type in ("required_parameter", "optional_parameter"):
            _bind_parameter(extraction, one, position, function)
            continue
        expected = extraction.expected_parameter(function, position) if function is not None else None
        pattern = field(one, "left") if one.type == "assignment_pattern" else one
        if pattern is not None and pattern.type == "identifier" and expected is not None:
            extraction.bind_expected(extraction.text(pattern), expected)
            extraction.visit(field(one, "right"))
        elif one.type == "decorator":
            extraction.visit(one)
        elif pattern is not None and pattern.type == "object_pattern":
            bind_pattern(extraction, pattern, None, None, of=expected)
            extraction.visit(field(one, "right"))
        else:
            extraction.bind_pattern(one)


def _bind_parameter(
    extraction: Extraction, node: tree_sitter.Node, position: int, function: tree_sitter.Node | None
) -> None:
    pattern, value, type_ = field(node, "pattern"), field(node, "value"), field(node, "type")
    is_rest = pattern is not None and pattern.type == "rest_pattern"
    if type_ is not None:
        step = "(*)" if is_rest else f"({position})"
        extraction.note_parameter(step, type_)
        inner = first_named(type_)
        if inner is not None and inner.type == "function_type" and (own := field(inner, "parameters")) is not None:
            for at, one in enumerate(own.named_children):
                if (declared := field(one, "type")) is not None:
                    extraction.note_parameter(f"{step}({at})", declared)
        if value is not None:
            extraction.expect(value, type_=type_)
    expected = None
    if type_ is None and function is not None:
        expected = extraction.expected_parameter(function, position)
    name = first_named(pattern) if is_rest and pattern is not None else pattern
    if name is not None and name.type == "identifier":
        if type_ is None and value is None:
            extraction.bind_expected(extraction.text(name), expected)
        else:
            extraction.bind(extraction.text(name), value, type_)
        if node.children[0].type in ("accessibility_modifier", "readonly", "override_modifier"):
            extraction.add_member(node, name, "field", type_)
    elif name is not None:
        bind_pattern(extraction, name, None, type_, of=expected)
    extraction.visit(*without(node, pattern))


def declare_class(
    extraction: Extraction, node: tree_sitter.Node, name: tree_sitter.Node, value: tree_sitter.Node, shape: Declaration
) -> None:
    bases: list[tree_sitter.Node] = []
    inside: list[tree_sitter.Node] = []
    react: tree_sitter.Node | None = None
    own = field(value, "name")
    for child in value.named_children:
        if own is not None and child.id == own.id:
            continue
        if child.type not in ("class_heritage", "extends_type_clause"):
            inside.append(child)
            continue
        for clause in [child] if child.type == "extends_type_clause" else child.named_children:
            if clause.type not in ("extends_clause", "implements_clause", "extends_type_clause"):
                bases.append(clause)  # JavaScript: the class itself
                continue
            extended = field(clause, "value")
            if extended is not None and extraction.text(extended).rpartition(".")[2] in _REACT_CLASSES:
                react = field(clause, "type_arguments")
            for one in clause.named_children:
                (inside if one.type == "type_arguments" else bases).append(one)
    extraction.declare_as(node, name, shape._replace(bases=bases, is_class=True), inside)
    if react is not None:
        for told, place in (("props", 0), ("(0)", 0), ("state", 1)):
            if len(react.named_children) > place:
                extraction.note_value(told, None, react.named_children[place])


def declarator(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind or define what ``name = value`` of a declaration names."""
    name, value, type_ = field(node, "name"), field(node, "value"), field(node, "type")
    if name is None:
        extraction.visit(*node.named_children)
        return
    module, member = load_of(extraction, value)
    if module and _bind_loaded(extraction, name, module, member):
        return
    if name.type != "identifier":
        _declare_pattern(extraction, node, name, value, type_)
        return
    inner = _assigned_value(extraction, name, value)
    kind = inner.type if inner is not None else ""
    if extraction.is_in_function and kind not in FUNCTION_VALUES and kind != "class":
        told = told_value(inner) if inner is not None else None
        if extraction.wrapper_of(node) == "variable_declaration":
            extraction.bind_hoisted(extraction.text(name), told, type_)
        else:
            extraction.bind(extraction.text(name), told, type_)
        if type_ is not None and inner is not None:
            extraction.expect(inner, type_=type_)
        extraction.visit(type_, value)
        return
    define_value(extraction, node, name, inner, type_=type_)


def _bind_loaded(extraction: Extraction, name: tree_sitter.Node, module: str, member: str) -> bool:
    """Bind ``name`` to what a module has; False where the pattern says more than that."""
    if name.type == "identifier":
        extraction.add_package(MODULE)
        extraction.add_import(name, module, member, extraction.text(name))
        return True
    if name.type != "object_pattern" or member:
        return False
    keys: list[tuple[tree_sitter.Node, tree_sitter.Node]] = []
    for child in name.named_children:
        key, local = _pattern_key(child)
        if key is None or local is None:
            return False
        keys.append((key, local))
    extraction.add_package(MODULE)
    for key, local in keys:
        extraction.add_import(key, module, extraction.text(key), extraction.text(local))
    return True


def _pattern_key(child: tree_sitter.Node) -> tuple[tree_sitter.Node | None, tree_sitter.Node | None]:
    """Return the key of a part of an object pattern, and the local name bound to it where it is one name."""
    if child.type == "shorthand_property_identifier_pattern":
        return child, child
    if child.type == "object_assignment_pattern":
        left = field(child, "left")
        return (
            (left, left) if left is not None and left.type == "shorthand_property_identifier_pattern" else (None, None)
        )
    if child.type != "pair_pattern":
        return None, None
    key, value = field(child, "key"), field(child, "value")
    if value is not None and value.type == "assignment_pattern":
        value = field(value, "left")
    if key is None or key.type != "property_identifier":
        return None, None
    return key, value if value is not None and value.type == "identifier" else None


def _declare_pattern(
    extraction: Extraction,
    node: tree_sitter.Node,
    pattern: tree_sitter.Node,
    value: tree_sitter.Node | None,
    type_: tree_sitter.Node | None,
) -> None:
    if not extraction.is_in_function and not extraction.is_class_body and pattern.type == "object_pattern":
        others = [value, type_]
        for child in pattern.named_children:
            key, local = _pattern_key(child)
            if local is not None:
                extraction.declare_as(node, local, Declaration("value"), None)
                if child.type == "object_assignment_pattern":
                    others.append(field(child, "right"))
            else:
                extraction.bind_pattern(child)
            if key is not None:
                extraction.refer_members([(key, "")], value, type_)
        extraction.visit(*others)
        return
    state = field(value, "type_arguments") if pattern.type == "array_pattern" and value is not None else None
    first = first_named(pattern)
    if state is not None and first is not None and first.type == "identifier" and state.named_children:
        extraction.bind(extraction.text(first), None, state.named_children[0])  # ``const [a, setA] = useState<T>()``
    bind_pattern(extraction, pattern, told_value(value) if value is not None else None, type_)
    extraction.visit(value, type_)


def bind_pattern(
    extraction: Extraction,
    pattern: tree_sitter.Node,
    value: tree_sitter.Node | None,
    type_: tree_sitter.Node | None,
    *,
    of: Expected | None = None,
) -> None:
    """Bind the names of a pattern; keys of an object pattern are members of ``value``, or of ``type_``."""
    if pattern.type != "object_pattern":
        extraction.bind_pattern(pattern)
        return
    keys: list[tuple[tree_sitter.Node, str]] = []
    written = _written_types(extraction, type_)
    for child in pattern.named_children:
        key, local = _pattern_key(child)
        if key is None:
            extraction.bind_pattern(child)
            continue
        if local is not None and (declared := written.get(extraction.text(key))) is not None:
            extraction.bind(extraction.text(local), None, declared)
            extraction.visit(field(child, "right"))
            continue
        keys.append((key, extraction.text(local) if local is not None else ""))
        inner = field(child, "value" if child.type == "pair_pattern" else "right")
        if local is None and inner is not None:
            extraction.bind_pattern(inner)
        elif inner is not None and child.type == "object_assignment_pattern":
            extraction.visit(inner)
        elif inner is not None and inner.type == "assignment_pattern":
            extraction.visit(field(inner, "right"))
    extraction.refer_members(keys, value, type_, of=of)


def _written_types(extraction: Extraction, type_: tree_sitter.Node | None) -> dict[str, tree_sitter.Node]:
    """Return the types of the properties of an object type that is written in place."""
    inner = first_named(type_) if type_ is not None else None
    if inner is None or inner.type != "object_type":
        return {}
    found: dict[str, tree_sitter.Node] = {}
    for child in inner.named_children:
        name, declared = field(child, "name"), field(child, "type")
        if child.type == "property_signature" and name is not None and declared is not None:
            found[extraction.text(name)] = declared
    return found


def _assigned_value(
    extraction: Extraction, name: tree_sitter.Node, value: tree_sitter.Node | None
) -> tree_sitter.Node | None:
    """Return the last value of ``name = exports = module.exports = value``; ``name`` then is what the module exports."""
    for _ in range(8):
        if value is None or value.type != "assignment_expression":
            break
        left = field(value, "left")
        if left is not None and exports_path(extraction, left) == "=":
            extraction.add_package(MODULE)
            export_as(extraction, "=", extraction.text(name))
        value = field(value, "right")
    return value


def exports_path(extraction: Extraction, node: tree_sitter.Node) -> str:
    """Return ``=`` for ``module.exports`` and ``exports``, the name for a member of them, else nothing."""
    if node.type == "identifier":
        return "=" if extraction.text(node) == "exports" else ""
    if node.type != "member_expression":
        return ""
    inner, name = field(node, "object"), field(node, "property")
    if inner is None or name is None:
        return ""
    text = extraction.text(name)
    if inner.type == "identifier":
        base = extraction.text(inner)
        if base == "module":
            return "=" if text == "exports" else ""
        return text if base == "exports" else ""
    return text if inner.type == "member_expression" and extraction.text(inner) == "module.exports" else ""
