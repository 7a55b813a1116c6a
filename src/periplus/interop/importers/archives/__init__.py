"""Importers of sessions that other tools keep: renderings in Markdown, notes on commits, trajectories of a task.

These tools copy what an agent said and lose a part of it. Where the agent's own record can be told, the trail names its
format as the original, and gives way to it in a store (see ``project.trail_store.cards``).
"""
