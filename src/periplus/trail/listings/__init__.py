"""Trails for people: selection of steps, listings as text, hex or JSON lines, and comparison of two trails.

The public face is `step_listing.listing`, `selection.Selection` and `comparison.compare`. It lies above
`trail.format`.
"""
