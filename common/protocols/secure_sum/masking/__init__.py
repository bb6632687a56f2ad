"""Masks that cancel in a sum, and shares of their secrets, for when somebody drops out."""
