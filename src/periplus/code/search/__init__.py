"""Search for symbols: `name_match` grades names, `name_index` searches by name.

The tables lie in a database that the caller opens.
"""
