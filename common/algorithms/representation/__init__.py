"""Personal models on a linear representation that all users learn together, after Jain et al. (2021)."""
