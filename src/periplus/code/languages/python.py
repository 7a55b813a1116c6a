"""Python."""

from __future__ import annotations

__all__ = ["PYTHON"]

from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Bind, Extraction, Language, Naming

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
        else:
            extraction.bind_pattern(child)


def _docstring(_extraction: Extraction, node: tree_sitter.Node) -> tree_sitter.Node | None:
    body = node.child_by_field_name("body")
    if body is None:
        return None
    first = next((child for child in body.named_children[:2] if child.type != "comment"), None)
    string = first.named_child(0) if first is not None and first.type == "expression_statement" else None
    return string if string is not None and string.type == "string" else None


def _is_exported(_extraction: Extraction, _node: tree_sitter.Node, name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def _is_test(name: str, kind: str, _decorations: str) -> bool:
    return (kind == "function" and name.startswith("test")) or (kind == "class" and name.startswith("Test"))


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
        "for_statement": (Bind("left"),),
        "for_in_clause": (Bind("left"),),
        "named_expression": (Bind("name", "value"),),
        "as_pattern": (Bind("alias", 0),),
        "augmented_assignment": (Bind("left"),),
    },
    accesses={
        "attribute": Access("object", "attribute"),
        "subscript": Access("value", step="[]"),
        "call": Access("function", step="()"),
    },
    transparent={"parenthesized_expression": 0, "await": 0},
    enters={"keyword_argument": ("value",), "type_parameter": (0, 1, 2, 3)},
    literals=frozenset(
        {"string", "concatenated_string", "integer", "float", "list", "dictionary", "set", "tuple", "list_comprehension",
         "dictionary_comprehension", "set_comprehension", "generator_expression", "true", "false"}
    ),
    nulls=frozenset({"none"}),
    selves=frozenset(),
    type_wrappers={"type": 0, "parenthesized_expression": 0},
    builtins=_BUILTINS,
    special={
        "import_statement": _import,
        "import_from_statement": _import_from,
        "future_import_statement": _import_from,
        "global_statement": _outer_names,
        "nonlocal_statement": _outer_names,
        "parameters": _parameters,
        "lambda_parameters": _parameters,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    doc=_docstring,
    interpreters=("python", "python3"),
)  # fmt: skip
