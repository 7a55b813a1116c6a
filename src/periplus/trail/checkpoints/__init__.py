"""File states at the checkpoints of a trail: git trees computed without git, the notes of file steps, recorded file states, and the judgement whether the steps of a trail give the files that its checkpoints name.

The public face is `effects.judge_effects`. It lies above `trail.recording`; replays use it.
"""
