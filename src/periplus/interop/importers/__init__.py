"""Session files of coding agents as trails, a module or a package for each format.

The table in `interop.formats` names the modules; each has `is_mine(head)` and `read(source)`. They stand on `interop.conversion`
and `interop.readers`, and on no other importer but that of Claude Code, whose records Cursor can write too.
"""
