"""Experiments of Krichene et al. 2023: private matrix factorisation where items differ in popularity."""
