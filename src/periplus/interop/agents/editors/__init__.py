"""Agents within an editor, each a row of the table."""
