"""Settings chosen on the users' own ratings, paid for: trials, one release that compares them, the final run."""
