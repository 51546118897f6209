"""Which layers an early-exit drafter can do without: the search, and what it found."""
