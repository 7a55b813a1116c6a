"""The actions of periplus trail.

commands has the table, schemas the documents of --json; each action has a module of its name, and those that write and read other
forms of trails are in conversion.
"""
