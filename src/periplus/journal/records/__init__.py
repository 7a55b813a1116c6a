"""Records and segments as bytes: the line of a record with its checksum, batches in a segment file, stubs of records whose content was removed, and the line-by-line repair of a damaged segment.

Pure functions over bytes; nothing here opens a file of a store. Lies at the bottom of the journal.
"""
