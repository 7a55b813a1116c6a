"""Tools for the files of the folder: read, list, search, edit and write.

``workspace`` is what they share; ``change_log`` makes several changes one and takes them back. Below them lie text encodings,
ignore rules and the folder walk.
"""
