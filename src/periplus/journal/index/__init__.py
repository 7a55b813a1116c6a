"""The SQLite index derived from the records: file, tables, overlay of records not yet indexed, lookups of single records, and rebuild.

`tables` is its public face; `indexed_journal` states what the modules above need of an open journal. Below lies `storage`.
"""
