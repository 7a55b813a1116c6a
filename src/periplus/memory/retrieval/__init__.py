"""Search and recall: `recall` answers a question, `search` gets candidates from the full text, `spelling` finds words that are one edit away, `word_overlap` counts shared words, `duplicates` finds memory that says the same, `file_votes` and `related` predict the files of a task, `listing` gives memory in pages.

Below lie the index, anchors and succession.
"""
