"""Traces of OpenTelemetry with spans of generative models.

`traces` is the importer; `spans` reads the file formats, `messages` the conventions for prompts and answers.
"""
