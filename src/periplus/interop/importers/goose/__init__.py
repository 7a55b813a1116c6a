"""Sessions of Goose.

`files` finds them in the database or in a file of lines, `session` turns their messages into steps.
"""
