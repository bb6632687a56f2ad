"""What reports are made of: numbers in words, tables, charts, and what a certificate says."""
