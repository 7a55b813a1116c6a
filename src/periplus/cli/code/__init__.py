"""``periplus code``: what the code is, where it is used, and what a change of it reaches.

`commands` has the actions, `opening` finds the worktree and its index, `answers` writes for people; documents for programs are those of `code.documents`.
"""
