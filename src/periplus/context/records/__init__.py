"""Records of contexts: the canonical bytes whose SHA-256 is the digest of a context.

Layout, pages of atoms, the header view, encoding and decoding. The public face is `record.encode`, `record.decode`
and `header_view.read_header`. Below it lie only the values of `context.model`, `context.types` and
`context.validation`.
"""
