"""``periplus dispatch ACTION``: `commands` has the table of its actions.

`start` runs a dispatch; all others read its records or write some, and work from any process.
"""
