"""Memory in a browser: a list that is also a search, one entity with all that is known of it, and changes by the rules of the commands."""
