"""Logs of Inspect, as JSON or as a zip archive.

`log` is the importer; `samples` turns one sample of a log into a trail.
"""
