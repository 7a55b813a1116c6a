"""The layer below all commands.

Parsing of arguments, printing, terminal output, the documents that several commands print with --json, and tables of actions. Its
public face is Face, which each command gets; no module here knows a command.
"""
