"""What claims are worth, and what those who attack them get."""
