"""Commands of people who simulate, compare and audit."""
