"""The columnar form in which the object store keeps a trail: numbers in columns, without what can be computed.

The public face is `packed_trail.pack` and `packed_trail.unpack`. It lies above `trail.format`.
"""
