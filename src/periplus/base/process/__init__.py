"""Processes next to each other: locks between them, wake-ups, marks that tell whether one still runs, and connections across a fork."""
