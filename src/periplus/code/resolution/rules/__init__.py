"""What imports and free names mean, a module for each family of languages; `table` has the shape, `registry` finds them by language."""
