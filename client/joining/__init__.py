"""A device becomes a member of a fleet."""
