"""The entity types of memory: `types` is the table of types with their states and life cycles, `schemas` has the shapes of their payloads, `declared_types` reads the types that a project declares, and `validity` decides whether an entity still holds.

Nothing of memory lies below.
"""
