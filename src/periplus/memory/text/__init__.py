"""Words of memory: `synonyms` groups words of like meaning, `word_vectors` uses a model of the user's, `named_paths` finds the paths that a text names, `own_calls` finds the calls of Periplus in a trail.

Nothing here reads the index.
"""
