"""The health of a project's store: `examination` (doctor), `checkup` (the weekly one), `quick_check` (what is seen at once), `space` (files by kind), `repair`, `redaction`, `undo`, `secret_search` and `status`.

It stands above all other parts of the project, for it looks into each.
"""
