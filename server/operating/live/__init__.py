"""A training as it can be watched: read from what it writes anyway, while it runs or afterwards."""
