"""Parts of ``stream.py``."""
