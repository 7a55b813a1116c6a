"""Version 1 of the trail format, Trail-FLUX: reader, writer, hex listing, and conversion to and from a program.

It lies above `trail.program` and `trail.listings`.
"""
