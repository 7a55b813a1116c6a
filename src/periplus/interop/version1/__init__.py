"""Folders of version 1, the older notification log.

`folder` reads a whole folder, `documents` converts between entity files and payloads, `fields`, `plan_steps` and `vocabulary`
hold the mapping, `json_text` parses and writes JSON without loss of style.
"""
