"""Roles of agents: what each is for, as Markdown with front matter. `roles` finds those that ship, the user's and a trusted project's;
`role_files` reads one.
"""
