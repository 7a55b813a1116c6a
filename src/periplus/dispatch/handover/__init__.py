"""Texts between the supervisor and an agent: `work_prompt` and `review_prompt` go to it, `result_file` is its answer.

All functions are pure but for the one that reads the file. Below them: `returns` (why work goes back to its author), `prompt_parts` (a
text within a budget of tokens), `diff_excerpt` and `foreign_text`.
"""
