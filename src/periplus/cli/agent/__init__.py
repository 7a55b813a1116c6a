"""Commands of the agent.

A run with its output, questions and statistics, and its settings: setup, models, servers, trust, skills and plugins.
"""
