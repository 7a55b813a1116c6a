"""The SQLite index derived from the records: its file and tables, the overlay of records that it does not have yet, lookups of single records, and its rebuild.

`tables` is its public face; `indexed_journal` states what the modules above need of an open journal. Below lies `storage`.
"""
