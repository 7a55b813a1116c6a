"""The actions of periplus context.

commands has the table, schemas the documents of --json, text the lines for people; each action has a module of its name.
"""
