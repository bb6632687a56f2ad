"""Sums in the open: the smallest protocol that can be registered."""
