"""Sessions as values: the timeline of a trail, the file that is shared, and its verification."""
