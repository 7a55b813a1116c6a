"""Trails for people: the selection of steps, the listing as text, hex or JSON lines, and the comparison of two trails.

The public face is `step_listing.listing`, `selection.Selection` and `comparison.compare`. It lies above `trail.format`.
"""
