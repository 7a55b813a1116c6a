"""Streams of an expansion: chunks, best first, with the proof that each chunk carries and the verifier that a reader runs.

The public face is `chunks.ChunkCutter`, `chunk_proof.ChunkVerifier` and `proof_source.ProvingCutter`. It lies above
`context.records`.
"""
