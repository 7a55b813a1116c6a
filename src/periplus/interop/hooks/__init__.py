"""Events that agents send to their hooks.

`events` decodes and answers them and loads fast, `size_limit` shortens large ones, and `steps` turns them into the steps that an
import of the same session makes.
"""
