"""Experiments of Jain et al. 2021: personal models on a representation that all users learn together."""
