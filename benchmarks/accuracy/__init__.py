"""How good boards are."""
