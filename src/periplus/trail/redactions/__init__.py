"""Redaction of a trail that is to be shared: the policy that chooses which strings to withhold, the search for traces of a removed text, regular expressions in a separate process, and the withholding itself, which keeps digest and signature.

The public face is `policy.redact_trail` and `withholding.withhold`. It lies above `trail.format`.
"""
