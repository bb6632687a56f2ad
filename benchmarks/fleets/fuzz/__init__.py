"""Parts of ``fuzz.py``."""
