"""The resolved edges of a view, kept in the index so that questions about the whole graph need no resolution.

`interface` compares two versions of a file, `encoding` packs rows, `store` holds the tables, `update` brings them up to date, `reading`
answers from them.
"""
