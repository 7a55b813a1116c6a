"""Several agents at once: a plan goes in, verified and merged work comes out.

``processes`` carry agents and checks, ``repository`` is git for writing, ``adapters`` know the agents, ``handover`` what they
are told and what they hand in, ``roles`` and ``loops`` how they work, ``supervision`` decides, ``reports`` show it. All state is
records of the journal (``memory.coordination.assignments``); the folders that a dispatch uses lie in the user's state folder
(``places``).
"""
