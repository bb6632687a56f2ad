"""Parts of ``round.py``."""
