"""Commands that connect Periplus with other programs.

Coding agents (connect, disconnect, hook), clients of MCP (mcp) and shells (completion).
"""
