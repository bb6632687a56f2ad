"""The second of two servers as a process of its own: for protocol ``two-server``."""
