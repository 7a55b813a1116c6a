"""Java."""

from __future__ import annotations

__all__ = ["JAVA"]

from typing import Final

from periplus.code.languages.table import Language, Naming

JAVA: Final = Language(
    "java", (".java",), "tree_sitter_java", "language",
    {
        "class_declaration": Naming("class", is_class=True),
        "interface_declaration": Naming("interface", is_class=True),
        "enum_declaration": Naming("enum", is_class=True),
        "record_declaration": Naming("record", is_class=True),
        "annotation_type_declaration": Naming("annotation"),
        "method_declaration": Naming("method"),
        "constructor_declaration": Naming("method"),
        "compact_constructor_declaration": Naming("method"),
        "variable_declarator": Naming("field", is_outer=True),
        "enum_constant": Naming("value"),
    },
    frozenset({"method_declaration", "constructor_declaration", "lambda_expression", "static_initializer"}),
    frozenset({"field_declaration", "constant_declaration"}),
    comments=frozenset({"line_comment", "block_comment"}),
)  # fmt: skip
