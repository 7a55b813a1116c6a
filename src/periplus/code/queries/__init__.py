"""Questions to the code map: `symbol_lookup` finds what a name means, `references` who names a symbol and what it names, `impact` what
depends on it.
"""
