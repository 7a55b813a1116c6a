"""Text for search and for models: search terms, secrets and their shapes, estimates of tokens.

Pure.
"""
