"""Smoothly bounded contributions of users who have many values each (Epasto et al. 2020)."""
