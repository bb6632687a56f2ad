"""Residual alternating minimisation: release only what the board does not explain yet."""
