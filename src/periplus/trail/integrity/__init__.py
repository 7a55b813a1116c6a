"""Checks of a trail by somebody who trusts nobody: verification of a file, Ed25519 signatures, the proof of a single step (as a value and as a file), and recovery of what is sound in a damaged file.

The public face is `verification.verify`, `signature.sign`, `step_proof.step_proof`, `step_proof_file` and `recovery.salvage`. It
lies above `trail.format`.
"""
