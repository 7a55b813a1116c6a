"""Extensions: what the parts beside the core bring to a session.

``contract`` says what an extension may bring and what it is given; ``standard`` lists the extensions of every session, and each
other module connects one part (perception, plugins, skills, subagents, MCP servers) to it. The parts themselves know nothing of
extensions.
"""
