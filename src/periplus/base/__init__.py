"""Foundation of all layers: errors, files, clock, ids, encodings, locks, secrets."""
