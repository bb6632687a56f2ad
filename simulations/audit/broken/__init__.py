"""Runs that are broken on purpose, which an audit must notice."""
