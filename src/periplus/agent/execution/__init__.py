"""Parts of the loop: checks of a model's calls, cancellation, retries, the schedule of calls, and the state of the turn in progress.

``loop`` and ``session`` drive them. They know the contracts and the episodes, and nothing of tools, files or the store.
"""
