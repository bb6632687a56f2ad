"""Distributed point functions: a number at a secret place of a table, shared between two servers by short keys."""
