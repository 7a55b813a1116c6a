"""Checks of a trail that trust nothing: verification, Ed25519 signatures, proofs of single steps, recovery of damaged
files.

The public face is `verification.verify`, `signature.sign`, `step_proof.step_proof` (the proof of a step as a
value), `step_proof_file` (as a file) and `recovery.salvage`. It lies above `trail.format`.
"""
