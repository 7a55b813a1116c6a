"""Health of the store in a browser: problems with their mending commands, space, checkpoints, peers, hooks."""
