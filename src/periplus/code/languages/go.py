"""Go."""

from __future__ import annotations

__all__ = ["GO"]

from typing import Final

from periplus.code.languages.table import Language, Naming

GO: Final = Language(
    "go", (".go",), "tree_sitter_go", "language",
    {
        "function_declaration": Naming("function"),
        "method_declaration": Naming("method", ("receiver/~type_identifier", "name")),
        "type_spec": Naming("type", is_outer=True, is_class=True),
        "type_alias": Naming("type", is_outer=True),
        "const_spec": Naming("value", is_outer=True),
        "var_spec": Naming("value", is_outer=True),
    },
    frozenset({"function_declaration", "method_declaration", "func_literal"}),
)  # fmt: skip
