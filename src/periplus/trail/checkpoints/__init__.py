"""File states at the checkpoints of a trail, and the check whether its steps give them.

Git trees are computed without git; notes describe the files of a step; the recorder stores file states as objects. The
public face is `effects.judge_effects`. It lies above `trail.recording`; replays use it.
"""
