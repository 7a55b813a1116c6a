"""The part of the store's index that belongs to memory: `documents` makes searchable documents of entities and trails, `index_rows` makes rows of documents, `list_rows` those of lists, `indexer` writes them, `index_check` compares them with the journal, and `links` finds entities by the value of a field.

Below lie the entity types and the words.
"""
