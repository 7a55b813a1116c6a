"""Writing memory: `remember` writes a new entity, `lifecycle` changes states and supersedes, evolves, merges and splits entities, `write_keys` recognises a write that is repeated with its key.

Below lie retrieval and the status of claims.
"""
