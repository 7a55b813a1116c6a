"""Search for symbols: `documents` makes the terms of a symbol, `vocabulary` has the words of code for words of questions, `ranking` scores, `symbol_index` searches by meaning; `name_match` grades names, `name_index` searches by name.

The tables lie in a database that the caller opens; a symbol is known here by the number of its row.
"""
