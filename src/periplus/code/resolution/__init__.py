"""Names of one file resolved to definitions in others: `sources` is what the resolver reads, `resolver` follows targets step by step,
`rules` say for each language what an import means.
"""
