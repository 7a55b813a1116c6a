"""Rust."""

from __future__ import annotations

__all__ = ["RUST"]

from typing import Final

from periplus.code.languages.table import Language, Naming

RUST: Final = Language(
    "rust", (".rs",), "tree_sitter_rust", "language",
    {
        "function_item": Naming("function"),
        "function_signature_item": Naming("function"),
        "struct_item": Naming("struct"),
        "enum_item": Naming("enum"),
        "union_item": Naming("struct"),
        "trait_item": Naming("trait", is_class=True),
        "type_item": Naming("type"),
        "mod_item": Naming("module"),
        "macro_definition": Naming("macro"),
        "const_item": Naming("value", is_outer=True),
        "static_item": Naming("value", is_outer=True),
        "impl_item": Naming("", ("type/~type_identifier|primitive_type",)),
    },
    frozenset({"function_item", "closure_expression"}),
    leading=frozenset({"attribute_item"}),
    comments=frozenset({"line_comment", "block_comment"}),
)  # fmt: skip
