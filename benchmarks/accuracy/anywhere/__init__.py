"""Parts of ``anywhere.py``."""
