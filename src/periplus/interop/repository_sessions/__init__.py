"""Sessions that other tools keep in the refs of a git repository: checkpoints of Entire, notes of git-ai."""
