"""How one user's budget is shared among her items: a file for each weighting."""
