"""Actions of periplus trail that convert.

Worklogs to trails and back, version 1 to version 2 and back, several trails to one file, session files of agents to trails, and
trails to other formats.
"""
