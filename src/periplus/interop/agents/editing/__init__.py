"""Editing of configuration files as text, one entry at a time: JSON with comments, JSON5, TOML, YAML and Markdown."""
