"""Selection of the atoms that fit the budget of a model.

Filters, lexical search (BM25), ranking, near duplicates, token counters, the packing of a budget, and the reason for
each atom in or out. The public face is `search.select` and `search.query`. It lies above `context.model` and
`context.types`.
"""
