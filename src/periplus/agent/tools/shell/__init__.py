"""Tools that run programs: commands in the sandbox, background processes, and Python that calls tools.

``commands`` and ``code_tools`` are the public modules.
"""
