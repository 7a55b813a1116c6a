"""The trails of a project: `session_import` makes them of agents' sessions and of git history, `recording` of runs as they happen, `session_runs` of sessions whose hooks are connected, and `transcript_watch` follows files that still grow.

`lookup` finds a trail and reads it, `session_list` lists sessions in pages. `cards` is what the journal announces of a trail, `withholding` keeps redacted texts out.
Below lie the open store and the package `periplus.trail`.
"""
