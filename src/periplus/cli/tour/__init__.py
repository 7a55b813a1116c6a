"""The command periplus tour.

A demonstration in a scratch store, and its last part, a recorded run of the agent.
"""
