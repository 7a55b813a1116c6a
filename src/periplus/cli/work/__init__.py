"""Commands of coordination.

Claims, plans, handoffs, mail and sessions of agents that work at the same time, with their schemas and the text that they share.
Candidates of memory come from cli.memory below.
"""
