"""Keeping a mirror up to date: who signs it, what expires, signing again."""
