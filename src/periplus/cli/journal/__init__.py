"""Commands that read the journal and prove it.

History (log, blame, undo), proofs (prove, head, verify) and redaction, with what they need to print lists of any length.
"""
