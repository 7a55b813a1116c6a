"""Chains of deltas: ancestry, molecules, the smallest delta, look-up of atoms, comparison, merge and log.

The log includes blame and bisect. The public face is `delta.compress`, `comparison.diff`, `merge.merge` and
`log.log`. It lies above `context.model` and `context.store_protocol`.
"""
