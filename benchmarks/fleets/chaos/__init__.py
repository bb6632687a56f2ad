"""Parts of ``chaos.py``."""
