"""``fedboard audit``: its attacks, how far they are, and what came of them."""
