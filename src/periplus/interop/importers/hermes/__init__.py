"""Sessions of Hermes: `files` finds them in the database or in a document, `session` turns their messages into steps."""
