"""The hooks of agents and their connection: `hooks` takes in the events that hooks left and answers them, `hook_answers` chooses the facts that an agent is given, `session_end` seals, reflects on and hands off a session, `connection` writes the settings of agents.

Below lie the trails and the knowledge of the project.
"""
