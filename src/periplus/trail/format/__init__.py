"""The bytes of a trail file: layout, string table, steps section, identity, builder and reader.

The identity of a trail is its commitments, tree root, receipts and digest. The public face is `builder.TrailBuilder`,
`reader.TrailReader`, `encoder.encode` and `concatenation` (several trails in one file); `periplus.trail`
re-exports them. Below it lie only the values of `trail.model` and the table of `trail.opcodes`.
"""
