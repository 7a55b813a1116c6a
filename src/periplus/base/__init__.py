"""Digests, canonical bytes, ids, clock, errors, atomic files, locks: what every layer stands on."""
