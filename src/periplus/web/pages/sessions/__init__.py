"""Pages of sessions: `list` shows all, `session` one with its outline, `step` one step whole, `comparison` two; `files` makes the shared
file and verifies.
"""
