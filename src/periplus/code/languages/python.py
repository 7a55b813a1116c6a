"""Python."""

from __future__ import annotations

__all__ = ["PYTHON"]

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from periplus.code.languages.python_types import named_type, names_of_type
from periplus.code.languages.table import Access, Bind, Extraction, Language, Naming
from periplus.code.model import CALL, ELEMENT, ENTERED

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright credits "
    "delattr dict dir divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash help hex id input int "
    "isinstance issubclass iter len license list locals map max memoryview min next object oct open ord pow print property quit range "
    "repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip None True False Ellipsis "
    "NotImplemented __name__ __file__ __doc__ __spec__ __package__ __path__ __loader__ __builtins__ __debug__ __import__ __build_class__ "
    "ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError BufferError "
    "BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError "
    "DeprecationWarning EOFError EncodingWarning EnvironmentError Exception ExceptionGroup FileExistsError FileNotFoundError "
    "FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning IndentationError IndexError InterruptedError "
    "IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError "
    "NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError RecursionError "
    "ReferenceError ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError "
    "SystemExit TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError "
    "UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError".split()
)


def _dotted(extraction: Extraction, node: tree_sitter.Node) -> str:
    return "".join(extraction.text(node).split())


def _import(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``import a.b`` binds ``a``; ``import a.b as c`` binds ``c`` to ``a.b``."""
    for child in node.named_children:
        if child.type == "dotted_name":
            module = _dotted(extraction, child)
            top = module.partition(".")[0]
            extraction.add_import(child, top, "", top)
            if top != module:
                extraction.add_import(child, module)
        elif child.type == "aliased_import":
            name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if name is not None and alias is not None:
                extraction.add_import(name, _dotted(extraction, name), "", extraction.text(alias))


def _import_from(extraction: Extraction, node: tree_sitter.Node) -> None:
    source = node.child_by_field_name("module_name")
    module = _dotted(extraction, source) if source is not None else "__future__"
    for child in node.named_children:
        if source is not None and child.id == source.id:
            continue
        if child.type == "wildcard_import":
            extraction.add_import(child, module, "*")
        elif child.type == "dotted_name":
            name = _dotted(extraction, child)
            extraction.add_import(child, module, name, name)
        elif child.type == "aliased_import":
            name_node, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if name_node is not None and alias is not None:
                extraction.add_import(name_node, module, _dotted(extraction, name_node), extraction.text(alias))


def _outer_names(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``global x`` and ``nonlocal x``: the scope does not bind ``x``."""
    for child in node.named_children:
        extraction.unbind(extraction.text(child))


def _parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the parameters; the first of a method is the instance, of a class method the class."""
    children = node.named_children
    function = node.parent
    takes_fixtures = function is not None and _takes_fixtures(extraction, function)
    if children and children[0].type in ("identifier", "typed_parameter") and extraction.is_method:
        wrapper = function.parent if function is not None else None
        decorators = "" if wrapper is None or wrapper.type != "decorated_definition" else extraction.text(wrapper)
        name = function.child_by_field_name("name") if function is not None else None
        is_class = "@classmethod" in decorators or (
            name is not None and extraction.text(name) in ("__new__", "__init_subclass__", "__class_getitem__")
        )
        if "@staticmethod" not in decorators:
            first = children[0] if children[0].type == "identifier" else children[0].named_child(0)
            if first is not None:
                extraction.bind_instance(extraction.text(first), is_class=is_class)
            children = children[1:]
    for child in children:
        if child.type == "typed_parameter":
            name_node, annotation = child.named_child(0), child.child_by_field_name("type")
            if name_node is not None:
                if name_node.type == "identifier":
                    extraction.bind(extraction.text(name_node), None, annotation)
                else:
                    extraction.bind_pattern(name_node)
            extraction.visit(annotation)
        elif child.type in ("default_parameter", "typed_default_parameter"):
            bound, value = child.child_by_field_name("name"), child.child_by_field_name("value")
            annotation = child.child_by_field_name("type")
            if bound is not None:
                extraction.bind(extraction.text(bound), value if annotation is None else None, annotation)
            extraction.visit(annotation, value)
        elif takes_fixtures and child.type == "identifier":
            extraction.bind_outer(child)
        else:
            extraction.bind_pattern(child)


def _takes_fixtures(extraction: Extraction, function: tree_sitter.Node) -> bool:
    """Return True for a test, and for a fixture itself: pytest passes fixtures to them by the names of their parameters."""
    if function.type != "function_definition":
        return False
    name, wrapper = function.child_by_field_name("name"), function.parent
    if name is not None and extraction.text(name).startswith("test"):
        return True
    return (
        wrapper is not None
        and wrapper.type == "decorated_definition"
        and _FIXTURE.search(extraction.data, wrapper.start_byte, function.start_byte) is not None
    )


def _annotation(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Note the names in a type; strings in it hold names too."""
    names = names_of_type(extraction.text(node))
    if names is not None:
        start = node.start_byte
        for offset, name in names:
            extraction.refer_text(name, start + offset)
        return
    waiting = [node]
    while waiting:
        at = waiting.pop()
        for child in at.named_children:
            if child.type == "string":
                for inside in child.named_children[1:2]:
                    if inside.type == "string_content" and _callee(extraction, at) != "Literal":
                        extraction.refer_text(extraction.text(inside), inside.start_byte)
            elif child.type in ("binary_operator", "subscript", "generic_type", "type_parameter", "list", "tuple"):
                waiting.append(child)
    extraction.visit(*node.named_children)


def _string(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Visit what a string interpolates; only one with a prefix such as ``f`` does."""
    if extraction.data[node.start_byte] not in b"'\"":
        extraction.visit(*[child for child in node.named_children if child.type == "interpolation"])


def _callee(extraction: Extraction, node: tree_sitter.Node) -> str:
    """Return the last part of the name before the brackets in which ``node`` stands."""
    around = node.parent if node.type == "type" else node
    around = around.parent if around is not None and around.type == "type_parameter" else around
    first = around.named_child(0) if around is not None and around.type in ("generic_type", "subscript") else None
    return extraction.text(first).rpartition(".")[2] if first is not None else ""


def _augmented(extraction: Extraction, node: tree_sitter.Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and left.type == "identifier":
        name = extraction.text(left)
        extraction.bind(name)
        if name == "__all__" and right is not None:
            _list_exports(extraction, right)
    elif left is not None:
        extraction.visit(left)
    extraction.visit(right)


def _list_exports(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Note the names in a value of ``__all__``; one that is not written out may hold any."""
    for item in node.named_children if node.type in ("list", "tuple") else (node,):
        content = item.named_child(1) if item.type == "string" else None
        if content is not None and content.type == "string_content":
            name = extraction.text(content)
            extraction.add_export(name, name)
        elif item.type != "comment":
            extraction.add_export("*", "*")


def _narrowing(extraction: Extraction, node: tree_sitter.Node | None) -> tuple[str, tree_sitter.Node] | None:
    """Return the name and the class of ``isinstance(name, Class)``, also as the first part of a conjunction."""
    while node is not None and node.type == "boolean_operator" and node.children[1].type == "and":
        node = node.child_by_field_name("left")
    callee = node.child_by_field_name("function") if node is not None and node.type == "call" else None
    if callee is None or node is None or extraction.text(callee) != "isinstance":
        return None
    arguments = node.child_by_field_name("arguments")
    taken = arguments.named_children if arguments is not None else []
    if len(taken) != 2 or taken[0].type != "identifier" or taken[1].type not in ("identifier", "attribute"):
        return None
    return extraction.text(taken[0]), taken[1]


def _branch(extraction: Extraction, node: tree_sitter.Node) -> None:
    """An ``if``: in its first branch the class of a name may be known by its condition."""
    condition, consequence = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
    found = _narrowing(extraction, condition)
    if found is None or consequence is None:
        extraction.visit(*node.named_children)
        return
    others = [
        child
        for child in node.named_children
        if child.id != consequence.id and child.start_byte > consequence.start_byte
    ]
    extraction.visit(*others)
    extraction.narrow(*found, consequence)
    extraction.visit(condition)


def _both(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``isinstance(x, A) and x.b``."""
    found = _narrowing(extraction, node.child_by_field_name("left")) if node.children[1].type == "and" else None
    if found is None:
        extraction.visit(*node.named_children)
        return
    extraction.narrow(*found, node.child_by_field_name("right"))
    extraction.visit(node.child_by_field_name("left"))


def _assertion(extraction: Extraction, node: tree_sitter.Node) -> None:
    found = _narrowing(extraction, node.named_child(0))
    if found is not None:
        extraction.narrow(*found, None)
    extraction.visit(*node.named_children)


def _as_pattern(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``with a as b``, ``except A as b``: what is bound depends on the statement around."""
    value, alias = node.named_child(0), node.child_by_field_name("alias")
    target = alias.named_child(0) if alias is not None else None
    if target is not None and value is not None:
        if target.type == "identifier":
            around = node.parent
            steps = (ENTERED,) if around is not None and around.type == "with_item" else (CALL,)
            extraction.bind(extraction.text(target), value, None, steps)
        elif target.type in ("attribute", "subscript"):
            extraction.visit(target)
        else:
            extraction.bind_pattern(target)
    extraction.visit(value)


def _case(extraction: Extraction, node: tree_sitter.Node) -> None:
    """A pattern of ``match``: bare names are bound, dotted ones and classes are referred to."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        children = at.named_children
        if at.type == "dotted_name":
            if len(children) == 1:
                extraction.bind_pattern(children[0])
            else:
                extraction.refer_text(_dotted(extraction, at), at.start_byte)
        elif at.type == "identifier":
            extraction.bind_pattern(at)
        elif at.type == "class_pattern":
            extraction.refer_text(_dotted(extraction, children[0]), children[0].start_byte)
            waiting += children[:0:-1]
        elif at.type == "keyword_pattern":
            waiting += children[:0:-1]
        elif at.type == "as_pattern" and len(children) == 2:
            inner = children[0].named_child(0) if children[0].type == "case_pattern" else None
            if inner is not None and inner.type == "class_pattern":
                extraction.bind(extraction.text(children[1]), None, inner.named_child(0))
            else:
                extraction.bind_pattern(children[1])
            waiting.append(children[0])
        elif at.type in _PATTERN_PARTS:
            waiting += children[::-1]
        else:
            extraction.visit(at)


def _operands(node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """The values of ``a or b`` and ``a and b``."""
    children = node.children
    return [children[0], children[2]] if len(children) == 3 and children[1].type == "or" else children[2:3]


def _branches(node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """The values of ``a if b else c``."""
    return node.named_children[::2]


def _docstring(_extraction: Extraction, node: tree_sitter.Node) -> tree_sitter.Node | None:
    body = node.child_by_field_name("body")
    if body is None:
        return None
    first = next((child for child in body.named_children[:2] if child.type != "comment"), None)
    string = first.named_child(0) if first is not None and first.type == "expression_statement" else None
    return string if string is not None and string.type == "string" else None


def _is_exported(extraction: Extraction, node: tree_sitter.Node, name: str) -> bool:
    if name == "__all__" and (value := node.child_by_field_name("right")) is not None:
        _list_exports(extraction, value)
        if _CHANGED_LIST.search(extraction.data) is not None:
            extraction.add_export("*", "*")
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _is_test(name: str, kind: str, _decorations: str) -> bool:
    return (kind == "function" and name.startswith("test")) or (kind == "class" and name.startswith("Test"))


_FIXTURE: Final = re.compile(rb"@(?:\w+\.)*fixture\b")
_CHANGED_LIST: Final = re.compile(rb"\b__all__\s*\.")
_PATTERN_PARTS: Final = frozenset(
    {"case_pattern", "as_pattern", "dict_pattern", "list_pattern", "tuple_pattern", "union_pattern", "splat_pattern"}
)
_PATTERNS: Final = frozenset({"attribute", "subscript", "pattern_list", "tuple_pattern", "list_pattern"})
PYTHON: Final = Language(
    "python", (".py", ".pyi", ".pyw"), "tree_sitter_python", "language",
    {
        "function_definition": Naming("function", type="return_type"),
        "class_definition": Naming("class", bases=("superclasses",), is_class=True),
        "assignment": Naming("value", ("left",), is_outer=True, not_names=_PATTERNS, type="type", value="right"),
        "type_alias_statement": Naming("type", ("left",)),
    },
    functions=frozenset({"function_definition", "lambda"}),
    wrappers=frozenset({"decorated_definition", "expression_statement"}),
    scopes=frozenset({"list_comprehension", "set_comprehension", "dictionary_comprehension", "generator_expression"}),
    binds={
        "for_statement": (Bind("left", "right", steps=(ELEMENT,)),),
        "for_in_clause": (Bind("left", "right", steps=(ELEMENT,)),),
        "named_expression": (Bind("name", "value"),),
    },
    accesses={
        "attribute": Access(0, -1),
        "subscript": Access(0, step="[]"),
        "call": Access(0, step="()"),
    },
    transparent={"parenthesized_expression": 0, "await": 0},
    enters={"keyword_argument": ("value",), "type_parameter": (0, 1, 2, 3)},
    literals=frozenset(
        {"string", "concatenated_string", "integer", "float", "list", "dictionary", "set", "tuple", "list_comprehension",
         "dictionary_comprehension", "set_comprehension", "generator_expression", "true", "false"}
    ),
    skips=frozenset({"integer", "float", "true", "false", "none", "ellipsis", "pass_statement", "break_statement", "continue_statement"}),
    nulls=frozenset({"none"}),
    selves=frozenset(),
    named_type=named_type,
    self_type="Self",
    values={
        "boolean_operator": _operands,
        "conditional_expression": _branches,
        "named_expression": lambda node: node.named_children[1:2],
    },
    lists_exports=True,
    notes_unknown=True,
    type_wrappers={"type": 0, "parenthesized_expression": 0},
    builtins=_BUILTINS,
    special={
        "import_statement": _import,
        "import_from_statement": _import_from,
        "future_import_statement": _import_from,
        "global_statement": _outer_names,
        "nonlocal_statement": _outer_names,
        "augmented_assignment": _augmented,
        "type": _annotation,
        "string": _string,
        "if_statement": _branch,
        "elif_clause": _branch,
        "boolean_operator": _both,
        "assert_statement": _assertion,
        "as_pattern": _as_pattern,
        "case_pattern": _case,
        "parameters": _parameters,
        "lambda_parameters": _parameters,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    doc=_docstring,
    interpreters=("python", "python3"),
)  # fmt: skip
