"""Pages of work: plans, claims, mail, handoffs, and dispatches with their lanes."""
