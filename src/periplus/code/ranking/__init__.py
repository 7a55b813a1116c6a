"""Files of a view in the order in which a task needs them: `task_words` finds those that say the task's words, `file_links` those that
they depend on, `page_rank` weighs both, `repository_map` shows the first ones within a budget of tokens.
"""
