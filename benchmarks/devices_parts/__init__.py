"""Parts of ``benchmarks/devices.py``."""
