"""The table of languages: where the grammar comes from, and which nodes of its trees are definitions."""

from __future__ import annotations

__all__ = ["LANGUAGES", "Language", "Naming"]

from collections.abc import Mapping
from typing import Final, NamedTuple


class Naming(NamedTuple):
    """The rule by which a syntax node defines a name. An empty ``kind`` only opens a scope. ``fields`` lead to the parts of the
    name, by fields of the grammar from the node (``a/b``), or to the first node below of given types (``~x|y``);
    all but the last may be absent. With ``is_outer`` only nodes outside of functions count.
    """

    kind: str
    fields: tuple[str, ...] = ("name",)
    is_outer: bool = False
    not_names: frozenset[str] = frozenset()


class Language(NamedTuple):
    """``wrappers`` belong to the definition within them, ``leading`` to the one after them."""

    name: str
    module: str
    entry: str
    definitions: Mapping[str, Naming]
    functions: frozenset[str]
    wrappers: frozenset[str] = frozenset()
    leading: frozenset[str] = frozenset()


_FUNCTION: Final = Naming("function")
_METHOD: Final = Naming("method")
_CLASS: Final = Naming("class")
_TYPE: Final = Naming("type")
_IN_PYTHON: Final = frozenset({"function_definition", "lambda"})
_IN_SCRIPT: Final = frozenset(
    {"function_declaration", "function_expression", "generator_function_declaration", "generator_function", "arrow_function",
     "method_definition"}
)  # fmt: skip
_PATTERNS: Final = frozenset({"object_pattern", "array_pattern"})
_SCRIPT: Final[dict[str, Naming]] = {
    "function_declaration": _FUNCTION,
    "generator_function_declaration": _FUNCTION,
    "class_declaration": _CLASS,
    "method_definition": _METHOD,
    "field_definition": Naming("field", ("property",)),
    "variable_declarator": Naming("value", is_outer=True, not_names=_PATTERNS),
}
_TYPED_SCRIPT: Final[dict[str, Naming]] = {
    **_SCRIPT,
    "abstract_class_declaration": _CLASS,
    "interface_declaration": Naming("interface"),
    "type_alias_declaration": _TYPE,
    "enum_declaration": Naming("enum"),
    "internal_module": Naming("module"),
    "module": Naming("module"),
    "function_signature": _FUNCTION,
    "method_signature": _METHOD,
    "abstract_method_signature": _METHOD,
    "public_field_definition": Naming("field"),
}
_SCRIPT_WRAPPERS: Final = frozenset(
    {"export_statement", "lexical_declaration", "variable_declaration", "expression_statement"}
)
_SCRIPT_LEADING: Final = frozenset({"decorator"})
_PYTHON: Final = Language(
    "python", "tree_sitter_python", "language",
    {
        "function_definition": _FUNCTION,
        "class_definition": _CLASS,
        "assignment": Naming("value", ("left",), is_outer=True,
                             not_names=frozenset({"attribute", "subscript", "pattern_list", "tuple_pattern", "list_pattern"})),
        "type_alias_statement": Naming("type", ("left",)),
    },
    _IN_PYTHON,
    frozenset({"decorated_definition", "expression_statement"}),
)  # fmt: skip
_JAVASCRIPT: Final = Language(
    "javascript", "tree_sitter_javascript", "language", _SCRIPT, _IN_SCRIPT, _SCRIPT_WRAPPERS, _SCRIPT_LEADING
)
_TYPESCRIPT: Final = Language("typescript", "tree_sitter_typescript", "language_typescript", _TYPED_SCRIPT, _IN_SCRIPT, _SCRIPT_WRAPPERS,
                              _SCRIPT_LEADING)  # fmt: skip
_IN_GO: Final = frozenset({"function_declaration", "method_declaration", "func_literal"})
_GO: Final = Language(
    "go", "tree_sitter_go", "language",
    {
        "function_declaration": _FUNCTION,
        "method_declaration": Naming("method", ("receiver/~type_identifier", "name")),
        "type_spec": Naming("type", is_outer=True),
        "type_alias": Naming("type", is_outer=True),
        "const_spec": Naming("value", is_outer=True),
        "var_spec": Naming("value", is_outer=True),
    },
    _IN_GO,
)  # fmt: skip
_IN_RUST: Final = frozenset({"function_item", "closure_expression"})
_RUST: Final = Language(
    "rust", "tree_sitter_rust", "language",
    {
        "function_item": _FUNCTION,
        "function_signature_item": _FUNCTION,
        "struct_item": Naming("struct"),
        "enum_item": Naming("enum"),
        "union_item": Naming("struct"),
        "trait_item": Naming("trait"),
        "type_item": _TYPE,
        "mod_item": Naming("module"),
        "macro_definition": Naming("macro"),
        "const_item": Naming("value", is_outer=True),
        "static_item": Naming("value", is_outer=True),
        "impl_item": Naming("", ("type/~type_identifier|primitive_type",)),
    },
    _IN_RUST,
    leading=frozenset({"attribute_item"}),
)  # fmt: skip
_IN_JAVA: Final = frozenset(
    {"method_declaration", "constructor_declaration", "lambda_expression", "static_initializer"}
)
_JAVA: Final = Language(
    "java", "tree_sitter_java", "language",
    {
        "class_declaration": _CLASS,
        "interface_declaration": Naming("interface"),
        "enum_declaration": Naming("enum"),
        "record_declaration": Naming("record"),
        "annotation_type_declaration": Naming("annotation"),
        "method_declaration": _METHOD,
        "constructor_declaration": _METHOD,
        "compact_constructor_declaration": _METHOD,
        "variable_declarator": Naming("field", is_outer=True),
        "enum_constant": Naming("value"),
    },
    _IN_JAVA,
    frozenset({"field_declaration", "constant_declaration"}),
)  # fmt: skip

LANGUAGES: Final[dict[str, Language]] = {
    ".py": _PYTHON,
    ".pyi": _PYTHON,
    ".js": _JAVASCRIPT,
    ".cjs": _JAVASCRIPT,
    ".jsx": _JAVASCRIPT,
    ".mjs": _JAVASCRIPT,
    ".ts": _TYPESCRIPT,
    ".cts": _TYPESCRIPT,
    ".mts": _TYPESCRIPT,
    ".tsx": _TYPESCRIPT._replace(entry="language_tsx"),
    ".go": _GO,
    ".rs": _RUST,
    ".java": _JAVA,
}
