"""Backups of a server, and going on from one without spending anything twice."""
