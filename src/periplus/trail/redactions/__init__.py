"""Redaction of a trail that is to be shared.

The policy chooses which strings to withhold, with a search for traces of a removed text and regular expressions in a
separate process. The withholding itself keeps digest and signature. The public face is `policy.redact_trail` and
`withholding.withhold`. It lies above `trail.format`.
"""
