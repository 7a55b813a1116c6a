"""Bytes of values: canonical JSON, digests, variable-length integers, the container of tagged sections, and small parsers.

Pure; it stands on `base.errors`.
"""
