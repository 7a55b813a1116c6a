"""The index of the code map: facts by blob, views by worktree, both in one SQLite file that can be thrown away.

`database` opens the file, `blob_rows` and `view_rows` write it, `workers` parse, `refresh` brings a view up to date, `view_sources` reads it
for the resolver.
"""
