"""``fedboard demo`` and what it shows."""
