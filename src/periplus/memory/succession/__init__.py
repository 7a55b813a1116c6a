"""Replacements of entities: `successors` finds the replacements of an entity, `late_changes` finds changes that another clone made to something already superseded, `lost_successors` finds what was superseded by something that is gone, and `conflict_settlement` says which change settles a conflict.

Below lies the index.
"""
