"""JavaScript, TypeScript and TSX."""

from __future__ import annotations

__all__ = ["JAVASCRIPT", "TSX", "TYPESCRIPT"]

from typing import Final

from periplus.code.languages.table import Language, Naming

_FUNCTION: Final = Naming("function")
_METHOD: Final = Naming("method")
_CLASS: Final = Naming("class", is_class=True)
_TYPE: Final = Naming("type")
_FUNCTIONS: Final = frozenset(
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
    "variable_declarator": Naming("value", is_outer=True, not_names=_PATTERNS, value="value"),
}
_TYPED_SCRIPT: Final[dict[str, Naming]] = {
    **_SCRIPT,
    "abstract_class_declaration": _CLASS,
    "interface_declaration": Naming("interface", is_class=True),
    "type_alias_declaration": _TYPE,
    "enum_declaration": Naming("enum"),
    "internal_module": Naming("module"),
    "module": Naming("module"),
    "function_signature": _FUNCTION,
    "method_signature": _METHOD,
    "abstract_method_signature": _METHOD,
    "public_field_definition": Naming("field"),
}
_WRAPPERS: Final = frozenset(
    {"export_statement", "lexical_declaration", "variable_declaration", "expression_statement"}
)
_LEADING: Final = frozenset({"decorator"})
JAVASCRIPT: Final = Language(
    "javascript",
    (".js", ".cjs", ".jsx", ".mjs"),
    "tree_sitter_javascript",
    "language",
    _SCRIPT,
    _FUNCTIONS,
    _WRAPPERS,
    _LEADING,
)
TYPESCRIPT: Final = Language(
    "typescript", (".ts", ".cts", ".mts"), "tree_sitter_typescript", "language_typescript", _TYPED_SCRIPT, _FUNCTIONS, _WRAPPERS,
    _LEADING,
)  # fmt: skip
TSX: Final = TYPESCRIPT._replace(extensions=(".tsx",), entry="language_tsx")
