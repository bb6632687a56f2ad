"""Judging a board on held-out data. Not private: for simulations only."""
