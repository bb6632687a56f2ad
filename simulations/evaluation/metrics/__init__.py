"""Metrics on held-out data, as the papers define them. Not private: for simulations only."""
