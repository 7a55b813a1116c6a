"""Pages of docs/reference that are generated from tables of the program.

periplus.cli.reference writes them; the JSON Schema of events comes from here, too.
"""
