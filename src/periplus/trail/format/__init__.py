"""The bytes of a trail file: layout, string table, steps section, identity (commitments, tree root, receipts, digest), builder and reader.

The public face is `builder.TrailBuilder`, `reader.TrailReader`, `encoder.encode` and `concatenation` (several trails in one
file); `periplus.trail` re-exports them. Below it lie only the values of `trail.model` and the table of `trail.opcodes`.
"""
