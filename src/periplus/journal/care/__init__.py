"""Care of a store: `doctor` examines it, `repair` mends what `doctor` found, and `redaction` removes content for good.

The other modules are parts of these three. Everything else in the journal lies below.
"""
