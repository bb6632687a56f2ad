"""Choosing hyper-parameters on data that need no protection."""
