"""Comparing protocols: bytes, seconds, accuracy and whom each asks to be trusted."""
