"""Boards on a device: fetched, checked, kept."""
