"""What Periplus costs beside the bare work: ``python -m bench`` measures both in the same run and prints the ratios."""
