"""Commands of whoever operates a fleet."""
