"""Masked contributions: the server learns their sum and nothing else."""
