"""Agents who work side by side: `claims` and `claim_queue`, `plans` and `stuck_work`, `handoffs`, `mail` and `sessions`; `path_check` and `path_glance` answer hooks that ask whether some paths may be touched, `claim_undo` guards claims when records are undone.

Below lies the writing of memory.
"""
