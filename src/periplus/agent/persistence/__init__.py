"""Sessions in the project's store: the run log and its episodes, the steps of their trails, an index of turns, and checkpoints of tasks.

``run_log`` is where a session writes; ``stored_episodes`` and ``turn_index`` are for readers. Below it lie the tape and the
journal.
"""
