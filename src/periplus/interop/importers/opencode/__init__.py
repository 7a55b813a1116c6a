"""Sessions of opencode.

`files` is the importer and finds the sessions in folders or in the `database`; `session` turns messages and their parts into
steps.
"""
