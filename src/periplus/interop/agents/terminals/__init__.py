"""Agents in a terminal, each a row of the table."""
