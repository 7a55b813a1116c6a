"""Contexts in a browser: refs, commits, expansions within a budget, comparisons, and holders of each."""
