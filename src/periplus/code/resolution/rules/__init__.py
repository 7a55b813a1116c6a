"""Meaning of imports and free names, a module for each family of languages; `table` has the shape, `registry` finds them by language."""
