"""Sessions of Copilot Chat in VS Code.

`files` is the importer: it knows a session's document, its log of changes (read by `operation_log`) and the stream of
events. `session` turns a request with its response into steps; `invocations` reads the calls in a response, and
`tools` names VS Code's tools as other agents do.
"""
