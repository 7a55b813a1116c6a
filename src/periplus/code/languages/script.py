"""JavaScript, TypeScript and TSX. Default exports and CommonJS: see `languages.script_modules`."""

from __future__ import annotations

__all__ = ["JAVASCRIPT", "TSX", "TYPESCRIPT"]

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.script_modules import assign, assignment, export_statement, import_alias, import_statement
from periplus.code.languages.script_values import (
    FUNCTION_VALUES,
    bind_parameters,
    declarator,
    declare_class,
    define_value,
    field,
    first_named,
    loaded_module,
    plain_name,
    string_of,
    told_value,
    visit_function,
    without,
)
from periplus.code.languages.table import Access, Bind, Declaration, Extraction, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "undefined NaN Infinity globalThis window document console process Buffer global require module exports __dirname __filename arguments "
    "eval isFinite isNaN parseFloat parseInt decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape structuredClone "
    "queueMicrotask setTimeout clearTimeout setInterval clearInterval setImmediate clearImmediate requestAnimationFrame "
    "cancelAnimationFrame fetch alert confirm prompt navigator location history localStorage sessionStorage performance crypto atob btoa "
    "Object Function Boolean Symbol Number BigInt Math Date String RegExp Array Int8Array Uint8Array Uint8ClampedArray Int16Array "
    "Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float32Array Float64Array Map Set WeakMap WeakSet WeakRef "
    "FinalizationRegistry ArrayBuffer SharedArrayBuffer Atomics DataView JSON Promise Generator GeneratorFunction AsyncFunction "
    "AsyncGenerator AsyncGeneratorFunction Reflect Proxy Intl WebAssembly Error AggregateError EvalError RangeError ReferenceError "
    "SyntaxError TypeError URIError URL URLSearchParams TextEncoder TextDecoder AbortController AbortSignal Event EventTarget CustomEvent "
    "Blob File FileReader FormData Headers Request Response ReadableStream WritableStream TransformStream WebSocket Worker MessageChannel "
    "MessagePort BroadcastChannel Node Element HTMLElement DOMException MutationObserver ResizeObserver IntersectionObserver XMLHttpRequest "
    "Partial Required Readonly Record Pick Omit Exclude Extract NonNullable Parameters ConstructorParameters ReturnType InstanceType "
    "ThisParameterType OmitThisParameter ThisType Awaited Uppercase Lowercase Capitalize Uncapitalize NoInfer PromiseLike ArrayLike "
    "ReadonlyArray ReadonlyMap ReadonlySet Iterable Iterator IterableIterator IteratorResult AsyncIterable AsyncIterator "
    "AsyncIterableIterator PropertyKey PropertyDescriptor TemplateStringsArray NodeJS JSX MouseEvent KeyboardEvent PointerEvent "
    "HTMLDivElement HTMLInputElement HTMLButtonElement HTMLCanvasElement SVGElement const".split()
)
_OWN_SELVES: Final = frozenset(
    {"function_declaration", "function_expression", "generator_function_declaration", "generator_function"}
)
_FUNCTIONS: Final = frozenset(
    {*_OWN_SELVES, "method_definition", "function_signature", "method_signature", "abstract_method_signature", "function_type",
     "constructor_type", "call_signature", "construct_signature"}
)  # fmt: skip
_WRAPPING_TYPES: Final = frozenset(
    "Promise PromiseLike Readonly Partial Required NonNullable Awaited Omit Pick Exclude Extract Mutable DeepPartial DeepReadonly MarkOptional "
    "MarkRequired MarkNonNullable Merge Writable PropsWithChildren React.PropsWithChildren".split()
)
_LIST_TYPES: Final = frozenset(
    "Array ReadonlyArray Set ReadonlySet Iterable Iterator IterableIterator AsyncIterable".split()
)
_MAP_TYPES: Final = frozenset({"Map", "Record", "ReadonlyMap", "WeakMap"})
_NAMED_TYPES: Final = frozenset({"type_identifier", "generic_type", "nested_type_identifier", "array_type"})
_NOTHING: Final = frozenset({"null", "undefined"})
_EXPECTING: Final = frozenset(
    {"object", "array", "arrow_function", "function_expression", "parenthesized_expression", "ternary_expression"}
)
_ELEMENT_CALLBACKS: Final = frozenset("map forEach filter find findLast findIndex some every flatMap".split())
_ADDING: Final = frozenset({"add", "push", "unshift"})
_TESTS: Final = frozenset("describe context suite it test specify fdescribe fit xdescribe xit xtest".split())
_ROUTERS: Final = re.compile(r"(?i)(?:app|router|server|fastify|routes?)$")
_VERBS: Final = frozenset("get post put patch delete head options all".split())


def _statement(extraction: Extraction, node: tree_sitter.Node) -> None:
    inner = first_named(node)
    if inner is not None and inner.type == "call_expression":
        if _test(extraction, node, inner) or _route(extraction, node, inner):
            return
    elif inner is not None and inner.type == "assignment_expression":
        assign(extraction, node, inner)
        return
    extraction.wrap(node)


def _test(extraction: Extraction, node: tree_sitter.Node, call: tree_sitter.Node) -> bool:
    """Define the test of ``it("name", …)``; False for another call."""
    function, arguments = field(call, "function"), field(call, "arguments")
    at = function
    for _ in range(4):
        if at is None or at.type == "identifier":
            break
        at = field(at, "function" if at.type == "call_expression" else "object")
    if at is None or arguments is None or function is None or extraction.text(at) not in _TESTS:
        return False
    given = arguments.named_children
    name = string_of(extraction, given[0]) if given else ""
    if not name or (len(given) < 2 and at.id == function.id) or extraction.defined(extraction.text(at)) >= 0:
        return False
    extraction.refer_as(function, "call")
    text = " ".join(name.split())
    body: list[tree_sitter.Node] = [given[0]] if given[0].type == "template_string" else []
    for one in given[1:]:
        body += one.named_children if one.type in FUNCTION_VALUES else [one]
    extraction.declare_as(node, given[0], Declaration("test", text, is_bound=False, self="none"), body)
    return True


def _route(extraction: Extraction, node: tree_sitter.Node, call: tree_sitter.Node) -> bool:
    """Define the route of ``app.get("/path", …)``; False for another call."""
    function, arguments = field(call, "function"), field(call, "arguments")
    if function is None or arguments is None or function.type != "member_expression":
        return False
    owner, verb = field(function, "object"), field(function, "property")
    if owner is None or verb is None or owner.type != "identifier":
        return False
    said = extraction.text(verb)
    if said not in _VERBS or not _ROUTERS.search(extraction.text(owner)):
        return False
    given = arguments.named_children
    path = string_of(extraction, given[0]) if len(given) > 1 else ""
    if not path.startswith(("/", "*")):
        return False
    extraction.refer_as(function, "call")
    extraction.declare_as(node, given[0], Declaration("route", f"{said.upper()} {path}", is_bound=False), given[1:])
    return True


def _arrow(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit a function that is no definition: its parameters are what the place of the function expects."""
    extraction.open_function(has_self=node.type == "arrow_function", node=node)
    visit_function(extraction, node, node)


def _function(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = field(node, "name")
    if name is None:
        _arrow(extraction, node)
        return
    shape = Declaration("function", type=field(node, "return_type"), self="own", is_generic=True)
    extraction.declare_as(node, name, shape, ())
    visit_function(extraction, node, node)


def _named_function(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = field(node, "name")
    if name is None:
        _arrow(extraction, node)
        return
    shape = Declaration("function", is_bound=False, binds_inside=True, type=field(node, "return_type"), self="own")
    extraction.declare_as(node, name, shape, ())
    visit_function(extraction, node, node)


def _signature_type(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_function(is_signature=True)
    returned = field(node, "return_type")
    if returned is not None:
        extraction.note_parameter("()", returned)
    extraction.visit(*node.named_children)


def _parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind parameters and note their types; one with ``private`` or the like is a field too."""
    bind_parameters(extraction, node, None)


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = field(node, "name")
    if name is not None:
        constraint = field(node, "constraint")
        extraction.bind_generic(extraction.text(name), first_named(constraint) if constraint is not None else None)
        extraction.visit(*without(node, name))


def _mapped(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``[K in T]`` and ``infer U`` bind a type; what follows sees it."""
    name = field(node, "name") or first_named(node)
    if name is not None and name.type == "type_identifier":
        extraction.bind_generic(extraction.text(name))
        extraction.visit(*without(node, name))
    else:
        extraction.visit(*node.named_children)


def _class(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = field(node, "name")
    if name is None:
        extraction.visit(*node.named_children)
        return
    kind = "interface" if node.type == "interface_declaration" else "class"
    declare_class(extraction, node, name, node, Declaration(kind, is_bound=node.type != "class"))


def _alias(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define ``type A = …``: the members of an object type are its own, named types in it are like bases."""
    name, value = field(node, "name"), field(node, "value")
    if name is None:
        extraction.visit(*node.named_children)
        return
    bases: list[tree_sitter.Node] = []
    inside = without(node, name, value)
    waiting = [value] if value is not None else []
    while waiting:
        one = waiting.pop(0)
        if one.type in ("union_type", "intersection_type", "parenthesized_type"):
            waiting = one.named_children + waiting
        elif one.type in ("type_identifier", "generic_type", "nested_type_identifier"):
            bases.append(one)
        else:
            inside.append(one)
    extraction.declare_as(node, name, Declaration("type", bases=bases, base_role="reference", is_class=True), inside)


def _property(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define a property of an interface or of the object type of an alias; elsewhere its types alone count."""
    name, type_ = field(node, "name"), field(node, "type")
    if name is None or not extraction.is_class_body or name.type == "computed_property_name":
        extraction.visit(*node.named_children)
        return
    inner = first_named(type_) if type_ is not None else None
    if node.type != "property_signature":
        shape = Declaration("method", plain_name(extraction, name), is_bound=False, type=field(node, "return_type"))
    elif inner is not None and inner.type == "object_type":
        shape = Declaration("property", plain_name(extraction, name), is_bound=False, is_class=True)
    else:
        shape = Declaration("property", plain_name(extraction, name), is_bound=False, type=type_)
    extraction.declare_as(node, name, shape, without(node, name))


def _field_definition(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = field(node, "name") or field(node, "property")
    value, type_ = field(node, "value"), field(node, "type")
    if name is None or name.type == "computed_property_name":
        extraction.visit(*node.named_children)
        return
    text = plain_name(extraction, name)
    if value is not None and value.type in FUNCTION_VALUES:
        define_value(extraction, node, name, value, text=text, is_bound=False, type_=type_)
        return
    shape = Declaration("field", text, is_bound=False, type=type_, value=value)
    extraction.declare_as(node, name, shape, without(node, name))


def _method(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = field(node, "name")
    if name is None or name.type == "computed_property_name":
        extraction.open_function(has_self=extraction.is_class_body)
        extraction.visit(*node.named_children)
        return
    shape = Declaration(
        "method", plain_name(extraction, name), is_bound=False, type=field(node, "return_type"),
        self="same" if extraction.is_class_body else "none",
    )  # fmt: skip
    extraction.declare_as(node, name, shape._replace(is_generic=True), ())
    visit_function(extraction, node, node)


def _pair(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Define a member of an object that is a definition's value, and a function in any object."""
    key, value = field(node, "key"), field(node, "value")
    if key is None or value is None or key.type == "computed_property_name":
        extraction.visit(key, value)
    elif extraction.is_class_body:
        define_value(extraction, node, key, value, text=plain_name(extraction, key), kind="property", is_bound=False)
    elif value.type in ("function_expression", "generator_function"):
        shape = Declaration("method", plain_name(extraction, key), is_bound=False, self="none", is_generic=True)
        extraction.declare_as(node, key, shape, ())
        own = field(value, "name")
        if own is not None and extraction.text(own) != plain_name(extraction, key):
            extraction.declare_as(value, own, Declaration("function"), None)
        visit_function(extraction, value, value)
    else:
        extraction.visit(value)


def _enum(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, body = field(node, "name"), field(node, "body")
    if name is None or body is None:
        extraction.visit(*node.named_children)
        return
    extraction.declare_as(node, name, Declaration("enum", is_class=True))
    values: list[tree_sitter.Node | None] = []
    for child in body.named_children:
        member = field(child, "name") if child.type == "enum_assignment" else child
        if member is None or member.type not in ("property_identifier", "string"):
            continue
        extraction.declare_as(
            child, member, Declaration("constant", plain_name(extraction, member), is_bound=False), None
        )
        values.append(field(child, "value"))
    extraction.visit(*values)


def _jsx(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit a tag of JSX: a name that begins with a capital, or one with a dot, is a component, its attributes are members of the first
    parameter of the component.
    """
    name = field(node, "name")
    if name is None:
        extraction.visit(*node.named_children)
        return
    text = extraction.text(name)
    if name.type == "member_expression" or (name.type == "identifier" and not text[:1].islower()):
        extraction.refer_as(name, "reference" if node.type == "jsx_closing_element" else "call")
        for child in node.named_children:
            key = first_named(child) if child.type == "jsx_attribute" else None
            if key is None or key.type != "property_identifier":
                continue
            extraction.expect(child, value=name, steps=("(0)",))
            extraction.refer_members([(key, "")], of=extraction.expected(child))
            value = child.named_children[1] if len(child.named_children) > 1 else None
            inner = first_named(value) if value is not None and value.type == "jsx_expression" else None
            if inner is not None and inner.type in _EXPECTING:
                extraction.expect(inner, value=name, steps=("(0)", extraction.text(key)))
    extraction.visit(*without(node, name))


def _signature(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``[key: string]: T``: the key is no name."""
    extraction.open_function()
    name = field(node, "name")
    if name is not None:
        extraction.bind(extraction.text(name))
    extraction.visit(*without(node, name))


def _return(extraction: Extraction, node: tree_sitter.Node) -> None:
    value = first_named(node)
    if value is None:
        return
    expected = extraction.expected_return()
    if expected is not None:
        extraction.expect(value, of=expected)
    else:
        extraction.note_returned(told_value(value))
    extraction.visit(value)


def _arguments(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit arguments; of those that are objects and functions the parameters' types say what they are expected to be."""
    given = [child for child in node.named_children if child.type != "comment"]
    if any(child.type in _EXPECTING for child in given) and (call := node.parent) is not None:
        callee = field(call, "function") or field(call, "constructor")
        for position, child in enumerate(given):
            if child.type not in _EXPECTING or callee is None:
                continue
            reached, name = field(callee, "object"), field(callee, "property")
            method = extraction.text(name) if name is not None else ""
            if position == 0 and reached is not None and method in _ELEMENT_CALLBACKS:
                extraction.expect_elements(child, reached)
            elif reached is not None and method in _ADDING:
                extraction.expect(child, value=reached, steps=("[]",))
            elif position == 0 and reached is not None and method == "setState":
                extraction.expect(child, value=reached, steps=("state",))
            else:
                extraction.expect(child, value=callee, steps=(f"({position})",))
    extraction.visit(*given)


def _object(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit an object: its keys are members of what is expected."""
    expected = extraction.expected(node)
    if expected is not None:
        for child in node.named_children:
            if child.type == "shorthand_property_identifier":
                extraction.refer_members([(child, "")], of=expected)
            elif child.type in ("pair", "method_definition"):
                key = field(child, "key") or field(child, "name")
                value = field(child, "value")
                if key is not None and key.type in ("property_identifier", "string"):
                    extraction.refer_members([(key, "")], of=expected)
                    extraction.expect(value or child, of=expected, steps=(plain_name(extraction, key),))
    extraction.visit(*node.named_children)


def _array(extraction: Extraction, node: tree_sitter.Node) -> None:
    expected = extraction.expected(node)
    if expected is not None:
        for child in node.named_children:
            if child.type in _EXPECTING:
                extraction.expect(child, of=expected, steps=("[]",))
    extraction.visit(*node.named_children)


def _passed_on(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Expect of the parts of an expression what is expected of it."""
    expected = extraction.expected(node)
    if expected is not None:
        for child in node.named_children:
            extraction.expect(child, of=expected)
    extraction.visit(*node.named_children)


def _typed_expression(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``value as Type``."""
    children = node.named_children
    if len(children) > 1:
        extraction.expect(children[0], type_=children[1])
    extraction.visit(*children)


def _for_in(extraction: Extraction, node: tree_sitter.Node) -> None:
    left, right, operator = field(node, "left"), field(node, "right"), field(node, "operator")
    if (
        left is not None
        and right is not None
        and left.type == "identifier"
        and operator is not None
        and operator.type == "of"
    ):
        extraction.expect_elements(left, right)
        extraction.bind_expected(extraction.text(left), extraction.expected_parameter(left, 0))
    elif left is not None:
        extraction.bind_pattern(left)
    extraction.visit(*without(node, left))


def _for(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.open_function(is_block=True)
    extraction.visit(*node.named_children)


def _catch(extraction: Extraction, node: tree_sitter.Node) -> None:
    parameter = field(node, "parameter")
    if parameter is not None:
        extraction.bind_pattern(parameter)
    extraction.visit(*without(node, parameter))


def _unwrapped(extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """Return the type that values of ``Promise<T>`` or ``Partial<T>`` are used as, that of the elements of ``Array<T>``, else the name."""
    name, arguments = field(node, "name"), field(node, "type_arguments")
    if name is not None and arguments is not None:
        text = extraction.text(name)
        if text in _WRAPPING_TYPES or text in _LIST_TYPES:
            return first_named(arguments), text in _LIST_TYPES
        if text in _MAP_TYPES:
            return arguments.named_children[-1], True
    return name, False


def _only(extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """Return the one type of a union besides ``null`` and ``undefined``."""
    waiting, found = list(node.named_children), []
    while waiting:
        one = waiting.pop()
        if one.type == "union_type":
            waiting += one.named_children
        elif not (one.type in ("literal_type", "predefined_type") and extraction.text(one) in _NOTHING):
            found.append(one)
    named = [one for one in found if one.type in _NAMED_TYPES]
    return (found[0] if len(found) == 1 else named[-1] if named else None), False


def _first_named_type(_extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """Return the first type of an intersection that has a name."""
    waiting = list(node.named_children)
    while waiting:
        one = waiting.pop(0)
        if one.type == "intersection_type":
            waiting = one.named_children + waiting
        elif one.type in _NAMED_TYPES:
            return one, False
    return None, False


def _constructed(extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """Return the type of the elements of ``new Map<K, V>()`` and the like."""
    name, arguments = field(node, "constructor"), field(node, "type_arguments")
    if name is not None and arguments is not None and extraction.text(name) in _LIST_TYPES | _MAP_TYPES:
        return arguments.named_children[-1], True
    return None, False


def _is_exported(extraction: Extraction, node: tree_sitter.Node, name: str) -> bool:
    if extraction.is_class_body:
        return not name.startswith("#") and not any(
            child.type == "accessibility_modifier" and extraction.text(child) == "private"
            for child in node.children[:2]
        )
    return extraction.whole.type == "export_statement"


def _is_test(_name: str, kind: str, _decorations: str) -> bool:
    return kind == "test"


_ALL: Final[Sequence[int]] = tuple(range(16))
JAVASCRIPT: Final = Language(
    "javascript", (".js", ".cjs", ".jsx", ".mjs"), "tree_sitter_javascript", "language",
    {
        "function_signature": Naming("function", type="return_type"),
        "internal_module": Naming("namespace"),
        "module": Naming("namespace"),
    },
    _FUNCTIONS,
    wrappers=frozenset({"lexical_declaration", "variable_declaration", "ambient_declaration"}),
    leading=frozenset({"decorator"}),
    scopes=frozenset({"statement_block", "switch_body", "conditional_type"}),
    has_bare_members=False,
    names=frozenset(
        {"identifier", "type_identifier", "shorthand_property_identifier", "shorthand_property_identifier_pattern"}
    ),
    binds={
        "assignment_pattern": (Bind("left", "right"),),
        "object_assignment_pattern": (Bind("left", "right"),),
    },
    accesses={
        "member_expression": Access("object", "property"),
        "nested_type_identifier": Access("module", "name"),
        "nested_identifier": Access("object", "property"),
        "lookup_type": Access(0, 1, is_quoted=True),
        "subscript_expression": Access("object", step="[]"),
        "call_expression": Access("function", step="()", is_loader=True),
        "new_expression": Access("constructor", step="()"),
    },
    transparent={"parenthesized_expression": 0, "await_expression": 0, "non_null_expression": 0, "type_query": 0},
    enters={
        "type_arguments": tuple(_ALL),
        "jsx_attribute": (1,),
        "labeled_statement": ("body",),
        "break_statement": (),
        "continue_statement": (),
    },
    skips=frozenset({"import", "regex", "property_identifier", "private_property_identifier", "predefined_type", "string",
                     "number", "import_attribute"}),
    comments=frozenset({"comment"}),
    literals=frozenset(
        {"string", "template_string", "number", "regex", "true", "false", "array", "object", "arrow_function", "function_expression",
         "generator_function", "tuple_type", "literal_type", "predefined_type", "template_literal_type"}
    ),
    nulls=frozenset({"null", "undefined"}),
    selves=frozenset({"this"}),
    supers=frozenset({"super"}),
    own_selves=_OWN_SELVES,
    type_wrappers={"type_annotation": 0, "opting_type_annotation": 0, "parenthesized_type": 0, "readonly_type": 0, "instantiation_expression": 0},
    unwraps={"generic_type": _unwrapped, "union_type": _only, "intersection_type": _first_named_type},
    value_types=frozenset({"lookup_type", "type_query"}),
    typed_values={"new_expression": _constructed},
    list_types={"array_type": 0},
    casts={"as_expression": 1, "type_assertion": 0},
    builtins=_BUILTINS,
    special={
        "import_statement": import_statement,
        "import_alias": import_alias,
        "export_statement": export_statement,
        "variable_declarator": declarator,
        "expression_statement": _statement,
        "assignment_expression": assignment,
        "arrow_function": _arrow,
        "function_declaration": _function,
        "generator_function_declaration": _function,
        "function_expression": _named_function,
        "generator_function": _named_function,
        "function_type": _signature_type,
        "call_signature": _signature_type,
        "return_statement": _return,
        "arguments": _arguments,
        "object": _object,
        "array": _array,
        "parenthesized_expression": _passed_on,
        "ternary_expression": _passed_on,
        "as_expression": _typed_expression,
        "satisfies_expression": _typed_expression,
        "for_in_statement": _for_in,
        "formal_parameters": _parameters,
        "type_parameter": _type_parameter,
        "mapped_type_clause": _mapped,
        "infer_type": _mapped,
        "class_declaration": _class,
        "abstract_class_declaration": _class,
        "class": _class,
        "interface_declaration": _class,
        "type_alias_declaration": _alias,
        "property_signature": _property,
        "method_signature": _property,
        "abstract_method_signature": _property,
        "field_definition": _field_definition,
        "public_field_definition": _field_definition,
        "method_definition": _method,
        "pair": _pair,
        "enum_declaration": _enum,
        "jsx_opening_element": _jsx,
        "jsx_closing_element": _jsx,
        "jsx_self_closing_element": _jsx,
        "index_signature": _signature,
        "catch_clause": _catch,
        "for_statement": _for,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    loader=loaded_module,
    load_words=(b"require", b"import"),
    interpreters=("node", "bun"),
)  # fmt: skip
TYPESCRIPT: Final = JAVASCRIPT._replace(
    name="typescript", extensions=(".ts", ".cts", ".mts"), module="tree_sitter_typescript", entry="language_typescript",
    interpreters=("deno", "ts-node", "tsx"),
)  # fmt: skip
TSX: Final = TYPESCRIPT._replace(extensions=(".tsx",), entry="language_tsx", interpreters=())
