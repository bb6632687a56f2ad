"""Experiments of Epasto et al. 2020: how much one user may contribute."""
