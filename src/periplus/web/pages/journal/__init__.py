"""The journal in a browser: records, the past, tree heads and proofs, and undoing."""
