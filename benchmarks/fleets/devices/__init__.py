"""Parts of ``devices.py``."""
