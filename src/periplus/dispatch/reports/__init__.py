"""Reports of dispatches, from records alone: `board` is the state of one, `events` its course, `standing` compares agents, `spans` are its
events for OpenTelemetry.
"""
