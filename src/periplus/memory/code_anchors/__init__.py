"""Anchors of memory in code: `anchors` has their values and tells whether they are stale, `anchor_creation` makes them of what a person names, `anchor_renewal` finds them again where the code is now.

Below lies the package `periplus.code`.
"""
