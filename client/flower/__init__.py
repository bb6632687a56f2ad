"""Answering inside Flower apps of one's own."""
