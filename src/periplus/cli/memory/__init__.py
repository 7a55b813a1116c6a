"""Commands that read and change memory.

One module for each group: knowledge (remember, recall, brief, show), lifecycle, review, relevance (related, changed) and
candidates (reflect, candidates), with their schemas beside them.
"""
