"""Checking what was promised: certificates, boards and ledgers against each other, and what releases cost."""
