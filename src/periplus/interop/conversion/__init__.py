"""From the records of an agent to the steps of a trail, for all importers.

`source` gives an importer its file, `intake` collects steps while calls wait for results, `conversation` and `branches` follow a
transcript, and `tool_calls` plans the steps of a call. It stands on `interop.readers` and `interop.shell_commands`.
"""
