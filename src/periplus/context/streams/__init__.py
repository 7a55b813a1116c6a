"""Streams of an expansion: chunks, best first, each with its proof, and the verifier of a reader.

The public face is `chunks.ChunkCutter`, `chunk_proof.ChunkVerifier` and `proof_source.ProvingCutter`. It lies
above `context.records`.
"""
