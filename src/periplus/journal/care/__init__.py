"""Care of a store: `doctor` examines it, `repair` repairs what `doctor` found, and `redaction` removes content permanently.

The other modules are parts of these three. Everything else in the journal lies below.
"""
