"""Answers of the code map as JSON documents: `schemas` is their shape, `values` makes them. The command line and the MCP server give the same ones."""
