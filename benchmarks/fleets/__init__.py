"""Fleets of real processes, their protocols and their readers: cost, and what disturbs them."""
