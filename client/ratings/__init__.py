"""A person's own ratings, and those of many users on one machine."""
