"""The pages of the code: a tree map of the project, its symbols, the impact of changes."""
