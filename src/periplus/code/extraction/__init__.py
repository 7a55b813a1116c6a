"""Facts of source files: syntax trees to definitions, imports and references."""
