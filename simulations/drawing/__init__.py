"""How figures, tables and pages are made."""
