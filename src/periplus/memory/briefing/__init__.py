"""Reports for an agent: `brief` is what to know before a task, with the sections of `work_sections`; `recent_changes` is what others changed since.

Below lie retrieval and coordination.
"""
