"""Two servers that do not collude, each with a share of what a user gives."""
