"""Turns that left the tape, as pages that the file tools read, list and search.

``handle_pages`` is the page source of a session; ``turn_source`` is the protocol that finds and reads turns.
"""
