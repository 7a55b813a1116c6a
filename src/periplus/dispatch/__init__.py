"""Several agents at once: a plan handed over, and merged, tested, reviewed work handed back."""
