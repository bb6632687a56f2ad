"""A witness: it says of each log that it knows which tree it has seen, and never of two that do not go together."""
