"""Commands of whoever checks, books or spends a guarantee."""
