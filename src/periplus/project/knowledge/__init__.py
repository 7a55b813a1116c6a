"""The memory of a project as agents and people use it: `work` (claims, plans, handoffs, mail, sessions), `task_brief` (briefs and related files), `review` (stale memory and checks) and `reflection` (candidates from trails).

`grounds` and `anchor_commits` compare memory with the worktree and its commits. Below lie the trails of the project and the
package `periplus.memory`.
"""
