"""Entity files for people and git: rendering them, keeping them up to date together with the index, and taking edits made in them into the journal.

`projector` and `external_edits` are its public face. Below lie `index` and `checkpoints`.
"""
