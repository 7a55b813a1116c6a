"""Bounded reading of foreign files: lines, JSON documents of any size, and values of JSON that may have any type.

Nothing here knows an agent or a trail.
"""
