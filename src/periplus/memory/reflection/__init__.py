"""Reflection over sessions: `reflect` applies the rules of `command_rules` and `correction_rules` to the acts of sessions, `proposal` has the values, `proposal_records` writes proposals as candidates, `candidates` accepts and refuses them, also those of other projects.

Below lie retrieval and coordination.
"""
