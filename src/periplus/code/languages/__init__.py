"""Languages of the code map, a row each: which nodes of a syntax tree define, bind, refer and import.

`table` has the shape of a row, `registry` finds the row of a file.
"""
